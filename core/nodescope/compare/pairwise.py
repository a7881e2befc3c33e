"""Pairwise comparison: where two recordings of a program, or of an edited program, first differ.

Executions are aligned step by step, by scope, op, phase and count. The result is the first
execution with another op, other attributes or another value, and whether its inputs agree.

Invariant: read from the recordings alone; elements are compared if both recordings kept them, else
statistics.
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
_LONGEST = 20_000  # limit of executions of a step up to which unequal sequences are aligned

_DRAWN = re.compile(r"^(compiled_)?dag(_\d+)?(/|$)")
_OF_ONE_RUN = frozenset({"waiting_s", "scheduling_s", "transfer_s", "execution_s", "object"})
"""Attributes of tasks that differ in every run: times, and the ids of objects."""

Key = tuple[str, str, str]


class Ran(NamedTuple):
    """An execution, with its node as defined at that moment."""

    seq: int
    step: int
    node: Node
    failed: bool


class Other(NamedTuple):
    """Where two runs first differ.

    Attributes:
        step: The training step; 0 before the first one.
        first, second: The execution in each run; None if that run has no counterpart.
        attrs: The names of attributes that differ, with both values.
        leaf: The producer of the first input that differs; None if no input does.
        measure: The difference of that input, or of the node's output; None if none was compared.
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
    """The number of equal steps and executions, and the first difference, if there is one."""

    steps: int
    executions: int
    other: Other | None


class _Side:
    """One recording, with its executions by step."""

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
        """The last step of a run that ended with an error; else None."""
        return max(self.steps, default=None) if self.recording.run().error else None

    def ran(self, step: int) -> list[Ran]:
        """The executions of a step, in order."""
        return [
            Ran(execution.seq, step, self.node(execution.node, execution.seq),
                bool(execution.flags & FAILED))
            for execution in self.steps.get(step, ())
            if execution.node in self.nodes
        ]  # fmt: skip

    def node(self, number: int, seq: int) -> Node:
        """A node as it was defined at a moment."""
        rows = self.nodes[number]
        return next((node for at, node in reversed(rows) if at <= seq), rows[0][1])

    def attrs(self, ran: Ran) -> Mapping[str, Any]:
        """The attributes of an execution."""
        attrs: Mapping[str, Any] = self.calls.get(ran.seq, ran.node.attrs)
        return attrs


class _Values:
    """Compares values of both sides, within a budget of bytes."""

    def __init__(self, first: _Side, second: _Side) -> None:
        self._first, self._second = first.recording, second.recording
        self._left = BUDGET_BYTES

    def measure(self, value: int, seq: int, other: int, other_seq: int) -> Measure | None:
        """The difference of two values, each at its moment; None if one is unknown."""
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
                return Agreement(steps, compared, None)  # the run's error explains it
            other = _other(sides, values, step, *pair)
            if other is not None:
                return Agreement(steps, compared, other)
            compared += 1
        steps += step > 0
    return Agreement(steps, compared, None)


def _aligned(
    first: Sequence[Ran], second: Sequence[Ran]
) -> Iterator[tuple[Ran | None, Ran | None]]:
    """Pairs of corresponding executions; None for one that has no counterpart."""
    keys = [_key(ran) for ran in first], [_key(ran) for ran in second]
    if keys[0] == keys[1]:
        yield from zip(first, second, strict=True)
    elif Counter(keys[0]) == Counter(keys[1]):  # threads ran in another order
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
    """A node's scope; for Ray, without a bind graph's prefix, as if its tasks were called."""
    scope = node.scope
    return _DRAWN.sub("", scope) if node.dialect == "ray" else scope


def _other(
    sides: tuple[_Side, _Side], values: _Values, step: int, first: Ran | None, second: Ran | None
) -> Other | None:
    """The difference between two executions; None if there is none."""
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
    """Whether values were measured, or their shapes, dtypes or specs differ."""
    return measure.source != "none" or "differ" in measure.why or "the other" in measure.why


def _other_leaf(
    sides: tuple[_Side, _Side], values: _Values, first: Ran, second: Ran
) -> tuple[Node | None, bool, Measure | None]:
    """The producer of the first differing input, whether all inputs are known, the difference."""
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
    """An attribute as bytes, without addresses of objects, which differ in every run."""
    return re.sub(rb"0x[0-9a-f]{6,}", b"", encode(value))
