"""Two recordings of one program, or of two that differ by an edit: where they first differ.

What ran is aligned step by step, by scope, op, phase and count. In the first step that is not the
same, the first execution with another op, other attributes or another value is the answer, and
whether its inputs agree.

Invariant: read from the recordings alone; elements are compared where both kept them, and
statistics elsewhere.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from nodescope.compare.measure import Measure, measure_arrays, measure_summaries
from nodescope.ir.attrs import encode
from nodescope.ir.graph import Graph, Node
from nodescope.record.recording import Recording
from nodescope.record.rows import Execution

BUDGET_BYTES = 256 << 20
FAILED = 4
_LONGEST = 20_000  # executions of a step that are aligned where they are not the same

_DRAWN = re.compile(r"^(compiled_)?dag(_\d+)?(/|$)")
_OF_ONE_RUN = frozenset({"waiting_s", "scheduling_s", "transfer_s", "execution_s", "object"})
"""Attributes of tasks that are another in each run: times, and the ids of objects."""

Key = tuple[str, str, str]


class Ran(NamedTuple):
    """An execution, and its node as it was then."""

    seq: int
    step: int
    node: Node
    failed: bool


class Other(NamedTuple):
    """Where two runs first differ.

    Attributes:
        step: The training step; 0 before the first.
        first, second: What ran there; None where a run has nothing in its place.
        attrs: Names of attributes that differ, with both values.
        leaf: The input that differs without having been computed; None if the node itself does.
        measure: How far the value is apart; None if none was compared.
        inputs_known: Whether every input was compared.
    """

    step: int
    first: Ran | None
    second: Ran | None
    attrs: tuple[tuple[str, Any, Any], ...] = ()
    leaf: Node | None = None
    measure: Measure | None = None
    inputs_known: bool = True


class Agreement(NamedTuple):
    """What was compared: how many steps and executions, and where the runs differ, if they do."""

    steps: int
    executions: int
    other: Other | None


class _Side:
    """One recording: what ran, by step."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.nodes: dict[int, list[tuple[int, Node]]] = defaultdict(list)
        for row in recording.nodes():
            self.nodes[row.node.id].append((row.seq, row.node))
        self.producers = {
            value: rows[-1][1] for rows in self.nodes.values() for value in rows[-1][1].outputs
        }
        self.calls = recording.calls()
        self.steps: dict[int, list[Execution]] = defaultdict(list)
        for execution in recording.executions():
            self.steps[execution.step].append(execution)

    def failed_in(self) -> int | None:
        """The step in which the run ended by an error; None if it did not."""
        return max(self.steps, default=None) if self.recording.run().error else None

    def ran(self, step: int) -> list[Ran]:
        """What ran in a step, in order."""
        return [
            Ran(execution.seq, step, self.node(execution.node, execution.seq),
                bool(execution.flags & FAILED))
            for execution in self.steps.get(step, ())
            if execution.node in self.nodes
        ]  # fmt: skip

    def node(self, number: int, seq: int) -> Node:
        """A node as it was at a moment."""
        rows = self.nodes[number]
        return next((node for at, node in reversed(rows) if at <= seq), rows[0][1])

    def attrs(self, ran: Ran) -> Mapping[str, Any]:
        """The attributes of an execution."""
        attrs: Mapping[str, Any] = self.calls.get(ran.seq, ran.node.attrs)
        return attrs


class _Values:
    """Values of both sides, within a budget of bytes."""

    def __init__(self, first: _Side, second: _Side) -> None:
        self._first, self._second = first.recording, second.recording
        self._left = BUDGET_BYTES

    def measure(self, value: int, seq: int, other: int, other_seq: int) -> Measure | None:
        """How far two values are apart at or before two moments; None if one is not known."""
        first, second = (
            self._first.latest_at(value, seq), self._second.latest_at(other, other_seq)
        )  # fmt: skip
        if first is None or second is None:
            return None
        statistics = measure_summaries(first.summary, second.summary)
        size = first.summary.nbytes + second.summary.nbytes
        if not (first.summary.blob and second.summary.blob) or size > self._left:
            return statistics
        self._left -= size
        a = self._first.array(first.value, first.seq)
        b = self._second.array(second.value, second.seq)
        return statistics if a is None or b is None else measure_arrays(a, b)


def agreement(first: Recording, second: Recording) -> Agreement:
    """Compare what two runs executed, until they differ.

    Raises:
        RecordingError: A recording is damaged.
    """
    sides = _Side(first), _Side(second)
    values = _Values(*sides)
    compared = steps = 0
    ends = [side.failed_in() for side in sides]
    for step in sorted({*sides[0].steps} & {*sides[1].steps}):
        for pair in _aligned(sides[0].ran(step), sides[1].ran(step)):
            if any(ran is None and end == step for ran, end in zip(pair, ends, strict=True)):
                return Agreement(steps, compared, None)  # the error says it
            other = _other(sides, values, step, *pair)
            if other is not None:
                return Agreement(steps, compared, other)
            compared += 1
        steps += step > 0
    return Agreement(steps, compared, None)


def _aligned(
    first: Sequence[Ran], second: Sequence[Ran]
) -> Iterator[tuple[Ran | None, Ran | None]]:
    """Pairs of what is the same in both runs; None beside what only one of them has."""
    keys = [_key(ran) for ran in first], [_key(ran) for ran in second]
    if keys[0] == keys[1]:
        yield from zip(first, second, strict=True)
    elif Counter(keys[0]) == Counter(keys[1]):  # in another order, as threads have it
        waiting: dict[Key, list[Ran]] = defaultdict(list)
        for ran in second:
            waiting[_key(ran)].append(ran)
        for ran in first:
            yield ran, waiting[_key(ran)].pop(0)
    elif max(len(first), len(second)) > _LONGEST:
        for ran, other in zip(first, second, strict=False):
            yield (ran, other)
    else:
        matcher = SequenceMatcher(None, keys[0], keys[1], autojunk=False)
        for tag, a, until_a, b, until_b in matcher.get_opcodes():
            if tag == "equal":
                yield from zip(first[a:until_a], second[b:until_b], strict=True)
            else:
                yield (first[a] if a < until_a else None), (second[b] if b < until_b else None)


def _key(ran: Ran) -> Key:
    return undrawn(ran.node), ran.node.op, ran.node.phase


def undrawn(node: Node) -> str:
    """A node's scope; of a bind graph's, the one in which the same tasks are if they are called."""
    scope = node.scope
    return _DRAWN.sub("", scope) if node.dialect == "ray" else scope


def _other(
    sides: tuple[_Side, _Side], values: _Values, step: int, first: Ran | None, second: Ran | None
) -> Other | None:
    """How two executions differ; None if they do not."""
    if first is None or second is None or _key(first) != _key(second):
        return Other(step, first, second)
    attrs = _other_attrs(sides[0].attrs(first), sides[1].attrs(second))
    if attrs:
        return Other(step, first, second, attrs)
    if first.failed != second.failed:
        return Other(step, first, second)
    for value, other in zip(first.node.outputs, second.node.outputs, strict=False):
        measure = values.measure(value, first.seq, other, second.seq)
        if measure is not None and not measure.equal and _comparable(measure):
            leaf, known, of_leaf = _other_leaf(sides, values, first, second)
            return Other(step, first, second, (), leaf, of_leaf or measure, known)
    return None


def _comparable(measure: Measure) -> bool:
    """Whether something was measured; shapes that differ are a difference, too."""
    return measure.source != "none" or "differ" in measure.why or "the other" in measure.why


def _other_leaf(
    sides: tuple[_Side, _Side], values: _Values, first: Ran, second: Ran
) -> tuple[Node | None, bool, Measure | None]:
    """The input that holds other data, and whether every input is known."""
    known = True
    for value, other in zip(first.node.inputs, second.node.inputs, strict=False):
        measure = values.measure(value, first.seq, other, second.seq)
        if measure is None or measure.source == "none":
            known = False
        elif not measure.equal:
            return sides[1].producers.get(other), True, measure
    return None, known, None


def _other_attrs(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> tuple[tuple[str, Any, Any], ...]:
    names = dict.fromkeys((*first, *second))
    return tuple(
        (name, first.get(name), second.get(name))
        for name in names
        if name not in _OF_ONE_RUN
        and not isinstance(first.get(name), Graph) and not isinstance(second.get(name), Graph)
        and _bytes(first.get(name)) != _bytes(second.get(name))
    )  # fmt: skip


def _bytes(value: Any) -> bytes:
    """An attribute, exactly; addresses of objects are another in each run."""
    return re.sub(rb"0x[0-9a-f]{6,}", b"", encode(value))
