"""Perturbation: finds the input elements that a result depends on by running the operation again.

Used for operations about which nothing is known except how to run them. A bisection changes half of
an input slightly, and bisects the half again if the result changes. So few runs suffice to find the
relevant elements.

Invariant: never writes to its arguments; bounded in runs and time; deterministic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from nodescope.ops.op import Array
from nodescope.ops.reading import ElementDependence, Read, flat

MOST_RUNS: Final = 192
MOST_S: Final = 4.0
"""Time limit in seconds for one element."""

Run = Callable[[Sequence[Any]], tuple[Array, ...]]
"""Runs the operation on one array per input."""


class _TooManyError(Exception):
    """The limit of runs or time is reached."""


def perturbed(
    run: Run, inputs: Sequence[Any], outputs: Sequence[Array], position: int, port: int = 0
) -> ElementDependence | None:
    """The elements whose changes affect an element of an output.

    Changes start from the given values, or from other values if these hide the effect, as an
    infinite result does. Integers and masks are not changed, but listed as a whole.

    Args:
        run: Runs the operation on other inputs; may raise.
        inputs: Arrays, by port.
        outputs: Its results.
        position: The element, in C order.
        port: The output port.

    Returns:
        None if the operation is not reproducible, or has more elements than can be tried.
    """
    trial = _Trial(run, outputs, port, position)
    operands = [np.asarray(value) for value in inputs]
    try:
        recorded = flat(outputs[port], np.array([position]))
        if not np.allclose(
            trial.element(operands), recorded.astype(complex), 1e-3, 1e-6, equal_nan=True
        ):
            return None
        reads: list[Read] = []
        if np.isfinite(recorded.astype(complex)).all() and all(map(_finite, operands)):
            reads = trial.reads(operands)
        if not reads:
            reads = trial.reads([_generic(array, at) for at, array in enumerate(operands)])
    except Exception:  # raised by the library, or there are too many
        return None
    reads += [
        Read(at, np.arange(array.size), True)
        for at, array in enumerate(operands)
        if array.dtype.kind not in "fc" and array.size
    ]
    return ElementDependence(tuple(sorted(reads, key=lambda read: read.port)), exact=False)


class _Trial:
    """Runs of one operation, within the limits."""

    def __init__(self, run: Run, outputs: Sequence[Array], port: int, position: int) -> None:
        self._run, self._port, self._position = run, port, position
        self._shape = np.shape(outputs[port])
        self._left, self._until = MOST_RUNS, time.monotonic() + MOST_S

    def element(self, operands: Sequence[Array]) -> Array:
        """The element in question, for these inputs."""
        if not self._left or time.monotonic() > self._until:
            raise _TooManyError
        self._left -= 1
        with np.errstate(all="ignore"):
            result = np.asarray(self._run(operands)[self._port])
        if result.shape != self._shape:
            raise ValueError("the result has another shape")
        element: Array = flat(result, np.array([self._position])).astype(complex)
        return element

    def reads(self, operands: list[Array]) -> list[Read]:
        """The elements that affect the element, at these inputs."""
        before = self.element(operands)
        reads = []
        for port, array in enumerate(operands):
            if array.dtype.kind not in "fc" or not array.size:
                continue
            moved = _moved(array, port)
            places: list[int] = []
            waiting = [np.arange(array.size)]
            while waiting:
                part = waiting.pop()
                mixed = array.reshape(-1).copy()
                mixed[part] = moved[part]
                trial = [*operands[:port], mixed.reshape(array.shape), *operands[port + 1 :]]
                if np.array_equal(self.element(trial), before, equal_nan=True):
                    continue
                if part.size == 1:
                    places.append(int(part[0]))
                else:
                    waiting += [part[part.size // 2 :], part[: part.size // 2]]
            if places:
                reads.append(Read(port, np.array(places, np.int64)))
        return reads


def _finite(array: Array) -> bool:
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def _moved(array: Array, port: int) -> Array:
    """The elements, each changed slightly, by a different amount."""
    by = np.random.default_rng(port).uniform(0.5, 1.5, array.size)
    by *= 0.02 if array.dtype.itemsize < 4 else 1e-3
    elements = array.reshape(-1)
    moved: Array = (elements + by * (1 + np.abs(elements))).astype(array.dtype)
    return moved


def _generic(array: Array, port: int) -> Array:
    """Values at which no effect vanishes by chance; integers and masks unchanged."""
    if array.dtype.kind not in "fc":
        return array
    numbers = np.random.default_rng(100 + port).uniform(0.3, 0.7, array.shape)
    return np.asarray(numbers).astype(array.dtype)
