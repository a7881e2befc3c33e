"""Batch: turns what waits in the recorder's queue into rows, and writes them in one transaction.

Invariant: runs in the recorder's thread only; it sees copies, never the program's arrays.
"""

from __future__ import annotations

import linecache
import tokenize
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from nodescope.events import (
    Array,
    Compiled,
    Event,
    GradientComputed,
    GraphCaptured,
    GraphExtended,
    HostSpan,
    Logged,
    PassApplied,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    ValueEdited,
)
from nodescope.ir.graph import Node, Value
from nodescope.record.held import Whole
from nodescope.record.many import summary_rows
from nodescope.record.rows import (
    BEHIND,
    HAS_INF,
    HAS_NAN,
    HAS_SUMMARY,
    WANTED,
    Advice,
    Dropped,
    Governed,
    Keeping,
    Timings,
)
from nodescope.record.schema import MAX_SOURCE_BYTES, encode, shape_text
from nodescope.record.summary import TensorSummary
from nodescope.record.writer import Writer
from nodescope.telling import printable

Timed = tuple[int, int, int, int, int, int]
"""An execution of which nothing else is kept: seq, node, step, thread, start and end."""


class Ran(NamedTuple):
    """An execution on its way to the file."""

    timed: Timed
    weight: int
    flags: int = 0
    outputs: Sequence[tuple[int, Array | TensorSummary]] = ()
    latest_only: bool = False
    keep_arrays: bool = False
    error: str = ""
    layouts: tuple[tuple[int, tuple[int, ...]], ...] = ()
    attrs: dict[str, Any] | None = None


class Skipped(NamedTuple):
    """Executions of a node that the governor left out; they still count as runs of it."""

    node: int
    times: int


Told = Event | Whole | Skipped | Governed | Advice | Timings | Keeping
"""What is written beside executions."""


_DOCUMENTS: dict[type, str] = {
    Governed: "governor",
    Advice: "advice",
    Timings: "timing",
    Keeping: "keeping",
}


class Noted(NamedTuple):
    """Anything but an execution, in the queue."""

    seq: int
    weight: int
    event: Told


MAX_RESHAPED = 256
"""So often the shape of one value is followed; a program may give it another in each step."""


class Batch:
    """Collects rows and writes them.

    Args:
        writer: The open file.
        level: Of the run, for the run's row.

    Attributes:
        seq: The last record collected since the last commit, or 0.
        threads: Which ran nodes, by identifier.
        written: The copies of outputs that the last commit wrote, which nobody needs any more.
    """

    def __init__(self, writer: Writer, *, level: str) -> None:
        self._writer = writer
        self._level = level
        self._times: dict[int, int] = {}
        self._producers: dict[int, int] = {}
        self._specs: dict[int, tuple[str, str, str]] = {}  # name, dtype, shape of each value
        self._reshaped: dict[int, tuple[int, int]] = {}  # how often and when last, by value
        self._known_files: set[str] = set()
        self._time_ns = 0
        self._begun: tuple[Any, ...] = (0,)  # the row of the step that began last
        self.threads: set[int] = set()
        self.written: list[Array] = []
        self._clear()

    def _clear(self) -> None:
        self.seq = 0
        self._rows: dict[str, list[tuple[Any, ...]]] = {"execution": []}
        self._outputs: dict[int, Ran] = {}
        self._late: set[int] = set()  # of these, whose executions were written before
        self._latest: dict[int, tuple[Any, ...]] = {}
        self._arrays: list[tuple[int, int, Array]] = []
        self._updates: list[tuple[str, tuple[Any, ...]]] = []
        self._steps: dict[int, tuple[Any, ...]] = {}

    def missed(self, node: int) -> None:
        """An execution of a node was lost; it still counts as a run of it."""
        self._times[node] = self._times.get(node, 0) + 1

    def timed(self, items: list[Timed]) -> None:
        """Collect executions of which nothing else is kept."""
        if not items:
            return
        times, add = self._times, self._rows["execution"].append
        last = self._time_ns
        for seq, node, step, thread, start_ns, end_ns in items:
            count = times[node] = times.get(node, 0) + 1
            add((seq, node, step, thread, start_ns, end_ns - start_ns, 0, count))
            if end_ns > last:
                last = end_ns
        self._mark(items[-1][0], last)

    def ran(self, item: Ran) -> None:
        """Collect an execution."""
        seq, node, step, thread, start_ns, end_ns = item.timed
        times = self._times[node] = self._times.get(node, 0) + 1
        row = (seq, node, step, thread, start_ns, end_ns - start_ns, item.flags, times)
        if item.latest_only:
            self._latest[node] = row
        else:
            self._rows["execution"].append(row)
        if item.outputs:
            self._outputs[seq] = item
        if item.error:
            self._add("failure", (seq, item.error))
        if item.attrs is not None:
            self._add("call", (seq, encode(item.attrs)))
        for value, strides in item.layouts:
            self._add("layout", (value, seq, shape_text(strides)))
        self._mark(seq, end_ns)

    def event(self, seq: int, event: Told) -> None:
        """Collect anything else."""
        time_ns = 0
        if isinstance(event, Whole):
            self._whole(event)
            self._mark(seq, 0)
            return
        if isinstance(event, Skipped):
            self._times[event.node] = self._times.get(event.node, 0) + event.times
            return
        kind = _DOCUMENTS.get(type(event), "")
        if kind:
            self._add("document", (None, seq, kind, encode(event)))
            self._mark(seq, 0)
            return
        if isinstance(event, HostSpan):
            self._source(event.file)
            file, function = printable(event.file), printable(event.function)
            times = (event.step, event.start_ns, event.end_ns)
            self._add("host", (None, event.kind, event.thread, *times, file, event.line, function))
            return
        if isinstance(event, Logged):
            self._add("log", (seq, event.step, event.time_ns, event.stream, printable(event.text)))
            time_ns = event.time_ns
        elif isinstance(event, GraphExtended):
            self._structure(seq, event.nodes, event.values)
        elif isinstance(event, GraphCaptured):
            # Its ids are its own, not the run's: it is kept as a document and nothing else.
            self._files(event.graph.nodes)
            self._add("document", (None, seq, "graph", encode(event)))
        elif isinstance(event, GradientComputed):
            self._add("gradient", (seq, event.value, event.gradient))
        elif isinstance(event, StepStarted):
            time_ns = event.time_ns
            self._begun = (event.step, seq, time_ns, None, None, int(event.observed))
            self._steps[event.step] = self._begun
        elif isinstance(event, StepFinished):
            time_ns = event.time_ns
            if self._begun[0] == event.step:  # maybe in a batch before
                self._steps[event.step] = (*self._begun[:3], seq, time_ns, self._begun[5])
        elif isinstance(event, RunStarted):
            argv = msgspec.json.encode([printable(each) for each in event.argv]).decode()
            row = (event.run_id, printable(event.name), argv, event.pid, event.started_unix_ns)
            self._add("run", (*row, self._level, _version(), None, "", None))
        elif isinstance(event, RunFinished):
            time_ns = event.time_ns
            self._updates.append(
                (
                    "UPDATE run SET status=?, error=?, finished_ns=?",
                    (event.status, printable(event.error), time_ns),
                )
            )
        elif isinstance(event, ValueEdited):
            time_ns = event.time_ns
            edit = (seq, event.value, event.seq, event.step, time_ns, printable(event.how))
            self._add("edit", edit)
            if not event.array.flags.c_contiguous:
                self._add("layout", (event.value, seq, shape_text(event.array.strides)))
            # Under the edit's own seq: before it the value is what its node gave.
            timed = (seq, 0, event.step, 0, time_ns, time_ns)
            self._outputs[seq] = Ran(timed, 0, 0, ((event.value, event.array.copy()),), False, True)
        elif isinstance(event, PassApplied):
            self._add("document", (None, seq, "pass", encode(event)))
        elif isinstance(event, Compiled):
            self._add("document", (None, seq, "compiled", encode(event)))
        self._mark(seq, time_ns)

    def commit(self, seq: int, dropped: Dropped) -> Dropped:
        """Write everything in one transaction; after a failure it can be tried again.

        Args:
            seq: The last record that is in the batch or was lost before its end.
            dropped: Counts so far; arrays that fall to the budget are added.

        Returns:
            The counts after it.
        """
        writer, rows = self._writer, self._rows
        defined = len(rows.get("value", ()))  # those that come after are of summaries
        writer.begin()
        for table in ("run", "source", "node", "value", "gradient", "log", "document", "failure",
                      "call", "layout", "edit", "host"):  # fmt: skip
            writer.insert(table, rows.get(table, ()))
        # A statement for each of many short steps would keep the batch from its end for seconds.
        writer.insert("step", list(self._steps.values()), replace=True)
        for statement, parameters in self._updates:
            writer.execute(statement, parameters)
        executions = rows["execution"]
        if self._latest:
            writer.forget_executions(self._latest)
            executions = [*executions, *self._latest.values()]
        flags, arrays = self._summaries()
        if self._late:
            here = {row[0] for row in executions}
            writer.add_flags({seq: flags[seq] for seq in self._late - here})
        if flags:
            executions = [(*row[:6], row[6] | flags.get(row[0], 0), row[7]) for row in executions]
        executions.sort()
        writer.insert("value", rows.get("value", ())[defined:])
        writer.insert("execution", executions)
        if executions:
            self.threads.update({each[3] for each in executions})
            starts = min(each[4] for each in executions)
            ends = max(each[4] + each[5] for each in executions)
            writer.insert("span", [(executions[0][0], executions[-1][0], starts, ends)])
        writer.insert("summary", rows.get("summary", ()))
        evicted = writer.add_blobs(arrays)
        if evicted:
            dropped = msgspec.structs.replace(dropped, blobs=dropped.blobs + evicted)
        writer.commit(seq, self._time_ns, dropped)
        self.written = [
            content
            for item in self._outputs.values()
            for _, content in item.outputs
            if not isinstance(content, TensorSummary)
        ]
        self._clear()
        return dropped

    def _summaries(self) -> tuple[dict[int, int], list[tuple[int, int, Array]]]:
        """Turn the outputs into rows; the flags of their executions, by seq, and full arrays."""
        items = []
        arrays = [*self._arrays]
        flags = dict.fromkeys(self._outputs, HAS_SUMMARY)
        for seq, item in self._outputs.items():
            step = item.timed[2]
            for value, content in item.outputs:
                items.append((value, seq, step, content))
                if item.keep_arrays:
                    if isinstance(content, TensorSummary):
                        flags[seq] |= BEHIND
                    else:
                        flags[seq] |= WANTED
                        arrays.append((value, seq, content))
        for seq in self._late:
            flags[seq] = flags.get(seq, 0) | WANTED
        if not items:
            return flags, arrays
        found = self._rows["summary"] = list(summary_rows(items))
        for row in sorted(found, key=lambda row: row[1]):
            self._respecify(row)
        for row in found:
            _value, seq, *_, nan, inf, _zero, _histogram, _preview = row
            if nan or inf:
                flags[seq] |= (HAS_NAN if nan else 0) | (HAS_INF if inf else 0)
        return flags, arrays

    def _whole(self, given: Whole) -> None:
        """Elements of executions that are recorded already, or wait in this batch."""
        for item in given.items:
            seq = item.seq
            self._late.add(seq)
            for value, strides in item.layouts:
                self._add("layout", (value, seq, shape_text(strides)))
            if item.summarised:
                self._arrays += [(value, seq, array) for value, array in item.outputs]
                continue
            if item.attrs is not None:
                self._add("call", (seq, encode(item.attrs)))
            known = self._outputs.get(seq)
            outputs = (*known.outputs, *item.outputs) if known is not None else item.outputs
            self._outputs[seq] = Ran((seq, 0, item.step, 0, 0, 0), 0, 0, outputs, False, True)

    def _respecify(self, summary: tuple[Any, ...]) -> None:
        """Define a value again whose shape or dtype is another than before."""
        value, seq, _step, dtype, shape = summary[:5]
        known = self._specs.get(value)
        if known is None or known[1:] == (dtype, shape):
            return
        times, last = self._reshaped.get(value, (0, 0))
        if times == MAX_RESHAPED or seq < last:  # a summary may come late
            return
        self._reshaped[value] = (times + 1, seq)
        self._specs[value] = (known[0], dtype, shape)
        producer = self._producers.get(value)
        self._add("value", (None, seq, value, *self._specs[value], producer))

    def _add(self, table: str, row: tuple[Any, ...]) -> None:
        rows = self._rows.get(table)
        if rows is None:
            rows = self._rows[table] = []
        rows.append(row)

    def _mark(self, seq: int, time_ns: int) -> None:
        if seq > self.seq:
            self.seq = seq
        if time_ns > self._time_ns:
            self._time_ns = time_ns

    def _structure(self, seq: int, nodes: tuple[Node, ...], values: tuple[Value, ...]) -> None:
        for node in nodes:
            for value in node.outputs:
                self._producers[value] = node.id
            name, scope = printable(node.name), printable(node.scope)
            row = (None, seq, node.id, name, node.op, scope, node.phase, encode(node))
            self._add("node", row)
        self._files(nodes)
        for each in values:
            spec = each.spec
            told = (printable(each.name), spec.dtype, shape_text(spec.shape))
            self._specs[each.id] = told
            head = (None, seq, each.id, *told)
            self._add("value", (*head, self._producers.get(each.id)))

    def _files(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            if node.source is not None:
                self._source(node.source.file)

    def _source(self, file: str) -> None:
        if not file or file in self._known_files:
            return
        self._known_files.add(file)
        text = _read_source(file)
        if text:
            self._add("source", (printable(file), text))


def _version() -> str:
    try:
        return version("nodescope")
    except PackageNotFoundError:  # run from a source tree
        return "unknown"


def _read_source(file: str) -> str:
    """The text of a source file or notebook cell; empty if it cannot be had or is too long."""
    try:
        path = Path(file)
        if not path.is_file():
            text = "".join(linecache.getlines(file))
        elif path.stat().st_size > MAX_SOURCE_BYTES:
            return ""
        else:
            with tokenize.open(file) as opened:
                text = opened.read()
    except (OSError, SyntaxError, ValueError):
        return ""
    return printable(text) if len(text) <= MAX_SOURCE_BYTES else ""
