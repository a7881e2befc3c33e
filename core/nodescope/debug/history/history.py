"""History: moments of a run, with the known values.

A moment is one execution of one node. Where the program is stopped, the arrays are available; any
other moment is read from the recording, and missing values have a reason.

Invariant: nothing is changed; returned arrays are never written to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from nodescope.arrays.lazy import HeldArray, LazyArray
from nodescope.debug.breakpoints.compiled_nodes import Compilations
from nodescope.debug.replay.execution_index import Assigns, ExecutionIndex, add_assigns, assigning
from nodescope.debug.replay.operand_sources import MOST_BEFORE, MOST_ELEMENTS, same
from nodescope.debug.replay.replay import Replay
from nodescope.errors import ArrayError, ReplayError
from nodescope.ir.graph import Node
from nodescope.protocol import When
from nodescope.record.captures import summary_of
from nodescope.record.compiled_functions import functions, shown
from nodescope.record.recording import Recording
from nodescope.record.rows import FAILED, Execution, Holds
from nodescope.record.summary import TensorSummary, whole

_PAGE = 256


class LiveArray(Protocol):
    """Returns the array of a value that the stopped program holds, or holds as a node's input."""

    def __call__(self, value: int, port: int | None = None, /) -> HeldArray | None:
        """The array by value id, or by port if the node took it there."""


def nothing(value: int, port: int | None = None, /) -> HeldArray | None:
    """The live arrays of a program that is not stopped: none."""
    return None


class Moment(msgspec.Struct, frozen=True):
    """One execution of a node.

    Attributes:
        seq: The execution; at a stop before a node, the last one before it.
        when: ``before`` only if the program is stopped before the node.
        live: Whether the program is stopped here; otherwise the moment is in the past.
        error: The exception that the node raised, or ``""``.
        time_ns: The end of its execution since the run began; 0 where the program is stopped.
    """

    node: Node
    seq: int
    step: int
    thread: int
    when: When = "after"
    live: bool = False
    error: str = ""
    time_ns: int = 0


class ValueAtMoment(msgspec.Struct, frozen=True):
    """A value at a moment.

    Attributes:
        value: Value id.
        name: The value's name: its node's, followed by the port for further outputs.
        role: ``inputs[0]``, ``outputs[1]`` or ``gradient``.
        array: Its elements, which may not be fetched yet; None if unavailable.
        summary: Its recorded statistics, if there is no array.
        missing: Why there is no array, or ``""``.
        seq, step: The execution that wrote it, as far as known; else 0.
    """

    value: int
    name: str
    role: str
    array: HeldArray | None = None
    summary: TensorSummary | None = None
    missing: str = ""
    seq: int = 0
    step: int = 0


class History:
    """The recording of the run, live or ended, as moments.

    Args:
        recording: The open recording, which may still grow.

    Attributes:
        holds: The times when the debugger held the run.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.holds = Holds(())
        self.level = recording.run().level
        self._defined: dict[int, list[tuple[int, Node]]] = {}
        self._ids: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._gradients: dict[int, int] = {}
        self._read_nodes = self._read_values = self._read_gradients = 0
        self._compilations = Compilations()
        self._met = 0
        # The targets of kernels' assignments, for the nodes known at that time.
        self._assigning: tuple[int, Assigns] = (0, {})
        self._replayed: tuple[int, Replay] | None = None  # up to which seq

    def refresh(self) -> None:
        """Take in everything committed since the last call."""
        self.holds = Holds(self.recording.holds())
        for row in self.recording.nodes(self._read_nodes):
            self._defined.setdefault(row.node.id, []).append((row.seq, row.node))
            self._ids[row.node.name] = row.node.id
            self._read_nodes = max(self._read_nodes, row.seq)
        for value_row in self.recording.values(self._read_values):
            self._names[value_row.value.id] = value_row.value.name
            self._read_values = max(self._read_values, value_row.seq)
        for gradient in self.recording.gradients(self._read_gradients):
            self._gradients[gradient.value] = gradient.gradient
            self._read_gradients = max(self._read_gradients, gradient.seq)

    @property
    def names(self) -> dict[str, int]:
        """Ids of all nodes so far, by name."""
        return self._ids

    def nodes(self) -> list[Node]:
        """All nodes so far, in their latest definition."""
        return [definitions[-1][1] for definitions in self._defined.values()]

    def node(self, number: int, seq: int | None = None) -> Node | None:
        """A node as defined at a moment; None if unknown."""
        definitions = self._defined.get(number)
        if not definitions:
            return None
        earlier = (node for at, node in reversed(definitions) if seq is None or at <= seq)
        return next(earlier, definitions[0][1])

    def value_name(self, value: int) -> str:
        """The name of a value."""
        return self._names.get(value, f"value {value}")

    @property
    def compilations(self) -> Compilations:
        """The compiled functions so far."""
        rows = self.recording.nodes(self._met)
        if any(row.node.graph and not self._compilations.knows(row.node.graph) for row in rows):
            for function in functions(self.recording):
                self._compilations.know(function.traced, shown(function.final), function.compiled)
        for row in rows:
            self._compilations.met((row.node,))
            self._met = max(self._met, row.seq)
        return self._compilations

    # ------------------------------------------------------------ executions

    def moment(self, execution: Execution) -> Moment | None:
        """The moment of an execution; None if its node is unknown."""
        node = self.node(execution.node, execution.seq)
        if node is None:
            return None
        error = ""
        if execution.flags & FAILED:
            error = self.recording.failure(execution.seq) or "failed"
        return Moment(
            node, execution.seq, execution.step, execution.thread, error=error,
            time_ns=execution.start_ns + execution.duration_ns,
        )  # fmt: skip

    def backwards(self, before: int, *, leaves: bool = False) -> Iterator[Moment]:
        """Moments before a seq, latest first; with ``leaves``, including nodes that only hold
        data.
        """
        end, width = before - 1, _PAGE
        while end > 0:
            start = max(0, end - width)
            rows = self.recording.executions(start, end)
            for row in reversed(rows):
                if (moment := self._computed(row, leaves)) is not None:
                    yield moment
            # Seqs also number log lines: where executions are rare, read larger ranges at once.
            width = _PAGE if len(rows) > _PAGE // 4 else width * 2
            end = start

    def forwards(
        self, after: int, until: int | None = None, *, leaves: bool = False
    ) -> Iterator[Moment]:
        """Moments in ``(after, until]`` in order, with or without leaves."""
        while rows := self.recording.executions(after, until, limit=_PAGE):
            for row in rows:
                if (moment := self._computed(row, leaves)) is not None:
                    yield moment
            after = rows[-1].seq

    def last_of(self, node: int, until: int | None = None) -> Moment | None:
        """The latest execution of a node at or before a seq."""
        _, rows, _ = self.recording.history(node, until_seq=until, limit=1)
        return self.moment(rows[-1]) if rows else None

    def assigned(self, leaf: Moment, until: int | None = None) -> Moment | None:
        """The last assignment to a leaf's value, after ``leaf`` and at or before a seq."""
        assigns: Assigns = {}
        for candidate in self.nodes():
            add_assigns(assigns, candidate)
        later = []
        for value in leaf.node.outputs[:1]:
            for number, output in assigning(value, assigns, self._within_kernels()):
                wrote = self.last_of(number, until)
                if wrote is not None and wrote.seq > leaf.seq:
                    node = msgspec.structs.replace(wrote.node, outputs=(output,))
                    later.append(msgspec.structs.replace(wrote, node=node))
        return max(later, key=lambda written: written.seq, default=None)

    def _within_kernels(self) -> Assigns:
        """As in `ExecutionIndex.within_kernels`."""
        if self._assigning[0] != self._read_nodes:
            kernels = any(node.graph and node.family == "kernel" for node in self.nodes())
            assigns = ExecutionIndex(self.recording).within_kernels if kernels else {}
            self._assigning = (self._read_nodes, assigns)
        return self._assigning[1]

    def _computed(self, row: Execution, leaves: bool) -> Moment | None:
        moment = self.moment(row)
        return None if moment is None or (moment.node.is_leaf and not leaves) else moment

    # ------------------------------------------------------------ values

    def inputs(self, at: Moment, live: LiveArray) -> tuple[ValueAtMoment, ...]:
        """The inputs of a moment's node, by port."""
        # A value written by a node may share its id with one that it reads: an input is older than
        # its output.
        seq = at.seq if at.when == "before" else at.seq - 1
        older = {} if at.live else self._older(at)
        inputs = []
        for port, value in enumerate(at.node.inputs):
            array = live(value, port) if at.live else None
            if array is None:
                inputs.append(self._seen(value, f"inputs[{port}]", at, older.get(port, seq)))
            else:
                name = self.value_name(value)
                when = self._wrote(value, array, at, seq)
                inputs.append(ValueAtMoment(value, name, f"inputs[{port}]", array, None, "", *when))
        return tuple(inputs)

    def _older(self, at: Moment) -> dict[int, int]:
        """By port, the writer of an operand, if that is not the latest; see `operand_sources`."""
        rows = self.recording.executions(at.seq - 1, at.seq, node=at.node.id)
        if not rows or not at.node.inputs or at.error:
            return {}
        last = self.recording.last_seq()
        try:
            if self._replayed is None or self._replayed[0] != last:
                self._replayed = (last, Replay(self.recording))
            replay = self._replayed[1]
            took, latest = replay.sources(rows[0]), replay.book.sources(rows[0])
        except ReplayError:
            return {}
        pairs = enumerate(zip(took, latest, strict=True))
        return {port: actual.seq for port, (actual, other) in pairs if actual != other}

    def _wrote(self, value: int, array: HeldArray, at: Moment, seq: int) -> tuple[int, int]:
        """Execution and step that wrote a value held by the program; the moment's own if it is
        new.
        """
        lazy = isinstance(array, LazyArray)
        few = lazy or array.size <= MOST_ELEMENTS
        recorded = self.recording.latest_at(value, seq) if few else None
        for older in range(MOST_BEFORE + 1):
            if recorded is None:
                break
            if (
                _alike(array, recorded.summary)
                if isinstance(array, LazyArray)
                else same(array, self.recording.array(value, recorded.seq))
            ):
                again = at.when == "after" and value in at.node.outputs
                return (recorded.seq, recorded.step) if older or again else (at.seq, at.step)
            recorded = self.recording.latest_at(value, recorded.seq - 1)
        return at.seq, at.step

    def outputs(self, at: Moment, live: LiveArray) -> tuple[ValueAtMoment, ...]:
        """The outputs of a moment's node, by port."""
        outputs = []
        for port, value in enumerate(at.node.outputs):
            role = f"outputs[{port}]"
            if at.when == "before":
                name = self.value_name(value)
                outputs.append(ValueAtMoment(value, name, role, missing="the node has not run yet"))
            elif at.error:
                name = self.value_name(value)
                outputs.append(
                    ValueAtMoment(value, name, role, missing=f"the node raised {at.error}")
                )
            else:
                outputs.append(self._seen(value, role, at, at.seq, live))
        return tuple(outputs)

    def gradient(self, at: Moment, live: LiveArray) -> ValueAtMoment | None:
        """The gradient of the node's first output: of the same step if known, else of the previous
        one.
        """
        if not at.node.outputs:
            return None
        gradient = self._gradients.get(at.node.outputs[0])
        if gradient is None:
            return None
        until: int | None = at.seq
        if not at.live:
            # When looking back, later executions in the moment's own step are known.
            ended = (step for step in self.recording.steps(at.seq) if step.step == at.step)
            until = next((step.end_seq for step in ended), None)
        return self._seen(gradient, "gradient", at, until, live)

    def _seen(
        self, value: int, role: str, at: Moment, seq: int | None, live: LiveArray = nothing
    ) -> ValueAtMoment:
        name = self.value_name(value)
        if at.live and (array := live(value)) is not None:
            return ValueAtMoment(value, name, role, array, seq=at.seq, step=at.step)
        recorded = self.recording.latest_at(value, seq)
        if recorded is None:
            return ValueAtMoment(value, name, role, missing=self._why())
        ran = self.recording.ran_last(value, at.seq if seq is None else seq)
        if ran > recorded.seq:
            missing = f"no statistics of this execution; last known: step {recorded.step}"
            executions = self.recording.executions(ran - 1, ran)
            return ValueAtMoment(
                value, name, role, missing=missing, seq=ran, step=executions[0].step
            )
        summary = recorded.summary
        elements = self.recording.array(value, recorded.seq) if summary.blob else whole(summary)
        missing = "" if elements is not None else self._why()
        return ValueAtMoment(
            value, name, role, elements, recorded.summary, missing, recorded.seq, recorded.step
        )

    def _why(self) -> str:
        if self.level != "values":
            return f"level {self.level} keeps no elements"
        dropped = self.recording.dropped()
        if dropped.blobs:
            return "its elements were dropped to stay within the byte budget"
        if dropped.executions or dropped.summaries:
            return "it was dropped because the program was faster than the recorder"
        return "its elements were not recorded"


def _alike(array: LazyArray, recorded: TensorSummary) -> bool:
    """Whether an array has the recorded statistics, so that its elements need not be fetched."""
    try:
        summary = summary_of(array)
    except ArrayError:
        return False
    exact = ("spec", "min", "max", "nan_count", "inf_count", "zero_count", "preview")
    return all(_statistic(summary, name) == _statistic(recorded, name) for name in exact)


def _statistic(summary: TensorSummary, name: str) -> object:
    spec = summary.spec
    return (spec.shape, spec.dtype) if name == "spec" else getattr(summary, name)
