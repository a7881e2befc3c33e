"""Block columns: turns executions that were reported in blocks into columns of the file.

Invariant: readers get the same data as if the executions had been reported one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodescope.ir.track import Track
from nodescope.record import blocks
from nodescope.record.measured.collected import Measured
from nodescope.record.measured.packing import is_measured
from nodescope.record.measured.statistics import Floats, Integers, OutputSpec, Statistics
from nodescope.record.queued import QueuedBlock
from nodescope.record.rows import HAS_INF, HAS_NAN, HAS_SUMMARY
from nodescope.record.schema import shape_text
from nodescope.record.summary import PREVIEW
from nodescope.record.timed.collected import Collected

AT_ONCE: Final = 1 << 12
"""The most executions, and roughly the most outputs, added at once, as rows are limited."""

_MOST: Final = 4 * AT_ONCE  # outputs of one execution


class _Outputs(NamedTuple):
    """The executions and outputs of a track, in columns.

    Attributes:
        nodes: The node of each execution.
        firsts: See `Track`.
        counts: How many outputs each execution has.
        values: The value of each output.
        kinds: The index in ``specs`` of each output's spec, if ``measured``.
        specs: The specs whose statistics are kept in columns.
        sizes: How many elements each output has.
        previewed: How many elements each output's preview has.
        rest: By output, which places of its preview hold no element.
        all_previewed: Whether there is no such place.
        all_have: Whether each execution has outputs.
        measured: Whether statistics of each output's dtype and shape are kept in columns.
        all_measured: Whether those of all outputs are.
    """

    nodes: Integers
    firsts: Integers
    counts: Integers
    values: Integers
    kinds: Integers
    specs: tuple[OutputSpec, ...]
    sizes: Integers
    previewed: Integers
    rest: NDArray[np.bool_]
    all_previewed: bool
    all_have: bool
    measured: NDArray[np.bool_]
    all_measured: bool


def collect(
    block: QueuedBlock, timed: Collected, measured: Measured
) -> tuple[list[blocks.Row], dict[int, int]]:
    """Add executions, and the statistics of their outputs.

    Returns:
        Statistics that columns cannot hold, as rows of ``summary``; and, by seq, the flags of
        executions that produced NaN or Inf.
    """
    rows: list[blocks.Row] = []
    flags: dict[int, int] = {}
    track, table = block.event.track, block.event.statistics
    if table is not None and not isinstance(table, np.ndarray):
        table = table.resolve()  # a device may still be computing them
    outputs = _outputs_of(track)
    firsts = outputs.firsts
    for seq, begin, end in _parts(block, firsts):
        at = begin - block.event.first
        _add_times(block, outputs, seq, at, end - begin, timed, summed=table is not None)
        if table is None or firsts[begin] == firsts[end]:
            continue
        some = table[firsts[begin] - firsts[block.event.first] :][: firsts[end] - firsts[begin]]
        seqs = np.repeat(np.arange(seq, seq + end - begin), outputs.counts[begin:end])
        rows += _add_statistics(block, outputs, int(firsts[begin]), seqs, some, measured, flags)
    return rows, flags


def _parts(block: QueuedBlock, firsts: Integers) -> Iterator[tuple[int, int, int]]:
    """Split a block into small parts: yield the first seq, the first index and the end index."""
    begin, last = block.event.first, block.event.first + block.many
    if block.many <= AT_ONCE and firsts[last] - firsts[begin] <= AT_ONCE:  # most blocks
        yield block.seq, begin, last
        return
    while begin < last:
        end = int(np.searchsorted(firsts, firsts[begin] + AT_ONCE, side="right")) - 1
        end = min(max(end, begin + 1), begin + AT_ONCE, last)
        yield block.seq + begin - block.event.first, begin, end
        begin = end


def _add_times(
    block: QueuedBlock, outputs: _Outputs, seq: int, at: int, many: int, timed: Collected, *,
    summed: bool,
) -> None:  # fmt: skip
    event = block.event
    begin = event.first + at
    table = np.empty((many, 5), np.int64)
    table[:, 0] = outputs.nodes[begin : begin + many]
    table[:, 1], table[:, 2] = event.step, event.thread
    table[:, 3:] = event.times[at : at + many]
    if not summed or outputs.all_have:
        timed.add(seq, table.tobytes(), HAS_SUMMARY if summed else 0)
        return
    # An execution without outputs has no statistics.
    has = outputs.counts[begin : begin + many] > 0
    turns = np.flatnonzero(has[1:] != has[:-1]) + 1
    for first, last in zip([0, *turns.tolist()], [*turns.tolist(), many], strict=True):
        timed.add(seq + first, table[first:last].tobytes(), HAS_SUMMARY if has[first] else 0)


def _add_statistics(
    block: QueuedBlock, outputs: _Outputs, begin: int, seqs: Integers, table: Any,
    measured: Measured, flags: dict[int, int],
) -> list[blocks.Row]:  # fmt: skip
    """Add statistics of outputs from ``begin`` on; return those that columns cannot hold."""
    among = slice(begin, begin + len(table))
    finite, nan, inf, zero = (table[name] for name in ("finite", "nan", "inf", "zero"))
    for nth in np.flatnonzero(nan | inf).tolist():
        seq = int(seqs[nth])
        bits = (HAS_NAN if nan[nth] else 0) | (HAS_INF if inf[nth] else 0)
        flags[seq] = flags.get(seq, HAS_SUMMARY) | bits
    fits = (finite + nan + inf == outputs.sizes[among]) & (
        table["previewed"] == outputs.previewed[among]
    )
    if not outputs.all_measured or len(table) > _MOST:
        fits &= outputs.measured[among] & (len(table) <= _MOST)
    if fits.all():
        chosen: Any = slice(None)
    else:
        chosen = np.flatnonzero(fits)
    moments: Floats = table["moments"][chosen]
    histograms, previews = table["histogram"][chosen].view(np.int64), table["preview"][chosen]
    if (nothing := finite[chosen] == 0).any():
        moments, histograms = moments.copy(), histograms.copy()
        moments[nothing], histograms[nothing] = 0, 0
    if not outputs.all_previewed and previews[rest := outputs.rest[among][chosen]].any():
        previews = previews.copy()
        previews[rest] = 0
    if len(moments):
        measured.add(
            Statistics(
                seqs[chosen], outputs.values[among][chosen],
                np.full(len(moments), block.event.step, np.int64), outputs.kinds[among][chosen],
                outputs.specs, nan[chosen], inf[chosen], zero[chosen], moments, histograms,
                previews,
            )
        )  # fmt: skip
    if fits.all():
        return []
    return blocks.rows_among(block, begin, seqs.tolist(), table, np.flatnonzero(~fits).tolist())


def _outputs_of(track: Track) -> _Outputs:
    known: _Outputs | None = track.notes.get("outputs")
    if known is None:
        known = track.notes["outputs"] = _columns_of(track)
    return known


def _columns_of(track: Track) -> _Outputs:
    places: dict[OutputSpec, int] = {}
    kinds = []
    for output in track.values:
        spec = OutputSpec(output.dtype, shape_text(output.shape), output.nbytes)
        kinds.append(places.setdefault(spec, len(places)))
    of = np.array(kinds, np.int64)
    sizes = np.array([spec.size for spec in places], np.int64)[of]
    previewed = np.minimum(sizes, PREVIEW)
    counts, rest = np.diff(track.firsts), np.arange(PREVIEW) >= previewed[:, None]
    held = np.array([is_measured(spec) for spec in places], bool)
    return _Outputs(
        np.array([node.id for node in track.nodes], np.int64), np.array(track.firsts, np.int64),
        counts, np.array([output.value for output in track.values], np.int64),
        (np.cumsum(held) - 1)[of], tuple(filter(is_measured, places)), sizes,
        previewed, rest, not rest.any(), bool((counts > 0).all()), held[of], bool(held.all()),
    )  # fmt: skip
