"""Blocks: rows of executions that were reported in columns, see `nodescope.ir.track`.

Invariant: the rows are the same as if the executions had been reported one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, Final

import numpy as np

from nodescope.record.queued import QueuedBlock
from nodescope.record.rows import HAS_INF, HAS_NAN, HAS_SUMMARY
from nodescope.record.schema import shape_text
from nodescope.record.summary import BINS, PREVIEW

STATISTICS: Final = np.dtype([
    ("moments", "<f8", 5), ("finite", "<i8"), ("nan", "<i8"), ("inf", "<i8"), ("zero", "<i8"),
    ("previewed", "<i8"), ("histogram", "<u8", BINS), ("preview", "<f8", PREVIEW),
])  # fmt: skip
"""Statistics of one output; the moments are min, max, mean, std and norm."""

NOT_KNOWN: Final = -1
"""For ``previewed``: the device has not computed the statistics."""

Row = tuple[Any, ...]


def rows_of(
    block: QueuedBlock, times: dict[int, int]
) -> tuple[list[Row], list[Row], dict[int, int]]:
    """Rows of the tables ``execution`` and ``summary``, and the flags of executions by seq.

    Args:
        block: The executions.
        times: How often each node has run; counted up.
    """
    summaries, flags = summary_rows(block)
    return execution_rows(block, times, flags), summaries, flags


def execution_rows(block: QueuedBlock, times: dict[int, int], flags: dict[int, int]) -> list[Row]:
    """Rows of the table ``execution``.

    Args:
        block: The executions.
        times: How often each node has run; counted up.
        flags: By seq, flags that are not 0.
    """
    event = block.event
    nodes = [node.id for node in event.nodes]
    counts = []
    for node in nodes:
        count = times[node] = times.get(node, 0) + 1
        counts.append(count)
    starts = event.times[:, 0].tolist()
    durations = (event.times[:, 1] - event.times[:, 0]).tolist()
    seqs = range(block.seq, block.seq + len(nodes))
    bits = [flags.get(seq, 0) for seq in seqs] if flags else repeat(0)
    return list(
        zip(seqs, nodes, repeat(event.step), repeat(event.thread), starts, durations, bits, counts)
    )


def summary_rows(block: QueuedBlock) -> tuple[list[Row], dict[int, int]]:
    """Rows of the table ``summary``, and the flags of their executions by seq."""
    event = block.event
    if event.statistics is None:
        return [], {}
    table = event.statistics
    if not isinstance(table, np.ndarray):  # a device may still be computing them
        table = table.resolve()
    firsts = event.track.firsts[event.first : event.first + block.many + 1]
    seqs = np.repeat(np.arange(block.seq, block.seq + block.many), np.diff(firsts)).tolist()
    flags = dict.fromkeys(seqs, HAS_SUMMARY)
    for nth in np.flatnonzero(table["nan"] | table["inf"]).tolist():
        row = table[nth]
        flags[seqs[nth]] |= (HAS_NAN if row["nan"] else 0) | (HAS_INF if row["inf"] else 0)
    return rows_among(block, firsts[0], seqs, table), flags


def rows_among(
    block: QueuedBlock, begin: int, seqs: Sequence[int], table: Any, places: Any = slice(None)
) -> list[Row]:
    """Rows of the table ``summary``.

    Args:
        block: The executions.
        begin: The index of the first output on the track.
        seqs: The seq of each output.
        table: The statistics of each output.
        places: The outputs to use; all by default.
    """
    event, table = block.event, table[places]
    heads = _heads(block)[begin : begin + len(seqs)]
    if not isinstance(places, slice):
        heads, seqs = [heads[at] for at in places], [seqs[at] for at in places]
    histograms, previews = table["histogram"].tobytes(), table["preview"].tobytes()
    columns = (table[name].tolist() for name in ("nan", "inf", "zero", "previewed", "finite"))
    rows: list[Row] = []
    wide, narrow = 8 * BINS, 8 * PREVIEW
    for nth, (head, seq, moments, nan, inf, zero, previewed, finite) in enumerate(
        zip(heads, seqs, table["moments"].tolist(), *columns, strict=True)
    ):
        if previewed == NOT_KNOWN:
            continue
        value, *spec = head
        rows.append((
            value, seq, event.step, *spec, *(moments if finite else _NONE), nan, inf, zero,
            histograms[nth * wide : (nth + 1) * wide] if finite else b"",
            previews[nth * narrow : nth * narrow + 8 * previewed],
        ))  # fmt: skip
    return rows


_NONE: Final = (None,) * 5


def _heads(block: QueuedBlock) -> list[Row]:
    """The value, dtype, shape as text and bytes of each output of the track."""
    track = block.event.track
    heads: list[Row] | None = track.notes.get("heads")
    if heads is None:
        heads = track.notes["heads"] = [
            (known.value, known.dtype, shape_text(known.shape), known.nbytes)
            for known in track.values
        ]
    return heads
