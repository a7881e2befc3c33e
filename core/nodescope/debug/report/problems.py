"""Problems: the nodes of a run that produced NaN or Inf, or raised; since when, and how often.

Rows are in the order in which the problems began. Inf that the program writes itself, as
``masked_fill(mask, -inf)`` and ``torch.tensor(-inf)`` do, is not a problem, nor are nodes that only
pass it on. The origin of NaN or Inf is determined by `nodescope.debug.why.first_nonfinite`.

Invariant: derived from the whole recording, read-only; nothing is read twice.
"""

from __future__ import annotations

import msgspec

from nodescope.debug.why.first_nonfinite import NonfiniteOrigin, nonfinite_origin
from nodescope.debug.why.written_inf import is_scalar, written_among
from nodescope.ir.graph import Node
from nodescope.record.recording import Recording
from nodescope.record.rows import FAILED, HAS_INF, HAS_NAN

MOST_EDITS = 3
"""The most edits of a node that are reported."""

_BAD = HAS_NAN | HAS_INF | FAILED


class NodeProblem(msgspec.Struct, frozen=True):
    """The problem of one node. Sent to the page unchanged.

    Attributes:
        node: The node's id.
        count: Number of its bad executions.
        first_seq, first_step, last_seq, last_step: The first and the last of them.
        nan, inf, failed: Whether one of them produced NaN or Inf, or raised.
        error: The last exception raised, or ``""``.
        healed: Whether later executions were finite.
        edits: Descriptions of the user's latest edits of its outputs.
        edited: Whether it began with an edit: the user set a value to NaN or Inf.
        first: Whether NaN or Inf began here in the run; without any, whether it raised first.
    """

    node: int
    count: int
    first_seq: int
    first_step: int
    last_seq: int
    last_step: int
    nan: bool
    inf: bool
    failed: bool
    error: str = ""
    healed: bool = False
    edits: tuple[str, ...] = ()
    edited: bool = False
    first: bool = False


class Problems:
    """The problems of a recording, which may still grow.

    Attributes:
        masks: The number of nodes that are left out because the program wrote all of their Inf.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.masks = 0
        self._until = self._edited = self._valued = self._defined = 0
        self._nodes: dict[int, NodeProblem] = {}
        self._edits: dict[int, tuple[str, ...]] = {}  # by node
        self._producers: dict[int, int] = {}  # by value
        self._scalars: set[int] = set()
        self._definitions: dict[int, Node] = {}
        self._origin: NonfiniteOrigin | None = None
        self._over = False

    def rows(self) -> list[NodeProblem]:
        """All problems so far, in the order in which they began."""
        self._refresh()
        recording, problems = self.recording, []
        for problem in sorted(self._nodes.values(), key=lambda candidate: candidate.first_seq):
            healed = recording.latest(problem.node) > problem.last_seq
            error = recording.failure(problem.last_seq) if problem.failed else None
            edits = self._edits.get(problem.node, ())[-MOST_EDITS:]
            current = {"healed": healed, "error": error or "", "edits": edits}
            problems.append(msgspec.structs.replace(problem, **current))
        return self._marked(self._without_masks(problems))

    def _without_masks(self, problems: list[NodeProblem]) -> list[NodeProblem]:
        """The rows without nodes all of whose Inf was written by the program."""
        only_inf = {
            problem.node
            for problem in problems
            if not (problem.nan or problem.failed or problem.edited)
        }
        masks = written_among(
            [problem.node for problem in problems],
            only_inf, self._definitions, self._producers, self._scalars,
        )  # fmt: skip
        self.masks = len(masks)
        return [problem for problem in problems if problem.node not in masks]

    def _marked(self, problems: list[NodeProblem]) -> list[NodeProblem]:
        """The rows with the origin marked, which is searched for until it is found."""
        if self._origin is None and any(problem.nan or problem.inf for problem in problems):
            self._origin = nonfinite_origin(self.recording)
        origin = self._origin
        first = next((row for row in problems if origin and row.node == origin.node), None)
        first = first or next(iter(problems), None)
        return [
            msgspec.structs.replace(row, first=True) if row is first else row for row in problems
        ]

    def _refresh(self) -> None:
        recording = self.recording
        until = recording.last_seq()
        if not self._over and recording.run().status is not None:
            # Statistics of held values arrive after their executions.
            self._over, self._until = True, 0
            self._nodes, self._edits, self._edited, self._origin = {}, {}, 0, None
        for row in recording.troubles(self._until, until, _BAD):
            node, count, start, start_step, end, end_step, flags = row
            nan, inf, failed = (flags & bit != 0 for bit in (HAS_NAN, HAS_INF, FAILED))
            place = (start, start_step, end, end_step)
            self._take(NodeProblem(node, count, *place, nan, inf, failed))
        self._until = until
        for value in recording.values(self._valued):
            self._valued = max(self._valued, value.seq)
            if value.producer is not None:
                self._producers[value.value.id] = value.producer
                if is_scalar(value):
                    self._scalars.add(value.producer)
        for definition in recording.nodes(self._defined):
            self._defined = max(self._defined, definition.seq)
            self._definitions[definition.node.id] = definition.node
        for edit in recording.edits(self._edited):
            self._edited = edit.seq
            producer = self._producers.get(edit.value)
            if producer is None:
                continue
            self._edits[producer] = (*self._edits.get(producer, ()), edit.how)
            written = recording.latest_at(edit.value, edit.seq)
            if written is None or written.seq != edit.seq:
                continue
            nan, inf = written.summary.nan_count > 0, written.summary.inf_count > 0
            if nan or inf:
                place = (edit.seq, edit.step, edit.seq, edit.step)
                self._take(NodeProblem(producer, 0, *place, nan, inf, False, edited=True))

    def _take(self, new: NodeProblem) -> None:
        old = self._nodes.get(new.node, new)
        first = min(old, new, key=lambda problem: problem.first_seq)
        last = max(old, new, key=lambda problem: problem.last_seq)
        self._nodes[new.node] = NodeProblem(
            new.node,
            new.count if old is new else old.count + new.count,
            first.first_seq, first.first_step, last.last_seq, last.last_step,
            old.nan or new.nan, old.inf or new.inf, old.failed or new.failed,
            edited=first.edited,
        )  # fmt: skip
