"""Noted rows: turns executions noted with their outputs, or reported in blocks, into rows.

Invariant: the recording is the same as if they had come as events.
"""

from __future__ import annotations

from array import array as array_of
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np

from nodescope.record import blocks
from nodescope.record.block_columns import collect
from nodescope.record.kept.collected import KeptArrays
from nodescope.record.kept.packing import MOST
from nodescope.record.measured.collected import Measured
from nodescope.record.measured.collected import statistics_of as measured_of
from nodescope.record.measured.statistics import Integers, Statistics
from nodescope.record.noted_outputs import (
    ARRAYS,
    MOVE,
    SEQ,
    NotedLot,
    NotedStatistics,
    statistics_of,
)
from nodescope.record.operand_writers import Move, OperandWriters
from nodescope.record.queued import QueuedBlock, QueuedOutputs
from nodescope.record.rows import BEHIND, HAS_INF, HAS_NAN, HAS_SUMMARY, WANTED
from nodescope.record.timed.collected import Collected
from nodescope.record.value_rows import ValueRows

Row = tuple[Any, ...]
Spec = tuple[int, int, str, str]
"""Seq, value, dtype and shape of an output."""

AT_ONCE_BYTES: Final = 16 << 20
"""Lots are processed when they take this much memory, so that a processor with a large cache still
holds it, and the program is rarely interrupted."""

_PARTS: Final = 16
"""Or one part in so many of the byte budget: elements that are processed together also give way
together."""

_TIMES: Final = 6  # how many columns of `NotedStatistics.executions` are those of `Collected`


class Noted:
    """The noted executions of a batch.

    Args:
        timed: Takes the times of the executions.
        values: The definitions of values.
        writers: Receives the operands of each execution.
        budget_bytes: The budget for elements.

    Attributes:
        measured: The statistics of the outputs.
        flags: By seq, the flags of executions that produced NaN or Inf.
        operands: Rows of the table ``operand``.
        kept: The outputs themselves, where they are kept.
    """

    def __init__(
        self, timed: Collected, values: ValueRows, writers: OperandWriters,
        budget_bytes: int = _PARTS * AT_ONCE_BYTES,
    ) -> None:  # fmt: skip
        self._timed, self._values, self._writers = timed, values, writers
        self._at_once = min(budget_bytes // _PARTS, AT_ONCE_BYTES)
        self._open: list[QueuedOutputs] = []
        self._open_bytes = self._open_outputs = 0
        # Arrays that moved: the last seq before, and the arguments of `OperandWriters.moved`.
        self._moves: list[Move] = []
        self._seen: list[Statistics] = []
        self.measured = Measured()
        self.kept = KeptArrays()
        self.flags: dict[int, int] = {}
        self.operands: list[Row] = []

    def add(self, item: QueuedOutputs) -> None:
        """Add a lot."""
        if self._open_outputs + item.lot.outputs > MOST:
            self.note()
        self._open.append(item)
        self._open_outputs += item.lot.outputs
        if item.lot.moves:
            numbers = iter(array_of("q", item.lot.moves))
            for after, value, before, now in zip(*[numbers] * MOVE, strict=True):
                self._moves.append((item.seq - 1 + after, value, before, now))
        self._open_bytes += item.lot.nbytes
        if self._open_bytes >= self._at_once:
            self.note()

    def moved(self, value: int, before: int, now: int) -> None:
        """See `OperandWriters.moved`."""
        if not self._open:
            self._writers.moved(value, before, now)
        else:
            latest = self._open[-1]
            self._moves.append((latest.seq + len(latest.lot) - 1, value, before, now))

    def block(self, item: QueuedBlock) -> list[blocks.Row]:
        """Add a block; return statistics that columns cannot hold, as rows of ``summary``."""
        self.note()
        rows, flags = collect(item, self._timed, self.measured)
        self.flags.update(flags)
        return rows

    def note(self) -> None:
        """Process the lots added so far. Must be called before later executions are processed."""
        items, self._open, self._open_bytes, self._open_outputs = self._open, [], 0, 0
        for reduced, some in groupby(items, lambda item: item.lot.statistics is not None):
            for part in ([item] for item in some) if reduced else ([*some],):
                self._note(part)
        for _, *arrays in self._moves:
            self._writers.moved(*arrays)
        self._moves = []

    def _note(self, items: Sequence[QueuedOutputs]) -> None:
        lots, firsts = [item.lot for item in items], [item.seq for item in items]
        keep, reduced = lots[0].keep, lots[0].statistics
        columns = (
            reduced.numbered(firsts[0]) if reduced else statistics_of(lots, firsts, place=keep)
        )
        flags = HAS_SUMMARY | (0 if not keep else BEHIND if reduced else WANTED)
        self._timed.add_numbered(columns.executions[:, :_TIMES], flags)
        statistics = measured_of(columns)
        self.measured.add(statistics)
        self._seen.append(statistics)
        if keep and not reduced:
            self.kept.add(statistics, columns, lots)
        self._note_operands(lots, columns)
        if columns.nonfinite:
            self._note_nonfinite(statistics, flags)

    def _note_operands(self, lots: Sequence[NotedLot], columns: NotedStatistics) -> None:
        nodes = list(chain.from_iterable([lot.nodes for lot in lots]))
        seqs, counts = columns.executions[:, SEQ], columns.executions[:, ARRAYS]
        # In Python: an array function, however small, would hand the interpreter's lock over.
        ran = seqs.tolist() if self._moves else ()
        among = bisect_right(self._moves, ran[-1], key=itemgetter(0)) if ran else 0
        moves, self._moves = self._moves[:among], self._moves[among:]
        moves = [(bisect_right(ran, move[0]), *move[1:]) for move in moves]
        rows = self._writers.many_ran(seqs, nodes, counts, columns.identities, moves)
        self.operands += [(None, *row) for row in rows]

    def _note_nonfinite(self, of: Statistics, flags: int) -> None:
        rows = np.flatnonzero(of.nan | of.inf)
        columns = (of.seqs[rows], of.nan[rows], of.inf[rows])
        for seq, nan, inf in zip(*(column.tolist() for column in columns), strict=True):
            bits = self.flags.get(seq, flags)
            self.flags[seq] = bits | (HAS_NAN if nan else 0) | (HAS_INF if inf else 0)

    def respecified(self, others: Sequence[Spec]) -> Iterator[Row]:
        """Rows of the table ``value`` for outputs whose dtype or shape has changed.

        Args:
            others: Specs of outputs that came as events, in order.
        """
        known, changed = self._values.specs.get, self._values.changed
        specs = self._specs(others)
        if others:
            specs = merge(specs, others, key=itemgetter(0))
        for seq, value, dtype, shape in specs:
            spec = known(value)
            if spec is not None and (spec[1] != dtype or spec[2] != shape):
                again = changed(seq, value, dtype, shape)
                if again is not None:
                    yield again

    def _specs(self, others: Sequence[Spec]) -> Iterable[Spec]:
        """Specs of outputs that may differ from the value's previous one."""
        if not self._seen:
            return
        places: dict[tuple[str, str], int] = {}
        alike: dict[int, Integers] = {}  # by identity: steps that repeat each other have the same
        parts = []
        for of in self._seen:
            if id(of.specs) not in alike:
                numbers = [places.setdefault(spec[:2], len(places)) for spec in of.specs]
                alike[id(of.specs)] = np.array(numbers, dtype=np.int64)
            parts.append(alike[id(of.specs)][of.kinds])
        specs, kinds = [*places], np.concatenate(parts)
        seqs = np.concatenate([of.seqs for of in self._seen])
        values = np.concatenate([of.values for of in self._seen])
        several = np.array([spec[1] for spec in others], dtype=np.int64)
        rows = self._values.differing(seqs, values, kinds, specs, several)
        columns = (seqs[rows], values[rows], kinds[rows])
        for seq, value, kind in zip(*(column.tolist() for column in columns), strict=True):
            yield (seq, value, *specs[kind])

    def taken_out(self) -> list[Row]:
        """Rows of the table ``execution`` for executions that produced NaN or Inf, as readers look
        for those there. Executions that were taken out before are omitted.
        """
        return self._timed.take_out(self.flags) if self.flags else []
