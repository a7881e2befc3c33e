"""A case: one program at one size, with several contenders.

Invariant: a contender that cannot run, or gives other numbers than the reference, is never timed,
but left out with a reason.
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
OURS = (NUMPY, C)  # the back ends with limits to keep


@dataclass(frozen=True)
class Limit:
    """Limits of one of nodescope's back ends: its time as a multiple of a peer's."""

    peer: str
    must: float | None = None
    aim: float | None = None


@dataclass(frozen=True)
class Contender:
    """A program, ready to run.

    Attributes:
        run: Runs the program once; all work is done when it returns.
        arrays: Converts the result of the latest run to arrays, in the order of the reference.
        compiled: nodescope's compiled function, for inspection; None for all others.
        inputs: The arguments of ``compiled``.
    """

    run: Callable[[], Any]
    arrays: Callable[[Any], Sequence[Array]]
    compiled: Any = None
    inputs: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Case:
    """One program at one size.

    Attributes:
        name: The program and its size, for the reader.
        makers: Make each contender, and import what it needs.
        reference: Computes the results in float64 with hand-written NumPy.
        limits: The limits of nodescope's back ends, by name.
        tolerance: The largest difference allowed, as a share of a result's largest element.
        exact: Whether it must be bit-identical to the eager run when compiled without C.
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
        contenders: The contenders, by name.
        first_s: The time from making each to its first results, in seconds; it may include
            loading its library.
        left_out: The reasons for those that are left out.
    """

    contenders: dict[str, Contender] = field(default_factory=dict)
    first_s: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def line_up(case: Case, names: Sequence[str] | None = None) -> Field:
    """Make the contenders and run each once; leave out those that differ from the reference."""
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
        except Exception as error:  # the table gives the reason; the other contenders go on
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
    """How results differ from the reference beyond rounding, or ``""``."""
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
    """Which result is not bit-identical to the eager run's, or ``""``."""
    for i, (result, other) in enumerate(zip(results, expected, strict=True)):
        if result.tobytes() != other.tobytes():
            return f"its result {i} has other bits than eagerly"
    return ""
