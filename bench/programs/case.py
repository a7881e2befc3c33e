"""A case: one program at one size, as several contenders.

Invariant: a contender that cannot run, or gives other numbers than the reference, is left out with
its reason, never timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.programs.ours import not_as_asked

Array = np.ndarray[Any, Any]

EAGER, NUMPY, C = "eager", "compiled, numpy", "compiled, C"
HAND, TORCH, TORCH_COMPILE, JAX = "numpy by hand", "torch", "torch.compile", "jax.jit"
PLAIN = "compiled, node by node"
BACKENDS = {PLAIN: "plain", NUMPY: "numpy", C: "c"}
OURS = (NUMPY, C)  # that have numbers to reach


@dataclass(frozen=True)
class Limit:
    """What one of our back ends has to reach: its time as a multiple of a peer's."""

    peer: str
    must: float | None = None
    aim: float | None = None


@dataclass(frozen=True)
class Contender:
    """A program, ready to run.

    Attributes:
        run: One run; all of its work is done when it returns.
        arrays: What a run that has just returned gave, as arrays, in the order of the reference.
        compiled: Our compiled function, for a look inside; None for all others.
        inputs: What ``compiled`` is called with.
    """

    run: Callable[[], Any]
    arrays: Callable[[Any], Sequence[Array]]
    compiled: Any = None
    inputs: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Case:
    """One program at one size.

    Attributes:
        name: For the reader, with its size.
        makers: How each contender is made; imports what it needs.
        reference: The results, computed by hand in float64.
        limits: By back end of ours.
        tolerance: Largest difference, as a share of a result's largest element.
        exact: Compiled without C it gives the bits of the eager run.
    """

    name: str
    makers: Mapping[str, Callable[[], Contender]]
    reference: Callable[[], Sequence[Array]]
    limits: Mapping[str, Limit]
    tolerance: float = 1e-3
    exact: bool = True


@dataclass
class Field:
    """The contenders that agree.

    Attributes:
        first_s: Seconds from making each, its library loaded before or not, to its first results.
        left_out: Why the others are left out.
    """

    contenders: dict[str, Contender] = field(default_factory=dict)
    first_s: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def line_up(case: Case, names: Sequence[str] | None = None) -> Field:
    """Make the contenders and run each once; those stay that give the reference's numbers."""
    expected = [np.asarray(array) for array in case.reference()]
    fields = Field()
    first: dict[str, list[Array]] = {}
    for name in names or tuple(case.makers):
        start = time.perf_counter()
        try:
            contender = case.makers[name]()
            first[name] = [np.array(array) for array in contender.arrays(contender.run())]
            elapsed = time.perf_counter() - start
        except ImportError as missing:
            fields.left_out[name] = f"{missing.name or missing} is not installed"
            continue
        except Exception as error:  # the table says so; one contender does not end the others
            message = str(error).strip().splitlines() or [""]
            fields.left_out[name] = f"{type(error).__name__}: {message[0]}"
            continue
        instead = ""
        if contender.compiled is not None:
            instead = not_as_asked(contender.compiled, BACKENDS[name])
        wrong = instead or difference(first[name], expected, case.tolerance)
        if not wrong and name in (PLAIN, NUMPY) and case.exact and EAGER in first:
            wrong = other_bits(first[name], first[EAGER])
        if wrong:
            fields.left_out[name] = wrong
        else:
            fields.contenders[name] = contender
            fields.first_s[name] = elapsed
    return fields


def difference(results: Sequence[Array], expected: Sequence[Array], tolerance: float) -> str:
    """How results differ from the reference, beyond rounding; ``""`` if they do not."""
    if len(results) != len(expected):
        return f"gives {len(results)} results instead of {len(expected)}"
    for i, (result, right) in enumerate(zip(results, expected, strict=True)):
        if result.dtype != np.float32:
            return f"its result {i} is {result.dtype}, not float32"
        if result.shape != right.shape:
            return f"its result {i} has the shape {result.shape}, not {right.shape}"
        far = float(np.abs(result.astype(np.float64) - right).max(initial=0.0))
        scale = float(np.abs(right).max(initial=0.0))
        if not far <= tolerance * scale + 1e-7:  # true for NaN, too
            return f"its result {i} is off by {far:.2g}, where the largest element is {scale:.2g}"
    return ""


def other_bits(results: Sequence[Array], expected: Sequence[Array]) -> str:
    """Which result has other bits than eagerly; ``""`` if none."""
    for i, (result, other) in enumerate(zip(results, expected, strict=True)):
        if result.tobytes() != other.tobytes():
            return f"its result {i} has other bits than eagerly"
    return ""
