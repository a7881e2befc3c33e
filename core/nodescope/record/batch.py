"""Batch: turns the contents of the recorder's queue into rows, and writes them in one transaction.

Invariant: runs in the recorder's thread only; it sees copies, never the program's arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from nodescope.console_output import printable
from nodescope.events import (
    Array,
    ArrayMoved,
    Compiled,
    DeviceRan,
    GradientComputed,
    GraphCaptured,
    GraphExtended,
    HostSpan,
    Logged,
    LossesKnown,
    PassApplied,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    StepsUnobserved,
    ValueEdited,
)
from nodescope.ir.attrs import encode
from nodescope.ir.graph import Node
from nodescope.record import blocks
from nodescope.record.batch_summary import Item, summary_rows
from nodescope.record.document_kinds import KINDS
from nodescope.record.files.disk_space import Omit
from nodescope.record.newest.held_values import Whole
from nodescope.record.newest.nonfinite_retention import FirstNonfinite
from nodescope.record.noted_rows import Noted
from nodescope.record.noted_times import execution_rows
from nodescope.record.operand_writers import operand_writers
from nodescope.record.pending_arrays import PendingArrays
from nodescope.record.queued import (
    QueuedBlock,
    QueuedExecution,
    QueuedOutputs,
    QueuedTimes,
    Skipped,
    Told,
)
from nodescope.record.rows import (
    BEHIND,
    FAILED,
    HAS_INF,
    HAS_NAN,
    HAS_SUMMARY,
    LATER,
    UNWRITTEN,
    WANTED,
    Dropped,
    unwritten,
)
from nodescope.record.schema import END, OUTPUT, STRUCTURE, shape_text
from nodescope.record.span_rows import SpanRows, host_row, latest_end, spans_of, started_row
from nodescope.record.step_times.step_sums import StepSums
from nodescope.record.structure_rows import StructureRows
from nodescope.record.summary import TensorSummary
from nodescope.record.timed import packing
from nodescope.record.timed.collected import Collected
from nodescope.record.unobserved_rows import last_of, rows_of_unobserved
from nodescope.record.value_rows import ValueRows
from nodescope.record.writer import Writer

_SEQ = itemgetter(1)  # of a row of the table `summary`


class Batch:
    """Collects rows and writes them.

    Args:
        writer: The open file.
        level: The run's level, for its row.

    Attributes:
        seq, time_ns: The last record collected since the last commit, or 0; its time.
        threads: Identifiers of the threads that ran nodes.
        written: Copies of outputs that the last commit wrote and that are free for reuse.
        owed: Arrays still to be written, of executions that are already written.
        nonfinite: Where NaN, Inf and a non-finite loss first appeared.
        written_step: The latest training step that had begun at the last commit.
    """

    def __init__(self, writer: Writer, *, level: str) -> None:
        self._writer = writer
        self._level = level
        self._times: dict[int, int] = {}
        self._values = ValueRows()
        self._structure = StructureRows(self._values, self._add)
        self._spans = SpanRows()
        self.time_ns = 0
        self._begun: tuple[Any, ...] = (0,)  # the row of the latest step
        self.threads: set[int] = set()
        self.written: list[Array] = []
        self.owed = PendingArrays()
        self.nonfinite = FirstNonfinite()
        self._writers = operand_writers()
        self.written_step = 0
        # At level `graph`, earlier executions are deleted, and their sums with them.
        self._sums = StepSums() if level != "graph" else None
        self._clear()

    def _clear(self) -> None:
        self.seq = 0
        self._timed = Collected(self._times)
        budget_bytes = self._writer.arrays.budget_bytes
        self._noted = Noted(self._timed, self._values, self._writers, budget_bytes)
        self._rows: dict[str, list[tuple[Any, ...]]] = {"execution": []}
        self._outputs: dict[int, QueuedExecution] = {}
        self._late: set[int] = set()  # seqs of executions whose elements came later, as `Whole`
        self._latest: dict[int, tuple[Any, ...]] = {}
        self._arrays: list[tuple[int, int, Array]] = []
        self._summed: list[blocks.Row] = []  # statistics that came with blocks
        self._updates: list[tuple[str, tuple[Any, ...]]] = []
        self._steps: dict[int, tuple[Any, ...]] = {}
        self._nodes: list[Node] = []

    def abandon(self) -> None:
        """Close the file after a fault, and let go what was collected."""
        self._writer.abandon()
        self._clear()

    def takes_more(self) -> bool:
        """Whether it may hold more elements; not if what is around a first NaN would give way."""
        self.nonfinite.appeared_in(self._noted.flags)
        return not self.nonfinite.finds and self._writer.arrays.give_way(self._noted.kept.nbytes)

    def missed(self, node: int, times: int = 1) -> None:
        """Count executions without rows as runs of their node."""
        self._close_timed()
        self._times[node] = self._times.get(node, 0) + times

    def timed(self, item: QueuedTimes) -> int:
        """Collect executions without outputs; return their number."""
        self._structure.respecified(item)
        if item.latest_only:
            rows = execution_rows(item.times, item.seq, self._times)
            self._latest.update((row[1], row) for row in rows)
            self._mark(item.seq, latest_end(rows))
            many = len(rows)
        else:
            many = self._timed.add(item.seq, item.times)
        self._mark(item.seq + many - 1, 0)
        return many

    def _close_timed(self) -> None:
        self._noted.note()
        self._rows["execution"] += self._timed.close()
        self._mark(0, self._timed.end_ns)

    def _close_noted(self) -> None:
        self._close_timed()
        self._rows["execution"] += self._noted.taken_out()
        self._summed += self._noted.measured.close()
        self.nonfinite.appeared_in(self._noted.flags)

    def block(self, item: QueuedBlock) -> None:
        """Collect executions that were reported in columns."""
        if item.latest_only or item.copied:
            self._close_timed()
            rows, some, flags = blocks.rows_of(item, self._times)
            if item.latest_only:
                self._latest.update((row[1], row) for row in rows)
            else:
                self._rows["execution"] += rows
            self.nonfinite.appeared_in(flags)
        else:
            some = self._noted.block(item)
        self._summed += some
        self._called(item.attrs)
        self._mark(item.seq + item.many - 1, int(item.event.times.max()))

    def noted(self, item: QueuedOutputs) -> int:
        """Collect executions that were noted with their outputs; return their number."""
        self._structure.respecified(item)
        self._noted.add(item)
        if item.lot.calls:
            self._called(item.attrs)
        self._mark(item.seq + item.many - 1, 0)
        return item.many

    def ran(self, items: Sequence[QueuedExecution]) -> None:
        """Collect executions in the order of the run."""
        self._close_timed()
        times, rows, outputs_of = self._times, self._rows["execution"], self._outputs
        writers, last = self._writers, self.time_ns
        for item in items:
            (timed, _weight, flags, outputs, latest_only, _keep, error, layouts, attrs, place,
             _unresolved, ran, arrays) = item  # fmt: skip
            seq, node, step, thread, start_ns, end_ns = timed
            if outputs:
                outputs_of[seq] = item
                if not flags & FAILED:  # a failed execution has statistics of its inputs
                    flags |= HAS_SUMMARY
            count = times[node] = times.get(node, 0) + 1
            row = (seq, node, step, thread, start_ns, end_ns - start_ns, flags, count)
            if latest_only:
                self._latest[node] = row
            else:
                rows.append(row)
            if ran is not None:
                took = writers.failed if flags & FAILED else writers.ran
                for operand in took(seq, ran, memoryview(arrays).cast("Q").tolist()):
                    self._add("operand", (None, *operand))
            if end_ns > last:
                last = end_ns
            if attrs is not None:
                self._add("call", (seq, encode(attrs)))
            if place is not None:
                self._add("placed", (seq, *place))
            if error:
                self._add("failure", (seq, error))
            for value, strides in layouts:
                self._add("layout", (value, seq, shape_text(strides)))
        self._mark(items[-1].timed[0], last)

    def event(self, seq: int, event: Told) -> None:
        """Collect any other event."""
        if event.__class__ is StepStarted:  # the most frequent one
            self._step_began(seq, event)
            return
        if event.__class__ is StepFinished:
            self._step_ended(seq, event)
            return
        if event.__class__ is StepsUnobserved:
            self._steps_unobserved(seq, event)
            return
        time_ns = 0
        if isinstance(event, Whole):
            self._whole(event)
            self._mark(seq, 0)
            return
        if isinstance(event, Skipped):
            self.missed(event.node, event.times)
            return
        if isinstance(event, ArrayMoved):
            self._noted.moved(event.value, event.before, event.now)
            return
        kind = KINDS.get(type(event), "")
        if kind:
            self._add("document", (None, seq, kind, encode(event)))
            self._mark(seq, 0)
            return
        if isinstance(event, HostSpan):
            self._structure.source(event.file)
            self._add("host", host_row(event))
            return
        if isinstance(event, DeviceRan):
            self._spans.add(event, self._add)
            return
        if isinstance(event, Logged):
            self._add("log", (seq, event.step, event.time_ns, event.stream, printable(event.text)))
            time_ns = event.time_ns
        elif isinstance(event, GraphExtended):
            self._nodes += event.nodes
            self._structure.extended(seq, event.nodes, event.values)
        elif isinstance(event, GraphCaptured):
            # A captured graph has its own ids, so it is stored as a document only.
            self._structure.files(event.graph.nodes)
            self._add("document", (None, seq, "graph", encode(event)))
        elif isinstance(event, GradientComputed):
            self._add("gradient", (seq, event.value, event.gradient))
        elif isinstance(event, RunStarted):
            self._add("run", started_row(event, self._level))
            if event.main_thread:
                self._add("document", (None, seq, "main_thread", encode(event.main_thread)))
        elif isinstance(event, RunFinished):
            time_ns = event.time_ns
            ended = (event.status, printable(event.error), time_ns)
            self._updates.append(("UPDATE run SET status=?, error=?, finished_ns=?", ended))
        elif isinstance(event, ValueEdited):
            time_ns = event.time_ns
            self._close_timed()
            self._writers.edited(event.value, seq)
            how = printable(event.how)
            self._add("edit", (seq, event.value, event.seq, event.step, time_ns, how))
            if not event.array.flags.c_contiguous:
                self._add("layout", (event.value, seq, shape_text(event.array.strides)))
            # Stored under the edit's own seq; before that, the value is what its node computed.
            timed = (seq, 0, event.step, 0, time_ns, time_ns)
            kept = ((event.value, event.array.copy()),)
            self._outputs[seq] = QueuedExecution(timed, 0, 0, kept, False, True)
        elif isinstance(event, LossesKnown):
            if self._losses(seq, event):
                self.nonfinite.appeared("loss", seq)
        elif isinstance(event, PassApplied | Compiled):
            kind = "pass" if isinstance(event, PassApplied) else "compiled"
            self._add("document", (None, seq, kind, encode(event)))
        self._mark(seq, time_ns)

    def _step_began(self, seq: int, event: StepStarted) -> None:
        self._begun = (event.step, seq, event.time_ns, None, None, int(event.observed))
        self._steps[event.step] = self._begun
        if event.observed:
            self.nonfinite.step_began(seq, event.step)
        self._mark(seq, event.time_ns)

    def _steps_unobserved(self, seq: int, event: StepsUnobserved) -> None:
        steps, losses = rows_of_unobserved(seq, event)
        self._steps.update((row[0], row) for row in steps)
        self._rows.setdefault("loss", []).extend(losses)
        self._begun = (*steps[-1][:3], None, None, 0)
        self._mark(*last_of(steps))

    def _step_ended(self, seq: int, event: StepFinished) -> None:
        if self._begun[0] == event.step:  # possibly in an earlier batch
            self._steps[event.step] = (*self._begun[:3], seq, event.time_ns, self._begun[5])
        broken = self._losses(seq, event)
        if event.observed:
            self.nonfinite.step_ended(seq, broken=broken)
        self._mark(seq, event.time_ns)

    def _losses(self, seq: int, event: StepFinished | LossesKnown) -> bool:
        """Collect losses; return whether one of them is not finite."""
        broken, step = False, event.step
        for loss in event.losses:
            self._add("loss", (None, seq, step, loss.curve, loss.node, loss.times, loss.value))
            broken = broken or not math.isfinite(loss.value)
        return broken

    @property
    def step(self) -> int:
        """The latest training step that has begun."""
        return int(self._begun[0])

    @property
    def structure(self) -> int:
        """The number of rows of the structure, which `conclude` writes last."""
        return len(self._documents(last=True)) + sum(
            len(self._rows.get(table, ())) for table in STRUCTURE
        )

    def left_out(self, omit: Omit) -> Dropped:
        """The losses of a commit that leaves out a part of the batch."""
        if omit == Omit.NOTHING:
            return Dropped()
        self._close_noted()
        if omit == Omit.ELEMENTS:
            arrays = sum(
                not isinstance(content, TensorSummary)
                for item in self._outputs.values()
                if item.keep_arrays
                for _, content in item.outputs
            )
            return Dropped(arrays + len(self._arrays) + len(self._noted.kept))
        return Dropped(
            len(self._arrays),
            sum(len(item.outputs) for item in self._outputs.values())
            + len(self._summed)
            + len(self._noted.measured),
            sum(not row[6] & FAILED for row in self._rows["execution"])
            + len(self._latest)
            + len(self._timed)
            + len(self._rows.get("log", ())),
        )

    def commit(
        self, seq: int, dropped: Dropped, *, later: bool = False, omit: Omit = Omit.NOTHING
    ) -> Dropped:
        """Write everything in one transaction; if that fails, the call can be repeated.

        Args:
            seq: The last record that is in the batch, or that was lost before the batch ended.
            dropped: Counts so far; arrays dropped for the budget and anything left out are added.
            later: Leave the full arrays to `settle`.
            omit: What to leave out because the disk is full.

        Returns:
            The counts after the commit.
        """
        self._close_noted()
        writer, rows = self._writer, self._rows
        later = later and omit == Omit.NOTHING
        dropped = dropped.plus(self.left_out(omit))
        defined = len(rows.get("value", ()))  # `_summaries` appends more, written later
        writer.begin()
        for table in (*END, *STRUCTURE):
            writer.insert(table, rows.get(table, ()))
        # One statement per step would take seconds in a run of short steps.
        writer.insert("step", list(self._steps.values()), replace=True)
        for statement, parameters in self._updates:
            writer.execute(statement, parameters)
        arrays: list[tuple[int, int, Array]] = []
        if omit == Omit.EXECUTIONS:
            self._insert_executions([row for row in rows["execution"] if row[6] & FAILED])
        else:
            arrays = self._executed(defined, UNWRITTEN if omit else LATER if later else WANTED)
        evicted = 0 if omit else self._noted.kept.write(writer)
        evicted += 0 if later or omit else writer.arrays.add(arrays)
        dropped = dropped.plus(Dropped(evicted))
        writer.commit(seq, self.time_ns, dropped)
        if self._sums is not None:
            self._sum_times(self._sums, seq, dropped, omit)
        if later:
            self.owed.add(self._arrays, ours=False)
            self.owed.add(arrays[len(self._arrays) :], ours=True)
        self._written(later=later)
        return dropped

    def _sum_times(self, sums: StepSums, seq: int, dropped: Dropped, omit: Omit) -> None:
        """Sum the times of committed steps; sums that cannot be written now are kept for later."""
        executions, host = self._rows["execution"], self._rows.get("host", ())
        executions.sort()
        timed = self._timed.tables
        if omit == Omit.EXECUTIONS:
            executions, host, timed = [row for row in executions if row[6] & FAILED], (), []
        sums.take(self._nodes, self._steps, executions, host, timed)
        if not sums.due or omit != Omit.NOTHING:
            return
        if self._writer.added([("step_block", sums.rows())], seq, self.time_ns, dropped):
            sums.due.clear()

    def conclude(self, seq: int, dropped: Dropped) -> int:
        """Write the end of the run when there is hardly any space; executions are left out.

        Writes the end, the steps, the losses and the counts first, then as much of the structure as
        fits.

        Args:
            seq, dropped: As in `commit`; what is left out has been counted already.

        Returns:
            The number of graph parts that were not written.

        Raises:
            sqlite3.Error: Not even the end of the run fits.
        """
        writer, rows = self._writer, self._rows
        writer.begin()
        for table in ("run", "loss", "failure"):
            writer.insert(table, rows.get(table, ()))
        writer.insert("document", self._documents(last=False))
        writer.insert("step", list(self._steps.values()), replace=True)
        self._insert_executions([row for row in rows["execution"] if row[6] & FAILED])
        for statement, parameters in self._updates:
            writer.execute(statement, parameters)
        writer.commit(seq, self.time_ns, dropped)
        rows["document"] = self._documents(last=True)
        structure = [(table, rows.get(table, ())) for table in (*STRUCTURE, "document")]
        unwritten, few_rows = 0, 256
        # One transaction writes each page of the file once, and needs the least space.
        if not writer.added(structure, seq, self.time_ns, dropped):
            for table, parts in structure:
                for start in range(0, len(parts), few_rows):
                    few = [(table, parts[start : start + few_rows])]
                    if unwritten or not writer.added(few, seq, self.time_ns, dropped):
                        unwritten += len(few[0][1])
        self._written(later=False)
        return unwritten

    def _documents(self, *, last: bool) -> list[tuple[Any, ...]]:
        """Documents about the structure if ``last``, otherwise those about the run."""
        rows = self._rows.get("document", ())
        return [row for row in rows if (row[2] not in KINDS.values()) == last]

    def settle(self, seq: int, dropped: Dropped, *, omit: Omit = Omit.NOTHING) -> Dropped:
        """Write some of the owed arrays in one transaction; see `commit`."""
        arrays, writer = self.owed.first(), self._writer
        writer.begin()
        lost = len(arrays) if omit else writer.arrays.add(arrays)
        if omit != Omit.EXECUTIONS:
            flag = UNWRITTEN if omit else WANTED
            writer.add_flags(dict.fromkeys((item[1] for item in arrays), flag))
        dropped = dropped.plus(Dropped(lost))
        writer.commit(seq, self.time_ns, dropped)
        self.written = self.owed.paid(len(arrays))
        return dropped

    def _executed(self, defined: int, wanted_flag: int) -> list[tuple[int, int, Array]]:
        """Write executions, statistics and the `OUTPUT` tables; return the full arrays."""
        writer, rows = self._writer, self._rows
        for table in OUTPUT:
            writer.insert(table, rows.get(table, ()))
        writer.insert("operand", self._noted.operands)
        executions, timed = rows["execution"], self._timed.rows
        if wanted_flag == UNWRITTEN:
            executions = [(*row[:6], unwritten(row[6]), row[7]) for row in executions]
            timed = [packing.flagged(row, HAS_SUMMARY | UNWRITTEN) for row in timed]
        if self._latest:
            writer.forget_executions(self._latest)
            executions = [*executions, *self._latest.values()]
        flags, arrays = self._summaries(wanted_flag)
        if self._late:
            new_seqs = {row[0] for row in executions}
            writer.add_flags({seq: flags[seq] for seq in self._late - new_seqs})
        if flags:
            more = flags.get
            executions = [
                (*row[:6], row[6] | more(row[0], 0), row[7]) if row[0] in flags else row
                for row in executions
            ]
        writer.insert("value", rows.get("value", ())[defined:])
        self._insert_executions(executions, timed)
        self.threads |= self._timed.threads
        writer.insert("summary", rows.get("summary", ()))
        writer.insert("measured", self._noted.measured.rows)
        return arrays

    def _insert_executions(
        self, executions: list[tuple[Any, ...]], timed: Sequence[packing.Row] = ()
    ) -> None:
        executions.sort()
        self._writer.insert("execution", executions)
        self._writer.insert("timed", timed)
        self._writer.insert("span", spans_of(executions, timed))
        self.threads.update([row[3] for row in executions])

    def _written(self, *, later: bool) -> None:
        """Empty the batch and release its copies for reuse."""
        self.written_step = self.step
        self.written = [
            content
            for item in self._outputs.values()
            if not (later and item.keep_arrays)
            for _, content in item.outputs
            if not isinstance(content, TensorSummary)
        ]
        self._clear()

    def _summaries(self, wanted_flag: int) -> tuple[dict[int, int], list[tuple[int, int, Array]]]:
        """Turn the outputs into rows; return the flags of their executions, by seq, and the full
        arrays.
        """
        arrays = [*self._arrays]
        flags = dict.fromkeys(self._late & self._outputs.keys(), HAS_SUMMARY)
        noted = self._noted.flags.items()
        flags.update({k: unwritten(v) for k, v in noted} if wanted_flag == UNWRITTEN else noted)
        items: list[Item] = []
        failed = []
        for seq, item in self._outputs.items():
            step = item.timed[2]
            if item.flags & FAILED:
                failed.append(seq)
            if not item.keep_arrays:
                items += [(value, seq, step, content) for value, content in item.outputs]
                continue
            for value, content in item.outputs:
                items.append((value, seq, step, content))
                flag = BEHIND
                if not isinstance(content, TensorSummary):
                    flag = wanted_flag
                    arrays.append((value, seq, content))
                flags[seq] = flags.get(seq, 0) | flag
        for seq in self._late:
            flags[seq] = flags.get(seq, 0) | wanted_flag
        summaries = list(summary_rows(items))
        self._rows["summary"] = [*summaries, *self._summed]
        specs = [(row[1], row[0], *row[3:5]) for row in sorted(summaries, key=_SEQ)]
        self._rows.setdefault("value", []).extend(self._noted.respecified(specs))
        for row in summaries:
            seq, nan, inf = row[1], row[11], row[12]
            if nan or inf:
                bits = (HAS_NAN if nan else 0) | (HAS_INF if inf else 0)
                flags[seq] = flags.get(seq, 0) | bits
        # A failed execution's arrays are its inputs, so it did not produce any NaN in them.
        for seq in failed:
            flags.pop(seq, None)
        self.nonfinite.appeared_in(flags)
        return flags, arrays

    def _whole(self, whole: Whole) -> None:
        """Collect elements of executions that are already recorded or wait in this batch."""
        self._close_timed()
        self._rows["execution"] += self._timed.take_out({item.seq for item in whole.items})
        for item in whole.items:
            seq = item.seq
            self._late.add(seq)
            for value, strides in item.layouts:
                self._add("layout", (value, seq, shape_text(strides)))
            if item.summarised:
                self._arrays += [(value, seq, array) for value, array in item.outputs]
                continue
            if item.attrs is not None:
                self._add("call", (seq, encode(item.attrs)))
            queued = self._outputs.get(seq)
            outputs = (*queued.outputs, *item.outputs) if queued is not None else item.outputs
            self._outputs[seq] = QueuedExecution(
                (seq, 0, item.step, 0, 0, 0), 0, 0, outputs, False, True
            )

    def _add(self, table: str, row: tuple[Any, ...]) -> None:
        self._rows.setdefault(table, []).append(row)

    def _called(self, calls: Sequence[tuple[int, dict[str, Any]]]) -> None:
        self._rows.setdefault("call", []).extend([(seq, encode(attrs)) for seq, attrs in calls])

    def _mark(self, seq: int, time_ns: int) -> None:
        self.seq, self.time_ns = max(seq, self.seq), max(time_ns, self.time_ns)
