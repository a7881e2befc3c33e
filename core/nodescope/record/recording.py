"""Recording: reads what a run has recorded, or is still recording.

Invariant: read-only and bounded: rows are fetched through an index by seq, node or time. A damaged
file gives `RecordingError`, never something else.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodescope.console_output import path_of
from nodescope.errors import RecordingError
from nodescope.events import Array
from nodescope.ir import attrs
from nodescope.ir.graph import Value
from nodescope.protocol import RunInfo
from nodescope.record import schema_1
from nodescope.record.blobs import BlobReader, Window
from nodescope.record.device_table import DeviceTable
from nodescope.record.execution_table import ExecutionTable
from nodescope.record.graph_table import GraphTable
from nodescope.record.kept.kept_table import KeptTable
from nodescope.record.loss_table import LossTable
from nodescope.record.measured.measured_table import MeasuredTable
from nodescope.record.operand_writers import noted
from nodescope.record.rows import (
    MAX_SEQ,
    Advice,
    Dropped,
    EditRow,
    Execution,
    Governed,
    GradientRow,
    HostRow,
    Keeping,
    LogRow,
    LossRow,
    NodeCost,
    NodeRow,
    StepRow,
    Timings,
    ValueAt,
    ValueRow,
    thinned,
)
from nodescope.record.run_row import run_info
from nodescope.record.schema import EXECUTION, HOST, value_spec
from nodescope.record.statistics_table import StatisticsTable
from nodescope.record.step_table import StepTable
from nodescope.record.summary_table import SummaryTable
from nodescope.record.timed.timed_table import TimedTable
from nodescope.record.validate import OpenedRecording, connect, damaged

T = TypeVar("T")

# With max(), SQLite takes the other columns from the row that has the maximum.
_VALUES = """SELECT max(row), seq, id, name, dtype, shape, producer{more} FROM value
WHERE seq > ? AND seq <= ?"""
_PLACE = ", storage, device, nbytes"
_RESHAPED = "AND id IN (SELECT id FROM value GROUP BY id HAVING count(*) > 1)"

_timings = msgspec.msgpack.Decoder(Timings).decode
_advice = msgspec.msgpack.Decoder(Advice).decode
_keeping = msgspec.msgpack.Decoder(Keeping).decode
_main_thread = msgspec.msgpack.Decoder(int).decode
_governed = msgspec.msgpack.Decoder(Governed).decode
# Faults of the content that a damaged file can cause.
_FAULTS = (sqlite3.Error, msgspec.MsgspecError, ValueError, TypeError, OverflowError, IndexError)


class Recording:
    """An open recording. Can be used from several threads; queries take turns.

    Attributes:
        schema: The version of its format. Readers return the same data for every version.
    """

    def __init__(self, path: Path, opened: OpenedRecording) -> None:
        self.path = path
        self._opened = opened
        self._lock = threading.Lock()
        self._kept = KeptTable(self._all, self._has, self._read)
        self._blobs = BlobReader(self._all, self._kept)
        self._tables: frozenset[str] | None = None
        timed = TimedTable(self._all, self._has, self._read)
        self._executions = ExecutionTable(self._all, self._by_seq, self._has, self._read, timed)
        self.step_table = StepTable(self._all, self._table, self._has, timed)
        self.loss_table = LossTable(self._all)
        self.device_table = DeviceTable(self._all, self._has, timed)
        measured = MeasuredTable(self._all, self._has, self._read)
        self._summaries = SummaryTable(self._all, self._by_seq, self._read, measured, self._kept)
        self.statistics = StatisticsTable(self._all, measured)
        self.schema = opened.schema
        before = opened.schema == schema_1.VERSION
        self._node = schema_1.decode_node if before else attrs.decode_node
        self.graph_table = GraphTable(
            self._all, self._table, self._by_seq, self._has, self._read, timed, opened.schema
        )
        self._attrs = schema_1.decode_attrs if before else attrs.decode_attrs

    @classmethod
    def open(cls, path: str | Path, *, whole: bool = True) -> Recording:
        """Open a recording, finished or being written.

        Args:
            whole: Whether to check the whole file for damage first, unless it is large.

        Raises:
            RecordingError: The file is not a recording, too new, or damaged.
        """
        path = path_of(path)
        return cls(path, connect(path, whole=whole))

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._opened.close()

    @property
    def note(self) -> str:
        """A line about damage to the file or losses to a full disk, or ``""``."""
        keeping = None if self._opened.note else self.keeping()
        return str((keeping and keeping.unwritten) or self._opened.note)

    def interrupt(self) -> None:
        """End the running query from another thread; it fails as if the file had been closed."""
        self._opened.guard.stop()

    # ------------------------------------------------------------ the run

    def run(self) -> RunInfo:
        """The run, in state ``recorded``."""
        rows = self._all("SELECT * FROM run ORDER BY rowid DESC LIMIT 1")
        attached = self._all("SELECT data FROM document WHERE kind = 'framework' ORDER BY row")
        return self._read(run_info, self.path, self.note, rows[0] if rows else None, attached)

    def last_seq(self) -> int:
        """The seq up to which everything can be read."""
        return int(self._progress()[0])

    def time_ns(self) -> int:
        """The latest moment recorded, in nanoseconds since the run began."""
        return int(self._progress()[1])

    def dropped(self) -> Dropped:
        """Counts of what was not kept."""
        return Dropped(*self._progress()[2:])

    def _progress(self) -> tuple[Any, ...]:
        return self._all("SELECT * FROM progress LIMIT 1")[0]

    # ------------------------------------------------------------ structure

    def nodes(self, after: int = 0) -> list[NodeRow]:
        """Nodes defined or redefined after a seq, in order."""
        rows = self._all("SELECT seq, data FROM node WHERE seq > ? ORDER BY row", after)
        return [NodeRow(seq, self._read(self._node, data)) for seq, data in rows]

    def values(self, after: int = 0, until: int = MAX_SEQ) -> list[ValueRow]:
        """Values defined in ``(after, until]``, in order, each in its latest definition."""
        return self._values("", after, until)

    def reshaped(self, until: int) -> list[ValueRow]:
        """Values whose shape or dtype has changed during the run, as they were at a seq."""
        return self._values(_RESHAPED, 0, until)

    def _values(self, condition: str, after: int, until: int) -> list[ValueRow]:
        values = _VALUES.format(more="" if self.schema == schema_1.VERSION else _PLACE)
        rows = []
        for _, seq, number, name, dtype, shape, producer, *place in self._all(
            f"{values} {condition} GROUP BY id ORDER BY 1", after, until
        ):
            storage, device, nbytes = place or (0, "", None)
            spec = self._read(value_spec, dtype, shape, device, nbytes)
            rows.append(ValueRow(seq, Value(number, spec, name, storage), producer))
        return rows

    def gradients(self, after: int = 0) -> list[GradientRow]:
        """Pairs of values and their gradients, as recorded after a seq."""
        rows = self._all(
            "SELECT seq, value, gradient FROM gradient WHERE seq > ? ORDER BY seq", after
        )
        return [GradientRow(*row) for row in rows]

    def documents(self, kind: str) -> list[tuple[int, bytes]]:
        """Documents of a kind with their seqs, in order; `docs/recording.md` names the kinds."""
        return self._all("SELECT seq, data FROM document WHERE kind = ? ORDER BY row", kind)

    def governed(self, after: int = 0) -> Governed | None:
        """The governor's latest report after a seq; None if there is none."""
        return self._latest("governor", _governed, after)

    def advice(self) -> Advice | None:
        """Advice for a run without operations; None if it has any."""
        return self._latest("advice", _advice)

    def timings(self) -> Timings | None:
        """How long compiled functions take unobserved, if that was measured."""
        return self._latest("timing", _timings)

    def keeping(self, after: int = 0) -> Keeping | None:
        """The latest record after a seq of which values are kept; None if there is none."""
        return self._latest("keeping", _keeping, after)

    def main_thread(self) -> int | None:
        """The program's main thread; None for an older recording, which does not say."""
        return self._latest("main_thread", _main_thread)

    def _latest(self, kind: str, reader: Callable[[bytes], T], after: int = 0) -> T | None:
        question = "SELECT data FROM document WHERE kind = ? AND seq > ? ORDER BY row DESC LIMIT 1"
        rows = self._all(question, kind, after)
        return self._read(reader, rows[0][0]) if rows else None

    def source(self, file: str) -> str | None:
        """The text of a source file, as it was during the run."""
        rows = self._all("SELECT text FROM source WHERE file = ?", file)
        return rows[0][0] if rows else None

    def steps(self, after_seq: int = 0) -> list[StepRow]:
        """Training steps that began or ended after a seq."""
        return self.step_table.after(after_seq)

    def count_steps(self) -> int:
        """How many training steps began."""
        return self.step_table.count()

    def logs(self, after: int = 0, limit: int | None = None) -> list[LogRow]:
        """Printed lines after a seq, in order; with ``limit``, the last ones."""
        rows = self._all(
            "SELECT seq, step, time_ns, stream, text FROM log WHERE seq > ? "
            "ORDER BY seq DESC LIMIT ?",
            after,
            -1 if limit is None else limit,
        )
        return [LogRow(*row) for row in reversed(rows)]

    def edits(self, after: int = 0) -> list[EditRow]:
        """The edits after a seq, in order."""
        if not self._has("edit"):
            return []
        rows = self._all(
            "SELECT seq, value, at_seq, step, time_ns, how FROM edit WHERE seq > ? ORDER BY seq",
            after,
        )
        return [EditRow(*row) for row in rows]

    def failure(self, seq: int) -> str | None:
        """The exception that a failed execution raised."""
        rows = self._all("SELECT error FROM failure WHERE seq = ?", seq)
        return rows[0][0] if rows else None

    def executions(
        self,
        after: int = 0,
        until: int | None = None,
        *,
        node: int | None = None,
        limit: int | None = None,
    ) -> list[Execution]:
        """Executions in ``(after, until]``, in order of seq; with ``limit``, the first ones."""
        last = MAX_SEQ if until is None else until
        return self._executions.between(after, last, node, limit)

    def troubles(self, after: int, until: int, flags: int) -> list[tuple[int, ...]]:
        """Executions in ``(after, until]`` that have one of ``flags``, per node.

        Returns:
            Node, count, seq and step of the first and of the last, and their combined flags.
        """
        bits = " | ".join(
            f"max(flags & {1 << bit})" for bit in range(flags.bit_length()) if flags >> bit & 1
        )
        return self._all(
            f"SELECT node, count(*), min(seq), min(step), max(seq), max(step), {bits} "
            "FROM execution WHERE seq > ? AND seq <= ? AND flags & ? GROUP BY node",
            after,
            until,
            flags,
        )

    def latest(self, node: int) -> int:
        """The seq of a node's last execution; 0 if it has none."""
        return self._executions.latest(node)

    def last_of(self, node: int, before: int) -> Execution | None:
        """The last execution of a node with a seq below ``before``."""
        return self._executions.last_of(node, before)

    def durations(self, limit: int = 200_000) -> list[tuple[int, int]]:
        """Node and nanoseconds of the latest executions, in any order."""
        return self._executions.durations(limit)

    def costs(self) -> list[NodeCost]:
        """The time of each node, slowest first."""
        return self._executions.costs()

    def first_flagged(self, flag: int) -> tuple[Execution, int] | None:
        """The first execution with a flag of `record.rows`, and the number of nodes with any."""
        rows = self.flagged(flag, limit=1)
        count = "SELECT count(DISTINCT node) FROM execution WHERE flags & ?"
        return (rows[0], int(self._all(count, flag)[0][0])) if rows else None

    def flagged(self, flag: int, *, after: int = 0, limit: int = -1) -> list[Execution]:
        """The executions with a flag of `record.rows` after a seq, in order."""
        question = f"SELECT {EXECUTION} FROM execution WHERE flags & ? AND seq > ? ORDER BY seq"
        return self._executions.placed(self._all(f"{question} LIMIT ?", flag, after, limit))

    def means(self, value: int) -> list[tuple[int, int, float | None, bool]]:
        """Seq, step, mean, and whether a value has NaN or Inf, each time it is known."""
        return self._summaries.means(value)

    def losses(self) -> list[LossRow]:
        """The losses of the training steps, in order; recordings of earlier releases have none."""
        return self.loss_table.rows() if self._has("loss") else []

    def broken_losses(self) -> list[tuple[int, float]]:
        """Losses that end non-finite: the step in which that began, and the value there."""
        return self.loss_table.broken() if self._has("loss") else []

    def kept_arrays(self) -> tuple[int, int]:
        """The number of whole arrays kept, and their bytes."""
        count, nbytes = self._all("SELECT count(*), coalesce(sum(nbytes), 0) FROM blob")[0]
        packed, packed_nbytes = self._kept.total()
        return count + packed, nbytes + packed_nbytes

    def kept_of(self, values: Sequence[int]) -> list[tuple[int, int]]:
        """By value: how many of its whole arrays are kept, and how often it was computed."""
        return self._summaries.kept_of(values)

    def ran_in(self, step: int) -> list[tuple[int, int]]:
        """The first execution of each node in a training step: node and seq, in order."""
        return self._executions.ran_in(step, *self._around(step))

    def steps_with_arrays(self) -> set[int]:
        """The training steps of which full arrays are kept."""
        return self._summaries.steps_with_arrays()

    def _around(self, step: int) -> tuple[int, int]:
        rows = self._all("SELECT start_seq, end_seq FROM step WHERE step = ?", step)
        return (rows[0][0], rows[0][1] or MAX_SEQ) if rows else (0, MAX_SEQ)

    def state_at(self, seq: int) -> list[tuple[Execution, int]]:
        """The latest execution of each node at or before a seq, and how often the node had run."""
        rows = self.graph_table.latest(seq).tolist()
        return [(Execution(*row), times) for *row, times in rows]

    def timeline(self, start_ns: int, end_ns: int, limit: int) -> tuple[int, list[Execution]]:
        """Executions that overlap a span of time, in order: their number, and the longest ones."""
        span = "SELECT min(first_seq), max(last_seq) FROM span WHERE end_ns >= ? AND start_ns <= ?"
        first, last = self._all(span, start_ns, end_ns)[0]
        if first is None:
            return 0, []
        return self._executions.timeline((first, last), start_ns, end_ns, limit)

    def host(self, start_ns: int, end_ns: int, limit: int, *, held: bool = True) -> list[HostRow]:
        """Where threads were between nodes in a span of time; if too many, the longest, in order.

        Args:
            held: Whether to include time held by the debugger. Older files have no spans at all.
        """
        if not self._has("host"):
            return []
        condition = "" if held else "AND kind NOT IN ('held', 'held_along') "
        rows = self._all(
            f"SELECT {HOST} FROM host WHERE end_ns >= ? AND start_ns <= ? {condition}"
            "ORDER BY end_ns - start_ns DESC LIMIT ?",
            start_ns,
            end_ns,
            limit,
        )
        return [HostRow(*row) for row in sorted(rows, key=lambda row: row[3])]

    def holds(self, limit: int = 20_000) -> list[tuple[int, int]]:
        """When the debugger held the program, merged and in order; if too many, the longest."""
        if not self._has("host"):
            return []
        rows = self._all(
            "SELECT start_ns, end_ns FROM host WHERE kind = 'held' "
            "ORDER BY end_ns - start_ns DESC LIMIT ?",
            limit,
        )
        merged: list[tuple[int, int]] = []
        for start, end in sorted(rows):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged

    def since_ns(self) -> int:
        """When the first node ran, or the program was first sampled between nodes; 0 if neither."""
        first = [self._all("SELECT min(start_ns) FROM span")[0][0]]
        if self._has("host"):
            first.append(self._all("SELECT min(start_ns) FROM host")[0][0])
        return min((int(start) for start in first if start is not None), default=0)

    def history(
        self, node: int, *, until_seq: int | None = None, limit: int = 500
    ) -> tuple[int, list[Execution], list[ValueAt | None]]:
        """The executions of a node, oldest first, with its first output at each of them.

        Returns:
            The total; at most ``limit`` executions, evenly spaced and including the last; the
            value at each, or None.
        """
        ran = self._executions.seqs_of(node, MAX_SEQ if until_seq is None else until_seq)
        seqs = thinned(ran, max(limit, 1))
        executions = self._executions.of(seqs)
        defined = self._all("SELECT data FROM node WHERE id = ? ORDER BY row DESC LIMIT 1", node)
        outputs = self._read(self._node, defined[0][0]).outputs if defined else ()
        points: dict[int, ValueAt] = {}
        if outputs:
            points = self._summaries.at(outputs[0], seqs)
        return len(ran), executions, [points.get(execution.seq) for execution in executions]

    def calls(self, after: int = 0, until: int | None = None) -> dict[int, dict[str, Any]]:
        """Attributes of executions in ``(after, until]`` that differ from their nodes', by seq.

        Files of earlier releases have none, only the attributes of each node's first execution.
        """
        if not self._has("call"):
            return {}
        last = MAX_SEQ if until is None else until
        rows = self._all("SELECT seq, attrs FROM call WHERE seq > ? AND seq <= ?", after, last)
        return {seq: self._read(self._attrs, data) for seq, data in rows}

    def operands(self, after: int = 0, until: int = MAX_SEQ) -> dict[tuple[int, int], int] | None:
        """See `operand_writers.noted`; None in files of earlier releases."""
        return noted(self._all, after, until) if self._has("operand") else None

    # ------------------------------------------------------------ values

    def latest_at(
        self, value_id: int, seq: int | None = None, *, arrays: bool = True
    ) -> ValueAt | None:
        """The latest summary of a value at or before ``seq``; None if there is none.

        Args:
            value_id: The value.
            seq: The latest possible moment; None for the end.
            arrays: Whether to find out if the array is kept. Else, ``summary.blob`` is False.
        """
        return self._summaries.latest_at(value_id, seq, arrays)

    def ran_last(self, value: int, seq: int) -> int:
        """The seq of the latest execution by ``seq`` that produced a value; 0 if unknown."""
        return self._executions.ran_last(value, seq)

    def array(self, value_id: int, seq: int) -> Array | None:
        """The array that an execution wrote, read-only; None if it was not kept."""
        return self._read(self._blobs.whole, value_id, seq)

    def waits(self, seq: int) -> bool:
        """Whether the arrays of an execution may still have to be written: the run has not ended,
        and none of it or of a later one is here.
        """
        last = self._kept.last_seq()
        if last is None:
            last = self._all("SELECT coalesce(max(seq), 0) FROM blob")[0][0]
        ended = self._all("SELECT 1 FROM run WHERE finished_ns IS NOT NULL")
        return bool(seq > last and not ended)

    def strides(self, value_id: int, seq: int) -> tuple[int, ...] | None:
        """The strides of a kept array, in bytes; None if in C order or not known."""
        if not self._has("layout"):
            return None
        rows = self._all("SELECT strides FROM layout WHERE value = ? AND seq = ?", value_id, seq)
        return self._read(_numbers, rows[0][0]) if rows else None

    def array_slice(
        self,
        value_id: int,
        seq: int,
        index: tuple[int, ...],
        row: int,
        col: int,
        rows: int,
        cols: int,
    ) -> Window | None:
        """A window of a two-dimensional slice of a kept array; None if it is not kept.

        A vector is one row, a scalar is one by one. Only the window's part is read.

        Args:
            value_id, seq: The value, and the execution that wrote it.
            index: One entry per leading axis; missing ones are 0, others are clamped.
            row, col, rows, cols: The window; it is cut off at the end of the slice.

        Returns:
            The window (2-D float64, complex as magnitude), the slice's size, the indices used.
        """
        return self._read(self._blobs.window, value_id, seq, index, row, col, rows, cols)

    def branches(self) -> list[tuple[str, bytes]]:
        """Name and description of each stored branch; see `record.branches`."""
        if not self._has("branch"):
            return []
        return self._all("SELECT name, data FROM branch ORDER BY id")

    def _has(self, table: str) -> bool:
        """Whether the file has a table that earlier releases do not write."""
        if self._tables is None:
            rows = self._all("SELECT name FROM sqlite_schema WHERE type = 'table'")
            self._tables = frozenset(row[0] for row in rows)
        return table in self._tables

    def _by_seq(self, question: str, seqs: Sequence[int]) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for start in range(0, len(seqs), 10_000):
            rows += self._all(f"{question} ({','.join(map(str, seqs[start : start + 10_000]))})")
        return rows

    def _all(self, question: str, *parameters: Any) -> list[tuple[Any, ...]]:
        rows = self._answer(lambda opened: opened.guard.ask(question, parameters, opened.most_rows))
        return [] if rows is None else rows

    def _table(self, question: str, *parameters: Any) -> NDArray[np.int64]:
        numbers = self._answer(
            lambda opened: opened.guard.table(question, parameters, opened.most_rows)
        )
        return np.zeros((0, 0), dtype=np.int64) if numbers is None else numbers

    def _answer(self, ask: Callable[[OpenedRecording], T]) -> T | None:
        try:
            with self._lock:
                return ask(self._opened)
        except sqlite3.ProgrammingError as error:
            raise RecordingError(f"the recording {self.path} is closed") from error
        except OverflowError:
            return None  # a seq or id beyond 64 bits matches nothing
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise damaged(self.path, error) from error

    def _read(self, reader: Callable[..., T], *arguments: Any) -> T:
        """Call ``reader(*arguments)``; report its errors as damage to the file."""
        try:
            return reader(*arguments)
        except _FAULTS as error:
            raise damaged(self.path, error) from error


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()
