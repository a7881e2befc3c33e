"""Batched statistics: those of `summarise` for many small arrays, in few NumPy calls.

A training step creates hundreds of small tensors, each needing a handful of numbers; one call per
number and tensor would cost more than the program itself.

Invariant: a row equals `summary_row(summarise(array))`, except for the order of sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from nodescope import native
from nodescope.arrays import dtype_name
from nodescope.events import Array
from nodescope.record.schema import shape_text, summary_row
from nodescope.record.summary import (
    BINS,
    EXACT_IN_FLOAT64,
    PREVIEW,
    TINY,
    TensorSummary,
    summarise,
)

SMALL = 4096
"""Arrays of up to this many elements are summarised together."""
# Elements of one stack: as many as fit in the second-level cache as float64.
_STACK = 65_536
# Below this number of arrays, summarising them one by one is faster.
_WORTHWHILE = 4

Item = tuple[int, int, int, Array | TensorSummary]
"""Value id, seq and step of an output, and its array or its summary."""
Row = tuple[Any, ...]


def summary_rows(items: Iterable[Item]) -> Iterator[Row]:
    """Rows of table ``summary``, not in the order of the items."""
    if native.in_use():
        yield from map(_alone, items)
        return
    groups: dict[tuple[tuple[int, ...], Any], list[Item]] = {}
    for item in items:
        content = item[3]
        if (
            isinstance(content, TensorSummary)
            or not 0 < content.size <= SMALL
            or content.dtype.char not in EXACT_IN_FLOAT64
        ):
            yield _alone(item)
        else:
            groups.setdefault((content.shape, content.dtype), []).append(item)
    for (shape, dtype), group in groups.items():
        stack_size = max(_STACK // math.prod(shape), 1)
        for start in range(0, len(group), stack_size):
            part = group[start : start + stack_size]
            if len(part) < _WORTHWHILE:
                yield from map(_alone, part)
            else:
                yield from _together(part, shape, dtype)


def _alone(item: Item) -> Row:
    value, seq, step, content = item
    if not isinstance(content, TensorSummary):
        statistics = native.statistics(content, BINS, packed=True)
        if statistics is not None:
            shape, dtype = shape_text(content.shape), dtype_name(content.dtype)
            return (value, seq, step, dtype, shape, content.nbytes, *statistics)
    summary = content if isinstance(content, TensorSummary) else summarise(content)
    return summary_row(value, seq, step, summary)


def _together(group: list[Item], shape: tuple[int, ...], dtype: Any) -> Iterator[Row]:
    """Rows of arrays of one shape and dtype."""
    flat = [member[3].reshape(-1) for member in group]  # type: ignore[union-attr]
    size = flat[0].size
    with np.errstate(all="ignore"):
        stack = np.concatenate(flat, dtype=np.float64, casting="unsafe").reshape(-1, size)
        squares = np.einsum("ij,ij->i", stack, stack)
        # As in `summarise`: an extreme of zero has no sign.
        low, high = np.minimum.reduce(stack, axis=1) + 0.0, np.maximum.reduce(stack, axis=1) + 0.0
        span = high - low
        # As in `summarise`: finite squares prove that every element is finite. Others are rare.
        plain = (squares < math.inf) & (squares > TINY) & ((span == 0) | (span >= TINY))
        plain |= (low == 0) & (high == 0)
        if not plain.all():
            for item, fits in zip(group, plain.tolist(), strict=True):
                if not fits:
                    yield _alone(item)
            group = [member for member, fits in zip(group, plain.tolist(), strict=True) if fits]
            if not group:
                return
            stack, squares = stack[plain], squares[plain]
            low, high, span = low[plain], high[plain], span[plain]
        count = len(group)
        mean = np.minimum(np.maximum(np.add.reduce(stack, axis=1) / size, low), high)
        centred = stack - mean[:, None]
        std = np.sqrt(np.einsum("ij,ij->i", centred, centred) / size)
        std[span == 0] = 0.0
        scale = np.divide(BINS, span, out=np.zeros(count), where=span > 0)
        places = ((stack - low[:, None]) * scale[:, None]).astype(np.intp)
        # The maximum itself belongs to the last bin.
        np.minimum(places, BINS - 1, out=places)
        places += np.arange(0, count * BINS, BINS)[:, None]
        histograms = np.bincount(places.reshape(-1), minlength=count * BINS).astype("<u8").tobytes()
        zeros = np.add.reduce(stack == 0, axis=1, dtype=np.intp).tolist()
        preview_size = min(size, PREVIEW)
        previews = stack[:, :preview_size].astype("<f8").tobytes()
        norm = np.sqrt(squares)
    spec = (dtype_name(dtype), shape_text(shape), size * dtype.itemsize)
    numbers = (column.tolist() for column in (low, high, mean, std, norm))
    wide, narrow = 8 * BINS, 8 * preview_size
    for at, (item, *moments, zero) in enumerate(zip(group, *numbers, zeros, strict=True)):
        yield (
            *item[:3],
            *spec,
            *moments,
            0,
            0,
            zero,
            histograms[at * wide : at * wide + wide],
            previews[at * narrow : at * narrow + narrow],
        )
