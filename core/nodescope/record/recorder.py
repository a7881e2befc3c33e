"""Recorder: the probe that records a run, and the thread that writes the recording.

The program's threads number events and queue them; arrays are copied first, because the program may
change them later. The writing thread computes statistics and accesses the disk.

Invariant: `emit` never raises, never waits for a full disk, and waits for the writer only briefly.
What does not fit is dropped and counted, values first. A fault ends the recording with one message.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nodescope.arrays import to_numpy
from nodescope.events import (
    Array,
    ArrayMoved,
    Event,
    GradientReached,
    GraphExtended,
    HostSpan,
    Level,
    Logged,
    LossesKnown,
    NodeFailed,
    NodeFinished,
    NodesFinished,
    NodeStarted,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    StepsUnobserved,
)
from nodescope.ir.block_demands import OutputsSink, TimesSink
from nodescope.ir.differences import CallLog, CrossChecked
from nodescope.ir.graph import Node
from nodescope.ir.sizes import nbytes_of
from nodescope.native import identities
from nodescope.record import queued, shutdown
from nodescope.record.buffers import layouts_of, layouts_of_captured
from nodescope.record.capture_levels import WITHOUT_ARRAYS, CaptureLevels, Chosen
from nodescope.record.captures import capture, known_bytes
from nodescope.record.failed_inputs import failed_inputs
from nodescope.record.gathering import Patience
from nodescope.record.kept.waiting_packs import MOST_S
from nodescope.record.newest.held_block import executions_of
from nodescope.record.newest.held_values import Held, Whole
from nodescope.record.newest.newest_values import NewestValues
from nodescope.record.newest.nonfinite_retention import FirstNonfinite, Span
from nodescope.record.policy import Policy
from nodescope.record.queue_writer import MIB, QueueWriter, budget_of
from nodescope.record.queued import RECORD_BYTES, QueuedExecution, QueuedRecord, Skipped, Told
from nodescope.record.record_queue import PLENTY_BYTES, RESERVED, RecordQueue
from nodescope.record.rows import FAILED, Advice, Governed, Keeping, Timings
from nodescope.record.summary import TensorSummary, summarise

_ARRAY_BYTES = 160
# Below this budget, arrays are kept or dropped one by one, not in packs.
_LEAST_BUDGET = 16 * MIB
# Copies of small arrays may use half of the queue's reserve: computing statistics takes far longer.
_LITTLE_BYTES = 8192
# The longest that records of unobserved steps stay in the queue if no other record follows.
_UNSEEN_NS = 1_000_000_000
# How long the writer waits for more records: with a policy, and without.
_PATIENCE = Patience(8, 8, 8), Patience(first=1, followed=4, most=10, open=True)
# The bytes that the writer gathers for a batch: with a policy, which looks at how much waits, and
# without.
_PLENTY = 8 * MIB, PLENTY_BYTES
_now, _ndarray = time.perf_counter_ns, np.ndarray


class Recorder(RecordQueue):
    """Records a run into a file. A probe.

    The queue of its records, composed with the thread that writes them (`QueueWriter`), the chosen
    levels (`CaptureLevels`), the held values of the newest steps (`NewestValues`) and, if there is
    a limit, a `Policy` that keeps it.

    Args:
        path: The ``.nscope`` file. An existing recording is replaced.
        level: The most that is kept of each execution.
        levels: Other levels for scopes or globs over node names, the first match wins.
        chosen: Levels of nodes by predicate, before ``levels``; the first match wins.
        policy: Decides how much is recorded. Without one, everything is.
        newest: Whether to keep the newest steps whole, whatever the level.
        chosen_level: Whether the user chose the level; recorded for display only.
        budget_bytes: Upper limit of full arrays kept; the newest win. None for the default.
        value_steps: At level ``values``: keep full arrays of this many first training steps only.
        queue_bytes: Upper limit of what waits to be written.
        arrays_wait_s: The longest that full arrays wait in memory, see `WaitingPacks`.
        on_commit: Called in the recorder's thread with the seq up to which everything can be read.
        on_fault: Called once, with one line, if the recording has to be given up.
        on_room: Called in the recorder's thread with whether the disk is full, and a message.

    Attributes:
        path: The absolute path of the file.
        writer: The thread that writes the queue.
        levels: The level that the user wants for each node.
        operations, leaves: How many defined nodes compute, and how many do not.

    Raises:
        RecordingError: The file cannot be created.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        level: Level = "summary",
        levels: Mapping[str, Level] | None = None,
        chosen: Sequence[Chosen] = (),
        policy: Policy | None = None,
        newest: bool = False,
        chosen_level: bool = True,
        budget_bytes: int | None = None,
        value_steps: int | None = None,
        queue_bytes: int = 64 * MIB,
        arrays_wait_s: float = MOST_S,
        on_commit: Callable[[int], None] | None = None,
        on_fault: Callable[[str], None] | None = None,
        on_room: Callable[[bool, str], None] | None = None,
    ) -> None:
        self.levels = CaptureLevels(level, levels, chosen, value_steps)
        self._most_bytes = budget_of(budget_bytes)
        budget_bytes = budget_of(budget_bytes, newest=newest)
        super().__init__(
            queue_bytes, keeps_many=budget_bytes >= _LEAST_BUDGET, plenty=_PLENTY[policy is None]
        )
        self.path = Path(path).absolute()
        self.writer = QueueWriter(
            self, self.path, level=level, budget_bytes=budget_bytes, arrays_wait_s=arrays_wait_s,
            on_commit=on_commit, on_fault=on_fault, on_room=on_room,
            patience=_PATIENCE[policy is None], looked_at=self._looked_at,
            final_record=self._final_record,
        )  # fmt: skip
        self.policy = policy
        self._count_noted = None if policy is None else policy.admit_together
        self.newest: NewestValues | None = None
        if newest:
            most_bytes = min(queue_bytes, budget_bytes, 64 * MIB)
            self.newest = NewestValues(
                most_bytes, self.buffers, self.lock, self.enqueue, self._tell_keeping
            )
        self._chosen_level = chosen_level
        self._kept: dict[int, int] = {}  # by value, the latest execution kept on request
        same = level if self.levels.uniform and not newest else None
        alone = same in WITHOUT_ARRAYS and policy is None
        self._record_times: TimesSink | None = self._times if alone else None
        self._record_outputs: OutputsSink | None = None
        if same == "summary" or (same == "values" and value_steps is None):
            self._record_outputs = self._note_outputs(keep=same == "values")
        self._only_latest_times = level == "graph"
        self._due_unseen_ns = self.operations = self.leaves = 0
        self._told: Keeping | None = self.keeping()
        self.writer.start()

    def emit(self, event: Event) -> None:
        """Number an event and queue it."""
        if self.off:
            return
        if event.__class__ is NodeFinished:
            if (times := self._record_times) is not None and not (event.lane or event.worker):
                times(event.node.id, event.step, event.thread, event.start_ns, event.end_ns)
            elif self.policy is not None:
                self._govern(event, self.policy)
            elif (note := self._record_outputs) is None or not self._noted(event, note):
                self._record(event, self.levels.of(event.node))
        elif event.__class__ is GraphExtended:
            self._extended(event)
        elif isinstance(event, StepStarted | StepFinished | StepsUnobserved):
            self._step(event)
        elif isinstance(event, NodesFinished):
            self._block(event)
        elif isinstance(event, NodeFailed):
            self._failed(event)
        elif isinstance(event, queued.ASIDE):
            self._aside(event, queued.weight_of(event))
        elif not isinstance(event, NodeStarted | GradientReached):
            self._other(event)

    def block_level(self) -> Level | None:
        """See `Bus.block_level`."""
        if self.off:
            return "graph"
        takes = self.newest is None or self.levels.top == "summary"
        return self.levels.of_blocks if takes else None

    def times_sink(self) -> TimesSink | None:
        """See `nodescope.ir.block_demands`."""
        return None if self.off else self._record_times

    def outputs_sink(self) -> OutputsSink | None:
        """See `nodescope.ir.block_demands`."""
        noting = self.policy is None or self.policy.notes
        return self._record_outputs if noting and not self.off else None

    def block_bytes(self) -> int:
        """See `Bus.block_bytes`."""
        return 0 if self.off or self.newest is None else self.newest.held.most_bytes

    def block_nodes(self) -> frozenset[int]:
        """See `nodescope.ir.block_demands`."""
        return frozenset() if self.off else self.levels.watched

    def _block(self, event: NodesFinished) -> None:
        """Record a block of executions that were reported together."""
        start, policy = _now(), self.policy
        if policy is not None:
            many, firsts = len(event.times), event.track.firsts
            policy.admit_together(many, firsts[event.first + many] - firsts[event.first])
        first = self._put_block(event, latest_only=self.levels.top == "graph")
        if self.newest is not None:
            self.newest.hold_block(event, first, self.levels.watched)
        if viewed := executions_of(self.levels.watched, event, first):
            self._note(Whole(viewed), sum(item.nbytes for item in viewed), always=False)
        if policy is not None:
            policy.took(None, _now() - start)

    def _govern(self, event: NodeFinished, policy: Policy) -> None:
        """Record an execution at the level that the policy admits, or only number it."""
        start, note = _now(), self._record_outputs if policy.notes else None
        if note is None or not self._noted(event, note):
            if (level := policy.admit(event)) is not None:
                self._record(event, level)
            else:
                with self.lock:
                    self._last[threading.get_ident()] = self.number()
        policy.took(event.node, _now() - start)

    def _step(self, event: StepStarted | StepFinished | StepsUnobserved) -> None:
        """Record starts and ends of training steps."""
        start, policy = _now(), self.policy
        if isinstance(event, StepStarted):
            self.levels.step_begins(event.step)
            if self.newest is not None and event.observed:
                self.newest.step_begins(event)
        elif isinstance(event, StepFinished) and policy is not None:
            policy.losses_known(event.losses, observed=event.observed)
        elif isinstance(event, StepsUnobserved) and policy is not None:
            policy.steps_unobserved(len(event.starts))
            for losses in event.losses:
                policy.losses_known(losses, observed=False)
        if isinstance(event, StepsUnobserved):
            self._unseen(event, event.starts[-1], len(event.starts) + len(event.ends))
        elif event.observed:
            self._note(event, 2 * RECORD_BYTES, always=True)
        else:
            self._unseen(event, event.time_ns)
        if policy is not None:
            policy.took(None, _now() - start)

    def _extended(self, event: GraphExtended) -> None:
        """Record nodes that were defined, or else changed specs of values."""
        if not event.nodes:
            self._respecify(event)
            return
        self.levels.forget(event.nodes)
        self.leaves += (leaves := sum([defined.is_leaf for defined in event.nodes]))
        self.operations += len(event.nodes) - leaves
        if self.policy is not None:
            self._sizes.update({item.id: nbytes_of(item.spec) or 0 for item in event.values})
        self._note(event, queued.weight_of(event), always=True)

    def _other(self, event: Event) -> None:
        """Record an event that is neither an execution, a definition nor a step."""
        if self.policy is not None and isinstance(event, LossesKnown):
            self.policy.losses_known(event.losses, observed=False)
        elif self.policy is not None and isinstance(event, RunStarted):
            self.policy.started()
        elif self.policy is not None and isinstance(event, RunFinished):
            self.policy.conclude(event.error)
        self._note(event, queued.weight_of(event), always=not isinstance(event, Logged))
        if isinstance(event, RunStarted):
            self._told = None
            self._tell_keeping()

    def missed(self, node: Node) -> None:
        """Count an execution whose event did not reach this probe."""
        with self.lock:
            self.number()
            self.lost_executions += 1
            self.missed_nodes.append(node.id)

    def remark(self, text: str, step: int, time_ns: int) -> None:
        """Record a log line from nodescope itself, even if the queue is full."""
        if not self.off:
            line = Logged("nodescope", text, step, time_ns)
            self._note(line, queued.weight_of(line), always=True)

    def skipped(self, node: int, times: int) -> None:
        """Count the runs of a node since its last row that have no row of their own."""
        self._aside(Skipped(node, times), 0)

    def call_begins(self) -> None:
        """Note the start of an observed outermost call outside of steps."""
        if self.newest is not None:
            self.newest.call_begins()

    def keep(self, node: Node, value: int, array: Array, seq: int, step: int = 0) -> None:
        """Keep the elements of a value that an execution has just produced, whatever its level."""
        level = self.levels.now(node)
        if self.off or level == "values" or self._kept.get(value) == seq:
            return
        self._kept[value] = seq
        if array.__class__ is not _ndarray:
            try:
                array = to_numpy(array)
            except Exception:  # raised by the library
                return
        if self.newest is not None and not self.newest.held.kept(value, seq):
            return
        copied, summarised = ((value, array.copy()),), level == "summary"
        item = Held(seq, step, copied, array.nbytes, summarised=summarised)
        self._note(Whole((item,)), array.nbytes + RECORD_BYTES, always=False)

    def keep_whole(self, *, everything: bool, nodes: frozenset[int]) -> None:
        """Keep every element from now on: of all nodes, or of some that are being viewed."""
        self.levels.keep_whole(everything=everything, nodes=nodes)
        self._record_times = self._record_outputs = None
        if everything:
            self.writer.raise_budget(self._most_bytes)
        self._tell_keeping()
        if self.policy is not None:
            self.policy.demand()

    def keeping(self) -> Keeping:
        """Which values are kept, and the losses by cause."""
        levels = self.levels
        with self.lock:
            too_large = self.writer.file.arrays.too_large
            unwritten, behind = self.writer.unwritten, self.overflow.given_up
            # Arrays reduced to statistics while the disk was full count as losses of the disk.
            behind -= self.writer.disk_losses.behind(self.writer.losses())
            over_budget = self.dropped_blobs - behind - too_large - unwritten.arrays
            keeping = Keeping(
                level=levels.top, limit=self.policy.limit if self.policy is not None else None,
                budget_bytes=self.writer.budget_bytes, chosen=self._chosen_level,
                everything=levels.everything, nodes=tuple(sorted(levels.watched)),
                over_budget=over_budget, behind=behind, too_large=too_large,
                unwritten=unwritten or None,
            )  # fmt: skip
            return keeping if self.newest is None else self.newest.completed(keeping)

    def _tell_keeping(self) -> None:
        """Record which values are kept, if that has changed."""
        if (now := self.keeping()) != self._told and not self.off:
            self._told = now
            self.enqueue(now)

    def _final_record(self) -> Keeping | None:
        return now if (now := self.keeping()).unwritten and now != self._told else None

    def _looked_at(self, spans: Sequence[Span], found: FirstNonfinite) -> None:
        if self.newest is not None:
            self.newest.looked_at(spans, found)

    def add(self, document: Advice | Timings | Governed | CrossChecked | CallLog) -> None:
        """Record a document: advice, timings, the governor's report, a cross-check or calls."""
        if not self.off:
            self._note(document, 2 * RECORD_BYTES, always=True)

    def flush(self, timeout_s: float = 2.0, *, elements: bool = True) -> bool:
        """Wait until everything emitted so far can be read; return False if it cannot be yet.

        Args:
            timeout_s: The longest time to wait.
            elements: Whether to wait for full arrays as well, see `QueueWriter.owes`.
        """
        if self.forked or self.writer.writes or not self._share():
            return False
        target = self.last_seq
        return self.writer.wait_until_readable(target, elements=elements, timeout_s=timeout_s)

    def close(
        self, timeout_s: float = shutdown.STILL_S, slow: Callable[[], None] = lambda: None
    ) -> bool:
        """Write the rest and leave one portable file; False if not everything could be written.

        Waits while the writer makes progress, see `shutdown.wait_for`, then drops and counts the
        rest. Ctrl-C also drops the rest, and is then raised. The next reader ends a slow merge.
        """
        if self.forked:
            return False
        if not self.writer.closing:
            if self.policy is not None:
                self.policy.conclude()
            if self._share():
                self._tell_keeping()
        return self.writer.end(timeout_s, slow)

    def _record(self, event: NodeFinished, level: Level) -> None:
        """Number an execution and queue its record."""
        row = (event.node.id, event.step, event.thread, event.start_ns, event.end_ns)
        if level == "timing" or level == "graph":
            place, ids = queued.place_of(event), identities(event.inputs, event.outputs)
            latest, ran = level == "graph", event.node
            self._put(row, RECORD_BYTES, latest_only=latest, node=ran, arrays=ids, place=place)
            if self.newest is not None:
                self.newest.remember(event, self.thread_seq(), None, late=True)
            return
        outputs = event.node.outputs
        remembered = level == "summary" and self.newest is not None
        weight = RECORD_BYTES
        for array in event.outputs:
            if array.__class__ is not _ndarray:
                self._record_elsewhere(event, row, level)
                return
            weight += array.nbytes + _ARRAY_BYTES
        part = self.most_bytes // (RESERVED if weight > _LITTLE_BYTES else 2 * RESERVED)
        room = self.most_bytes - part
        kept_outputs: list[tuple[int, Array | TensorSummary]] = []
        copies = None
        try:
            if self.queued + weight > room and not (
                level == "values" and self._make_room(room - weight)
            ):
                # No copy fits, so the statistics are computed on this thread: that costs only time.
                kept_outputs = list(zip(outputs, map(summarise, event.outputs), strict=False))
                weight = RECORD_BYTES * (1 + len(kept_outputs))
                if level == "values":
                    self.gave_up(len(kept_outputs))
            else:
                # A copy that is also held has two users, and each of them gives it back.
                copy, users = self.buffers.copy, 1 + remembered
                pairs = zip(outputs, event.outputs)  # noqa: B905 (this is the program's thread)
                kept_outputs = [(value, copy(array, users)) for value, array in pairs]
                copies = kept_outputs
        except MemoryError:
            kept_outputs = []
        if not kept_outputs and outputs:
            weight = RECORD_BYTES
            with self.lock:
                self.lost_summaries += len(event.outputs)
        layouts = layouts_of(outputs, event.outputs) if level == "values" else ()
        self._put(
            row, weight, 0, kept_outputs, False, level == "values", "", False, layouts, event.attrs,
            queued.place_of(event), False, event.node, identities(event.inputs, event.outputs),
        )  # fmt: skip
        if remembered and self.newest is not None:
            self.newest.remember(event, self.thread_seq(), copies, late=False)

    def _record_elsewhere(
        self, event: NodeFinished, row: tuple[int, int, int, int, int], level: Level
    ) -> None:
        """Record arrays of other libraries: their adapter captures them."""
        newest = self.newest if level == "summary" else None
        if newest is not None and not newest.fits_elsewhere(event.outputs):
            newest = None
        if self.queued > self.nearly_full // 2:
            self._await_room(known_bytes(event.outputs) or RECORD_BYTES)
        most, room = level if newest is None else "values", self.most_bytes - self.queued
        captured, lost, reduced = capture(event, most, room, shared=newest is not None)
        weight = RECORD_BYTES + sum([content.nbytes + _ARRAY_BYTES for _, content in captured])
        if lost or reduced:
            with self.lock:
                self.lost_summaries += lost
                self.gave_up(reduced)
        keeps = level == "values"
        layouts = layouts_of_captured(captured) if keeps else ()
        self._put(
            row, weight, 0, captured, False, keeps, "", False, layouts, event.attrs,
            queued.place_of(event), True,
        )  # fmt: skip
        if newest is not None:
            newest.hold(event, self.thread_seq(), captured, late=False)

    def _share(self) -> bool:
        """Queue what is noted or held, and counts of steps; False if the recording is given up."""
        if not self._number_all():
            return False
        if self.newest is not None and not self.off:
            self.newest.share()
        if self.policy is not None and not self.off:
            self.policy.tell_counts()
        return True

    def _make_room(self, room: int) -> bool:
        """Reduce the queue to ``room``: the oldest arrays are replaced by statistics."""
        with self.lock:
            freed, given_up = self.overflow.free(self.queued - room)
            self.queued -= freed
            self.dropped_blobs += given_up
            return self.queued <= room

    def _failed(self, event: NodeFailed) -> None:
        row = (event.node.id, event.step, event.thread, event.start_ns, event.start_ns)
        error, ids, node = event.error or "failed", identities(event.inputs, ()), event.node
        free = self.most_bytes - self.queued
        given, weight = failed_inputs(event, self.levels.of(node), free)
        weight += RECORD_BYTES + len(error)
        self._put(
            row, weight, FAILED, given, False, True, error, True, node=node, arrays=ids,
            place=queued.place_of(event),
        )  # fmt: skip

    def _put(
        self,
        row: tuple[int, int, int, int, int],
        weight: int,
        flags: int = 0,
        outputs: Sequence[tuple[int, Array | TensorSummary]] = (),
        latest_only: bool = False,
        keep_arrays: bool = False,
        error: str = "",
        always: bool = False,
        layouts: tuple[tuple[int, tuple[int, ...]], ...] = (),
        attrs: dict[str, Any] | None = None,
        place: tuple[int, int] | None = None,
        unresolved: bool = False,
        node: Node | None = None,
        arrays: bytes = b"",
    ) -> None:
        """Number and queue an execution; ``row`` is a `Timed` without its seq."""
        if self.queued > self.nearly_full:
            self._give_way()
        with self.lock:
            seq = self.number()
            if self.queued + weight > self.most_bytes and not always:
                self.lost_executions += 1
                self.missed_nodes.append(row[0])
                self.lost_summaries += len(outputs)
            else:
                self.queued += weight
                ran = QueuedExecution(
                    (seq, *row), weight, flags, outputs, latest_only, keep_arrays, error,
                    layouts, attrs, place, unresolved, node, arrays,
                )  # fmt: skip
                self.records.append(ran)
                if keep_arrays and not unresolved:
                    self.overflow.add(ran)
        self._last[threading.get_ident()] = seq
        if not self.awake:
            self.wake()

    def _note(self, event: Told, weight: int, *, always: bool) -> None:
        """Number and queue any other record."""
        self._let_write()
        with self.lock:
            seq = self.number()
            if self.queued + weight > self.most_bytes and not always:
                self.lost_executions += 1
            else:
                self.queued += weight
                self.records.append(QueuedRecord(seq, weight, event))
        self._last[threading.get_ident()] = seq
        if not self.awake:
            self.wake()

    def _aside(self, event: Told, weight: int) -> None:
        """Queue an event that has no number of its own, such as a span between records."""
        if event.__class__ is ArrayMoved:
            if self._record_times is not None:  # nothing is recorded of arrays
                return
            self.number_times()
        with self.lock:
            if weight and self.queued + weight > self.most_bytes:
                return
            self.queued += weight
            self.records.append(QueuedRecord(0, weight, event))
        # Like unobserved steps, a span that ends before they are due does not wake the writer.
        hasty = not isinstance(event, HostSpan) or event.end_ns >= self._due_unseen_ns
        if weight and hasty and not self.awake:
            self.wake()

    def _unseen(self, event: Told, time_ns: int, many: int = 1) -> None:
        """Queue starts and ends of unobserved steps, which wake the writer only now and then."""
        with self.lock:
            self.records.append(QueuedRecord(self.number(many), many * RECORD_BYTES, event))
            self._last[threading.get_ident()] = self.seq
            self.queued += many * RECORD_BYTES
        if time_ns >= self._due_unseen_ns:
            self._due_unseen_ns = time_ns + _UNSEEN_NS
            self.wake()
