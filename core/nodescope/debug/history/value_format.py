"""Formatting: arrays and values at a moment, in one line or as numbers.

Invariant: pure; text from the program is made printable, so that no name can control a terminal.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nodescope.debug.history.history import ValueAtMoment
from nodescope.events import Array
from nodescope.record.summary import TensorSummary, summarise
from nodescope.telling import visible

MAX_NUMBERS: Final = 1000
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
    """Shape, dtype and what is remarkable: ``float32 64×10, -1.5 … 2.25, mean 0.1, 3 NaN``."""
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


def array_line(array: Array) -> str:
    """As `summary_line`, of an array; one of a few numbers is written out."""
    head = str(summarise(array).spec)
    if not array.shape:
        return f"{head} {number(array)}"
    if array.ndim == 1 and array.size <= 6:
        return f"{head} [{', '.join(number(element) for element in array)}]"
    return summary_line(summarise(array))


def seen_line(value: ValueAtMoment, step: int | None = None) -> str:
    """A value in one line; with its step where that is not ``step``."""
    if value.array is not None:
        line = array_line(value.array)
    elif value.summary is not None:
        line = f"{summary_line(value.summary)} ({value.missing})"
    else:
        line = f"({value.missing})"
    if step is not None and value.seq and value.step != step:
        line += f" of step {value.step}"
    return line


def numbers(array: Array, width: int = 100) -> str:
    """The elements as text, in lines of ``width``; of many, the first and last of each axis."""
    with np.printoptions(threshold=MAX_NUMBERS, edgeitems=3, linewidth=width, precision=6):
        return clean(np.array2string(array))


def result_line(result: Any) -> str:
    """What an expression gave."""
    if isinstance(result, np.ndarray):
        return array_line(result)
    if isinstance(result, tuple):
        inside = ", ".join(result_line(element) for element in result)
        return f"({inside},)" if len(result) == 1 else f"({inside})"
    return number(result)
