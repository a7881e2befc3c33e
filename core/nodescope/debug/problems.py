"""Problems: which nodes of a run gave NaN or Inf, or raised; since when, and how often.

The first of all rows is where the trouble began: what a node takes was given before it ran, so
nothing that it took can have been bad before the earliest bad execution, unless a person put it in.

Invariant: told by the whole recording, and reads only; what was read once is not read again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nodescope.record.recording import Recording
from nodescope.record.rows import FAILED, HAS_INF, HAS_NAN

_BAD = HAS_NAN | HAS_INF | FAILED


@dataclass(frozen=True)
class Problem:
    """What is wrong with one node.

    Attributes:
        node: Its id.
        count: How many of its executions were bad.
        first_seq, first_step, last_seq, last_step: The first of them, and the last one.
        flags: `HAS_NAN`, `HAS_INF` and `FAILED`, of all of them together.
        error: What it raised at last, or ``""``.
        healed: Later executions were finite.
        edits: What a person set its outputs to, in words.
        edited: The first was no execution: a person set it to NaN or Inf.
    """

    node: int
    count: int
    first_seq: int
    first_step: int
    last_seq: int
    last_step: int
    flags: int
    error: str = ""
    healed: bool = False
    edits: tuple[str, ...] = ()
    edited: bool = False


class Problems:
    """The problems of a recording, which may still grow."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._until = self._edited = self._valued = 0
        self._nodes: dict[int, Problem] = {}
        self._edits: dict[int, tuple[str, ...]] = {}  # by node
        self._producers: dict[int, int] = {}  # by value

    def rows(self) -> list[Problem]:
        """Everything so far, in the order in which it began."""
        self._refresh()
        recording, found = self.recording, []
        for each in sorted(self._nodes.values(), key=lambda problem: problem.first_seq):
            healed = recording.latest(each.node) > each.last_seq
            error = recording.failure(each.last_seq) if each.flags & FAILED else None
            edits = self._edits.get(each.node, ())
            found.append(replace(each, healed=healed, error=error or "", edits=edits))
        return found

    def _refresh(self) -> None:
        recording = self.recording
        until = recording.last_seq()
        for row in recording.troubles(self._until, until, _BAD):
            node, count, start, start_step, end, end_step, flags = row
            self._take(Problem(node, count, start, start_step, end, end_step, flags))
        self._until = until
        for value in recording.values(self._valued):
            self._valued = max(self._valued, value.seq)
            if value.producer is not None:
                self._producers[value.value.id] = value.producer
        for edit in recording.edits(self._edited):
            self._edited = edit.seq
            producer = self._producers.get(edit.value)
            if producer is None:
                continue
            self._edits[producer] = (*self._edits.get(producer, ()), edit.how)
            known = recording.latest_at(edit.value, edit.seq)
            if known is None or known.seq != edit.seq:
                continue
            flags = HAS_NAN if known.summary.nan_count else 0
            flags |= HAS_INF if known.summary.inf_count else 0
            if flags:
                place = (edit.seq, edit.step, edit.seq, edit.step)
                self._take(Problem(producer, 0, *place, flags, edited=True))

    def _take(self, new: Problem) -> None:
        old = self._nodes.get(new.node, new)
        first = min(old, new, key=lambda each: each.first_seq)
        last = max(old, new, key=lambda each: each.last_seq)
        self._nodes[new.node] = Problem(
            new.node,
            new.count if old is new else old.count + new.count,
            first.first_seq, first.first_step, last.last_seq, last.last_step,
            old.flags | new.flags,
            edited=first.edited,
        )  # fmt: skip
