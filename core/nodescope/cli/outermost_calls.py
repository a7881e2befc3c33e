"""Outermost calls of compiled functions by the program: the duration and result of each.

A call within another call is part of the outermost one and is not reported.

Invariant: the result of a call is unchanged; digests only read arguments and results.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from nodescope.engine.static.compiled import CompiledFunction
from nodescope.engine.tensor import Tensor
from nodescope.engine.trees import flatten
from nodescope.ir.differences import CallLog, LoggedCall

Digests = Mapping[str, Sequence[int]]
"""By function name: the digest of each call's result."""


def after_each(
    took: Callable[[str, int, Any, Any], None],
    before: Callable[[Any], Any] = lambda arguments: None,
) -> Callable[[], None]:
    """Report each outermost call after it ends.

    Args:
        took: Called with the function's name, the nanoseconds, the result (None if it raised), and
            the result of ``before``.
        before: Called with the arguments before each call.

    Returns:
        A function that ends the reports.
    """
    plain = CompiledFunction._call
    here = threading.local()

    def call(
        self: CompiledFunction, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if getattr(here, "inside", False):
            return plain(self, owner, args, kwargs)
        here.inside = True
        result = None
        context = before((args, kwargs))
        began = time.perf_counter_ns()
        try:
            result = plain(self, owner, args, kwargs)
            return result
        finally:
            ended = time.perf_counter_ns()
            here.inside = False
            took(self.name, ended - began, result, context)

    def end() -> None:
        CompiledFunction._call = plain  # type: ignore[method-assign]

    CompiledFunction._call = call  # type: ignore[method-assign]
    return end


class Logged:
    """The log of a run's calls. Thread-safe."""

    def __init__(self, step: Callable[[], int]) -> None:
        """``step`` returns the current training step."""
        self._step = step
        self._names: dict[str, int] = {}
        self._calls: list[LoggedCall] = []
        self._lock = threading.Lock()

    def took(self, name: str, took: int, result: Any, given: int) -> None:
        """Add a call to the log; see `after_each`."""
        leaves = flatten(result)[0]
        arrays = any(leaf.__class__ is Tensor or isinstance(leaf, np.ndarray) for leaf in leaves)
        gave, step = digest(result), self._step()
        with self._lock:
            number = self._names.setdefault(name, len(self._names))
            self._calls.append(LoggedCall(number, step, given, gave, arrays))

    def log(self) -> CallLog:
        """The log so far."""
        with self._lock:
            return CallLog(tuple(self._names), tuple(self._calls))


def digest(result: Any) -> int:
    """A checksum of a call's arguments or result: equal for equal bits; all NaN are equal."""
    number = 0
    for leaf in flatten(result)[0]:
        array = leaf.data if leaf.__class__ is Tensor else leaf
        if isinstance(array, np.ndarray):
            number = zlib.crc32(f"{array.dtype}{array.shape}".encode(), number)
            number = zlib.crc32(_bits(array), number)
        elif isinstance(array, bool | int | float | complex | str | None):
            number = zlib.crc32(repr(array).encode(), number)
    return number


def _bits(array: Any) -> bytes:
    if array.dtype.hasobject:
        return b""
    if array.dtype.kind in "fc":
        missing = np.isnan(array)
        if missing.any():
            array = np.where(missing, array.dtype.type(np.nan), array)
    return bytes(array.tobytes())


def agreed(runs: Sequence[Digests]) -> dict[str, list[int]]:
    """By function: the digests common to all runs, up to the first call in which two differ."""
    names = list(runs[0]) if runs else []
    return {
        name: [
            calls[0]
            for calls in takewhile(
                lambda calls: len(set(calls)) == 1,
                zip(*(run.get(name, ()) for run in runs), strict=False),
            )
        ]
        for name in names
    }
