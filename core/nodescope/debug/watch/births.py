"""Births: where NaN and Inf arose in a run, and what each of them reached.

A NaN that a mask removes, or a gradient that overflows and is not applied, is harmless. A birth
counts if its NaN or Inf reached a weight, a loss or a result of the program.

Invariant: reads flags of executions only, no elements; the same recording gives the same result.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from nodescope.debug.why.written_inf import writes_inf
from nodescope.ir.graph import Node
from nodescope.ops.traits import traits_of
from nodescope.record.recording import Recording
from nodescope.record.rows import FAILED, HAS_INF, HAS_NAN, Execution, GradientRow, NodeRow

Reached = Literal["weight", "loss", "result", ""]

_PAGE: Final = 5000
_MOST_BORN: Final = 10_000
_NONFINITE: Final = HAS_NAN | HAS_INF


class Birth(NamedTuple):
    """A node that computed NaN or Inf from operands without any.

    Attributes:
        node, seq, step: The node, and the seq and step of the execution.
        reached: What its NaN or Inf reached: a weight, a loss that did not recover, or a result
            that nothing reads; ``""`` if it was removed again, or not applied.
        reached_seq: The seq at which it was reached, or 0.
    """

    node: Node
    seq: int
    step: int
    reached: Reached
    reached_seq: int


class _Held(NamedTuple):
    """The state of a value: NaN, or Inf alone; and the births that it comes from, by seq."""

    nan: bool
    origins: frozenset[int]


def births(recording: Recording) -> list[Birth]:
    """The first 10,000 births of a run, in order.

    Raises:
        RecordingError: The recording is damaged.
    """
    flagged = [recording.first_flagged(flag) for flag in (HAS_NAN, HAS_INF)]
    first = min((row[0].seq for row in flagged if row is not None), default=0)
    return _Run(recording, first).births() if first else []


class _Run:
    """A pass over a recording from its first NaN or Inf on."""

    def __init__(self, recording: Recording, first: int) -> None:
        self._recording = recording
        self._first = first
        self._nodes: dict[int, Node] = {}
        self._weights: set[int] = set()
        self._losses: set[int] = set()  # where backward passes began
        self._gradients: set[int] = set()
        self._held: dict[int, _Held] = {}
        self._variables: dict[int, int] = {}  # by the result of an update: the variable's value
        self._read: set[int] = set()  # values with NaN or Inf that an operation has read
        self._born: dict[int, tuple[Node, int]] = {}
        self._reached: dict[int, tuple[Reached, int]] = {}
        self._broken_losses: dict[int, dict[int, int]] = {}  # by loss: seq by birth

    def births(self) -> list[Birth]:
        for row in self._records():
            if isinstance(row, NodeRow):
                self._define(row.node)
            elif isinstance(row, GradientRow):
                self._paired(row)
            else:
                self._ran(row)
        for value in [*self._held]:
            self._gone(value)
        for reached in self._broken_losses.values():
            for seq, when in reached.items():
                self._reach(seq, "loss", when)
        return [
            Birth(node, seq, step, *self._reached.get(seq, ("", 0)))
            for seq, (node, step) in self._born.items()
        ]

    def _records(self) -> Iterator[NodeRow | GradientRow | Execution]:
        tagged = heapq.merge(
            ((row.seq, 0, row) for row in self._recording.nodes()),
            ((row.seq, 1, row) for row in self._recording.gradients()),
            ((row.seq, 2, row) for row in self._executions()),
            key=lambda record: record[:2],
        )
        return (row for _, _, row in tagged)  # type: ignore[misc]

    def _executions(self) -> Iterator[Execution]:
        after = self._first - 1
        while page := self._recording.executions(after, limit=_PAGE):
            yield from page
            after = page[-1].seq

    def _define(self, node: Node) -> None:
        self._nodes[node.id] = node
        if node.is_weight:
            self._weights.update(node.outputs)
        for output, port in node.writes:
            # The second update of a step writes to the result of the first one.
            written = node.inputs[port]
            self._variables[node.outputs[output]] = self._variables.get(written, written)
        if node.family == "loss" and node.phase == "forward":
            self._losses.update(node.outputs[:1])

    def _paired(self, row: GradientRow) -> None:
        self._gradients.add(row.gradient)
        maker = next((node for node in self._nodes.values() if row.gradient in node.outputs), None)
        if maker is not None and maker.phase == "backward":
            begins = maker.is_leaf or "begins" in traits_of(maker.op).effects
            if begins and row.value not in self._gradients:
                self._losses.add(row.value)

    def _ran(self, row: Execution) -> None:
        node = self._nodes.get(row.node)
        if node is None or row.flags & FAILED:
            return
        bad = [value for value in node.inputs if value in self._held and not node.is_leaf]
        self._read.update(bad)
        held = self._holds(node, row, bad) if row.flags & _NONFINITE else None
        for value in node.outputs:
            if value in self._held:
                self._gone(value)
            if held is not None:
                self._held[value] = held
                self._read.discard(value)
        for _, port in node.writes:
            written = node.inputs[port]
            self._wrote(self._variables.get(written, written), held, row.seq)
        for value in self._losses.intersection(node.outputs):
            known = self._broken_losses.setdefault(value, {})
            if held is None:
                known.clear()  # the loss has recovered, so no weight was broken
            for seq in held.origins if held is not None else ():
                known.setdefault(seq, row.seq)

    def _holds(self, node: Node, row: Execution, bad: list[int]) -> _Held:
        """The state of a node's outputs."""
        nan = bool(row.flags & HAS_NAN)
        if node.is_leaf:
            known = self._held.get(node.outputs[0]) if node.outputs else None
            if known is not None:
                return _Held(nan, known.origins)
            # Inf in data is taken for a mask; NaN is a birth.
            return _Held(nan, self._bear(node, row) if nan else frozenset())
        inputs = [self._held[value] for value in bad]
        if nan:
            inputs = [held for held in inputs if held.nan] or inputs
        origins = frozenset[int]().union(*(held.origins for held in inputs))
        if origins or (not nan and (inputs or writes_inf(node))):
            return _Held(nan, origins)
        return _Held(nan, self._bear(node, row))

    def _bear(self, node: Node, row: Execution) -> frozenset[int]:
        if len(self._born) >= _MOST_BORN:
            return frozenset()
        self._born[row.seq] = node, row.step
        return frozenset((row.seq,))

    def _wrote(self, value: int, held: _Held | None, seq: int) -> None:
        """Note the state that a node has written to a value."""
        if held is None:
            self._held.pop(value, None)
            return
        self._held[value] = held
        if value in self._weights:
            for origin in held.origins:
                self._reach(origin, "weight", seq)

    def _gone(self, value: int) -> None:
        """Forget a value that is overwritten or left at the end: if never read, it is a result."""
        held = self._held.pop(value)
        if value not in self._read and value not in self._gradients and value not in self._losses:
            for origin in held.origins:
                self._reach(origin, "result", origin)
        self._read.discard(value)

    def _reach(self, birth: int, what: Reached, seq: int) -> None:
        known = self._reached.get(birth)
        if known is None or (known[0] == "result" and what != "result"):
            self._reached[birth] = what, seq
