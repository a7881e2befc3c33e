"""Execution index: when each node ran, and which execution wrote each of its inputs.

The writer of an input is the producer's latest earlier execution, unless the table ``operand``
names another one. A parameter has the value of the latest `assign` to it. An edited value has its
new content after the edit.

Invariant: only reads the recording. The index is a snapshot: a recording that has grown needs a new
one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import Any, NamedTuple

from nodescope.debug.replay.dialects import ENGINE, RecordedCall, recorded_call
from nodescope.debug.replay.engine_dialect import scalars_in
from nodescope.errors import ReplayError
from nodescope.ir.capabilities import Framework
from nodescope.ir.graph import Graph, Node
from nodescope.record.compiled_functions import functions
from nodescope.record.operand_writers import UNKNOWN
from nodescope.record.recording import Recording
from nodescope.record.rows import FAILED, Execution

Assigns = dict[int, set[tuple[int, int]]]
"""By assigned value: pairs of the assigning node's id and its output's value id."""


class ValueSource(NamedTuple):
    """The source of an execution's input: a value and the execution that wrote it.

    Attributes:
        edited: The seq of the edit that has since replaced the value's content, or 0.
    """

    value: int
    execution: Execution
    edited: int = 0

    @property
    def seq(self) -> int:
        """The seq under which the array is recorded: the edit's, or the execution's."""
        return self.edited or self.execution.seq


class ExecutionIndex:
    """Nodes, values and executions of a recording.

    Attributes:
        recording: The indexed recording.
        producer: Node id by value id.
        values: Name by value id.
        edits: The user's edits, by seq.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._rows: dict[int, list[Node]] = {}
        self._seqs: dict[int, list[int]] = {}
        self.producer: dict[int, int] = {}
        self._assigns: Assigns = {}
        for row in recording.nodes():
            node = row.node
            self._rows.setdefault(node.id, []).append(node)
            self._seqs.setdefault(node.id, []).append(row.seq)
            self.producer.update(dict.fromkeys(node.outputs, node.id))
            add_assigns(self._assigns, node)
        self.values = {row.value.id: row.value.name for row in recording.values()}
        self.last_seq = recording.last_seq()
        self._dropped = recording.dropped().executions > 0
        # Start seqs of unobserved steps.
        self._left_out = [step.start_seq for step in recording.steps() if not step.observed]
        self.edits = {edit.seq: edit for edit in recording.edits()}
        self._edited_at: dict[int, list[int]] = {}
        for edit in self.edits.values():
            self._edited_at.setdefault(edit.value, []).append(edit.seq)
        self._ran: dict[int, list[Execution]] = {}
        self._failed: dict[int, list[Execution]] = {}
        self._known: dict[tuple[int, int], RecordedCall] = {}
        self._calls = recording.calls()
        self._operands = recording.operands()
        governed = recording.governed()
        left_out = () if governed is None else governed.nodes
        self._with_gaps = {node.node for node in left_out if node.executions}

    # ------------------------------------------------------------ nodes

    def nodes(self) -> list[Node]:
        """All nodes in their latest definition, in order of id."""
        return [self._rows[number][-1] for number in sorted(self._rows)]

    def node(self, number: int, seq: int | None = None) -> Node:
        """A node as it was defined at a moment. Raises `ReplayError` if there is none."""
        rows = self._rows.get(number)
        if not rows:
            raise ReplayError(f"the recording has no node {number}")
        if seq is None:
            return rows[-1]
        return rows[max(bisect_right(self._seqs[number], seq) - 1, 0)]

    def made_by(self, value: int) -> Node:
        """The producer of a value, in its latest definition. Raises `ReplayError`."""
        number = self.producer.get(value)
        if number is None:
            raise ReplayError(f"the recording has no value {value}")
        return self.node(number)

    # ------------------------------------------------------------ executions

    def ran(self, number: int) -> list[Execution]:
        """The successful executions of a node, in order."""
        executions = self._ran.get(number)
        if executions is None:
            rows = self.recording.executions(0, self.last_seq, node=number)
            executions = self._ran[number] = [
                execution for execution in rows if not execution.flags & FAILED
            ]
            self._failed[number] = [execution for execution in rows if execution.flags & FAILED]
        return executions

    def latest(self, number: int, before: int) -> Execution | None:
        """The last execution of a node with a seq below ``before``."""
        rows = self.ran(number)
        at = bisect_left(rows, before, key=lambda execution: execution.seq)
        return rows[at - 1] if at else None

    def raised(self, value: int, before: int) -> Execution | None:
        """The last execution before a seq that raised instead of writing a value.

        None if there is none since the value was last written.
        """
        writer = self.writer(value, before)
        since = 0 if writer is None else writer.seq
        failed = self._failed.get(self.producer.get(value, 0), [])
        between = [execution for execution in failed if since < execution.seq < before]
        return between[-1] if between else None

    def step_range(self, step: int) -> tuple[int, int]:
        """First and last seq of a training step. Raises `ReplayError` if it did not run.

        Executions between the step and the next one, such as a validation, belong to the step.
        """
        starts = {row.step: row.start_seq for row in self.recording.steps()}
        if step in starts or step == 0:
            start = starts.get(step, 0)
            after = [begin for begin in starts.values() if begin > start]
            return start, min(after, default=self.last_seq + 1) - 1
        raise ReplayError(f"step {step} is not in the recording")

    def step_of(self, seq: int) -> int:
        """The training step that a seq belongs to."""
        return max((row.step for row in self.recording.steps() if row.start_seq <= seq), default=0)

    def last_step(self) -> int:
        """The last training step, or 0."""
        return max((row.step for row in self.recording.steps()), default=0)

    def writer(self, value: int, before: int) -> Execution | None:
        """The last execution that wrote a value before a seq."""
        number = self.producer.get(value)
        return None if number is None else self.latest(number, before)

    def source(self, value: int, before: int) -> ValueSource | None:
        """The source of a value just before a seq."""
        writer = self.writer(value, before)
        return None if writer is None else self._edited(ValueSource(value, writer), before)

    def _edited(self, source: ValueSource, before: int) -> ValueSource:
        """The source, with the last edit that replaced its content before a seq."""
        edits = self._edited_at.get(source.value, ())
        last = edits[at - 1] if (at := bisect_left(edits, before)) else 0
        return source._replace(edited=last) if last > source.seq else source

    def sources(self, execution: Execution) -> list[ValueSource]:
        """The sources of an execution's inputs; for a parameter, its latest assignment.

        Raises:
            ReplayError: The recording has no execution that wrote an input.
        """
        node = self.node(execution.node, execution.seq)
        if not node.inputs:
            return self._assigned(node, execution)
        sources = []
        for port, value in enumerate(node.inputs):
            source = self.operand(execution, port, value)
            if source is None:
                name = self.values.get(value, f"value {value}")
                raise ReplayError(
                    f"{node.name}: its input {name} was not recorded earlier",
                    hint="executions were dropped, or only the latest one was kept (level graph)",
                )
            sources.append(source)
        return sources

    def operand(self, execution: Execution, port: int, value: int) -> ValueSource | None:
        """The source of one input of an execution; None if it was not recorded."""
        wrote = None
        if self._operands and self.exact(value):
            wrote = self._operands.get((execution.seq, port))
        if wrote is None:
            return self.source(value, execution.seq)
        ran = self.ran(self.producer[value])
        at = bisect_left(ran, wrote, key=lambda earlier: earlier.seq)
        if wrote == UNKNOWN or at >= len(ran) or ran[at].seq != wrote:
            return None
        return ValueSource(value, ran[at])

    def exact(self, value: int) -> bool:
        """Whether the recording states which execution wrote each read of a value."""
        if self._operands is None or self._dropped:
            return False
        number = self.producer.get(value)
        if number is None or number in self._with_gaps:
            return False
        return self.node(number).dialect == ENGINE

    def _assigned(self, leaf: Node, execution: Execution) -> list[ValueSource]:
        """The source of a parameter's content, assuming that only recorded nodes changed it."""
        if leaf.role != "parameter" or not leaf.outputs:
            return []
        value = leaf.outputs[0]
        source = self.source(value, execution.seq)
        for number, output in assigning(value, self._assigns, self.within_kernels):
            wrote = self.latest(number, execution.seq)
            if wrote is None or (source is not None and wrote.seq <= source.seq):
                continue
            if self._assigned_to(output, wrote) == value:
                source = self._edited(ValueSource(output, wrote), execution.seq)
        return [] if source is None else [source]

    def _assigned_to(self, output: int, wrote: Execution | None) -> int:
        """The leaf that an execution assigned to, found through chained assignments."""
        while wrote is not None:
            node = self.node(wrote.node, wrote.seq)
            inside = self._kernels_assign.get((node.id, output))
            if inside is None:
                port = dict(node.writes).get(node.outputs.index(output))
                inside = None if port is None else node.inputs[port]
            if inside is None:
                break
            output = inside
            wrote = self.writer(output, wrote.seq)
        return output

    def lost(self, source: ValueSource, before: int) -> bool:
        """Whether an unrecorded execution may have replaced a source before a seq."""
        if self._dropped:
            return True
        at = bisect_right(self._left_out, source.seq)
        return at < len(self._left_out) and self._left_out[at] < before

    # ------------------------------------------------------------ calls

    def call(self, execution: Execution) -> RecordedCall:
        """An execution as a call of its op.

        Raises:
            ReplayError: The recording lacks something that the dialect needs; the message names it.
        """
        node = self.node(execution.node, execution.seq)
        attributes = self._calls.get(execution.seq)
        key = (id(node), execution.seq if attributes is not None else 0)
        call = self._known.get(key)
        if call is None:
            call = self._known[key] = self._call(
                node, node.attrs if attributes is None else attributes
            )
        return call

    def _call(self, node: Node, attrs: dict[str, Any]) -> RecordedCall:
        captured = None
        if node.dialect == ENGINE and node.graph and node.family in ("kernel", "control"):
            captured = self._captured.get(node.id)
        if captured is not None:  # scalars, such as a learning rate, belong to the execution
            attrs = {**captured, **scalars_in(node, attrs)}
        return recorded_call(node, attrs, self._frameworks.get(node.dialect))

    @cached_property
    def _frameworks(self) -> dict[str, Framework]:
        return {framework.dialect: framework for framework in self.recording.run().frameworks}

    @cached_property
    def within_kernels(self) -> Assigns:
        """By parameter: the kernels that assign to it, such as an optimizer's, and the output."""
        assigns: Assigns = {}
        for (number, output), target in self._kernels_assign.items():
            assigns.setdefault(target, set()).add((number, output))
        return assigns

    @cached_property
    def _kernels_assign(self) -> dict[tuple[int, int], int]:
        """The assigned value by kernel id and output value id."""
        targets: dict[tuple[int, int], int] = {}
        for node in self.nodes():
            if node.family != "kernel" or node.id not in self._captured:
                continue
            try:
                call = self._call(node, node.attrs)
            except ReplayError:
                continue  # reported when the kernel is rerun
            body = call.attrs.get("body")
            if not isinstance(body, Graph):
                continue  # another library's kernel
            origins = dict(zip(body.inputs, call.args, strict=False))
            last: dict[int, int] = {}  # by target, the output of its last assignment
            for inner in body.nodes:
                for output, written in inner.writes:
                    value, target = inner.outputs[output], origins.get(inner.inputs[written])
                    if isinstance(target, int):
                        origins[value] = target
                        if value in body.outputs:
                            last[target] = node.outputs[body.outputs.index(value)]
            targets.update({(node.id, output): target for target, output in last.items()})
        return targets

    @cached_property
    def _captured(self) -> dict[int, dict[str, Any]]:
        """By node id: the attributes, including graphs, of compiled functions' kernels."""
        graphs = {function.final.id: function.final for function in functions(self.recording)}
        originals: dict[int, dict[str, Any]] = {}
        for node in self.nodes():
            graph = graphs.get(node.graph)
            if graph is not None and node.family in ("kernel", "control"):
                original = _original(node, graph)
                if original is not None:
                    originals[node.id] = original.attrs
        return originals


def add_assigns(assigns: Assigns, node: Node) -> None:
    """Add a node's writes."""
    for output, written in node.writes:
        assigns.setdefault(node.inputs[written], set()).add((node.id, node.outputs[output]))


def assigning(value: int, *assigns: Assigns) -> list[tuple[int, int]]:
    """The nodes and outputs that assign to a leaf, directly or through chained assignments."""
    writers: dict[tuple[int, int], None] = {}
    targets, reached = [value], {value}
    while targets:
        target = targets.pop()
        for writer in (writer for table in assigns for writer in sorted(table.get(target, ()))):
            writers[writer] = None
            if writer[1] not in reached:
                reached.add(writer[1])
                targets.append(writer[1])
    return list(writers)


def _original(node: Node, graph: Graph) -> Node | None:
    """The node of a captured graph that corresponds to a node of the run; None if ambiguous."""
    able = [
        candidate
        for candidate in graph.nodes
        if candidate.op == node.op and candidate.origin == node.origin
    ]
    if len(able) > 1:
        label = node.name.rpartition("/")[2]
        named = [candidate for candidate in able if candidate.name.rpartition("/")[2] == label]
        able = named or able
    return able[0] if len(able) == 1 else None
