"""Value format: arrays and values at a moment, in one line or as numbers.

Invariant: pure; text from the program is made printable, so that no name can control a terminal.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from nodescope.arrays.lazy import HeldArray, LazyArray, whole
from nodescope.console_output import visible
from nodescope.debug.history.history import ValueAtMoment
from nodescope.errors import ArrayError
from nodescope.events import Array
from nodescope.record.captures import summary_of
from nodescope.record.summary import TensorSummary, summarise

MAX_NUMBERS: Final = 1000
_EDGE: Final = 3
clean: Final = visible


def number(value: Any) -> str:
    """One element: ``0.25``, ``nan``, ``True``."""
    if isinstance(value, np.ndarray):
        value = value[()]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, complex):
        return f"{value:.6g}"
    return clean(str(value))


def summary_line(summary: TensorSummary) -> str:
    """Shape, dtype and notable statistics: ``float32 (64, 10), -1.5 … 2.25, mean 0.1, 3 NaN``."""
    parts = [str(summary.spec)]
    if summary.min is not None and summary.max is not None:
        if summary.spec.shape:
            parts.append(f"{summary.min:.4g} … {summary.max:.4g}")
            parts.append(f"mean {summary.mean:.4g}")
        else:
            parts[0] += f" {summary.min:.6g}"
    if summary.nan_count:
        parts.append(f"{summary.nan_count} NaN")
    if summary.inf_count:
        parts.append(f"{summary.inf_count} Inf")
    return ", ".join(parts)


def array_line(array: HeldArray) -> str:
    """Like `summary_line`, for an array; an array of a few numbers is written out."""
    if array.size != 1 and (array.ndim > 1 or array.size > 6):
        return summary_line(summary_of(array))
    array = whole(array)
    head = str(summarise(array).spec)
    if array.size == 1:
        return f"{head} {'[' * array.ndim}{number(array.reshape(()))}{']' * array.ndim}"
    return f"{head} [{', '.join(number(element) for element in array)}]"


def seen_line(value: ValueAtMoment, step: int | None = None) -> str:
    """A value in one line; with its step if that differs from ``step``."""
    if value.array is not None:
        try:
            line = array_line(value.array)
        except ArrayError as error:
            line = f"({error})"
    elif value.summary is not None:
        line = f"{summary_line(value.summary)} ({value.missing})"
    else:
        line = f"({value.missing})"
    if step is not None and value.seq and value.step != step:
        line += f" of step {value.step}"
    return line


def numbers(array: HeldArray, width: int = 100) -> str:
    """The elements as text, in lines of ``width``; for many, the first and last of each axis."""
    threshold = MAX_NUMBERS
    if isinstance(array, LazyArray) and array.size > MAX_NUMBERS:
        array, threshold = _edges(array), 0
    with np.printoptions(threshold=threshold, edgeitems=_EDGE, linewidth=width, precision=6):
        return clean(np.array2string(whole(array)))


def _edges(array: LazyArray) -> Array:
    """The first and last elements along each axis, with one hidden element in between."""
    cut = [size > 2 * _EDGE + 1 for size in array.shape]
    shape = [2 * _EDGE + 1 if long else size for long, size in zip(cut, array.shape, strict=True)]
    edges = np.zeros(shape, array.dtype)
    ends = (slice(None, _EDGE), slice(-_EDGE, None))
    for corner in itertools.product(*(ends if long else (slice(None),) for long in cut)):
        edges[corner] = array[corner]
    return edges


def result_line(result: Any) -> str:
    """The result of an expression."""
    if isinstance(result, np.ndarray | LazyArray):
        return array_line(result)
    if isinstance(result, tuple):
        inside = ", ".join(result_line(element) for element in result)
        return f"({inside},)" if len(result) == 1 else f"({inside})"
    return number(result)
