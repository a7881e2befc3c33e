"""First non-finite values: where NaN, Inf and a non-finite loss first appear in a run.

The statistics that reveal them are computed in the recorder's thread, while the program runs on. So
the newest values are held until they have been checked, and those around a first NaN are kept.

Invariant: fed in the order of the run, by the recorder's thread only; its memory is bounded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Literal, NamedTuple

from nodescope.record.rows import HAS_INF, HAS_NAN

NonfiniteKind = Literal["nan", "inf", "loss"]

_KINDS: tuple[tuple[NonfiniteKind, int], ...] = (("nan", HAS_NAN), ("inf", HAS_INF))


class Span(NamedTuple):
    """A part of a run that is kept whole.

    Attributes:
        first, end: The seqs with ``first <= seq < end``.
        step: The training step for which it is kept; 0 if outside of steps.
    """

    first: int
    end: int
    step: int


class _Step(NamedTuple):
    """An observed training step; ``end_seq`` is 0 while it runs."""

    start_seq: int
    step: int
    end_seq: int = 0


class FirstNonfinite:
    """Finds what to keep: the step of the first NaN, the first Inf and the first non-finite loss,
    each with the observed step before it, whose optimizer wrote the parameters.

    Attributes:
        checked: The seq up to which values have been checked.
        needed_from: Values older than this seq are not needed by any step still to be checked.
    """

    def __init__(self) -> None:
        self.checked = self.needed_from = 0
        self._steps: list[_Step] = []
        self._seen: set[NonfiniteKind] = set()
        self._places: list[int] = []  # seqs of first findings whose step is still running

    def step_began(self, seq: int, step: int) -> None:
        """Note that an observed step begins."""
        self._steps.append(_Step(seq, step))

    def step_ended(self, seq: int, *, broken: bool) -> None:
        """Note that the latest observed step has ended; ``broken``: a loss was not finite."""
        if self._steps:
            self._steps[-1] = _Step(*self._steps[-1][:2], seq)
        if broken:
            self.appeared("loss", seq)

    def appeared(self, kind: NonfiniteKind, seq: int) -> None:
        """Note a non-finite value in the execution or at the end of the step ``seq``."""
        if kind not in self._seen:
            self._seen.add(kind)
            if seq >= self.needed_from:  # otherwise its step is no longer held
                self._places.append(seq)

    def appeared_in(self, flags: Mapping[int, int]) -> None:
        """Note the first NaN and the first Inf, from the flags of executions by seq."""
        for kind, flag in _KINDS:
            if kind in self._seen:
                continue
            seqs = [seq for seq, bits in flags.items() if bits & flag]
            if seqs:
                self.appeared(kind, min(seqs))

    @property
    def finds(self) -> bool:
        """Whether something was found around which not everything is kept yet."""
        return bool(self._places)

    def committed(self, seq: int) -> list[Span]:
        """Note that everything up to ``seq`` is recorded and checked; return the parts to keep
        now.
        """
        self.checked = max(seq, self.checked)
        spans: dict[Span, None] = {}
        waiting: list[int] = []
        for place in self._places:
            span = self._around(place)
            if span.end and span.end <= self.checked + 1:
                spans[span] = None
            else:
                waiting.append(place)
        self._places = waiting
        needed = [self._around(place).first for place in (self.checked, *waiting)]
        self.needed_from = min(needed)
        at = bisect_right(self._steps, self.needed_from, key=_start) - 1
        del self._steps[: max(at, 0)]
        return list(spans)

    def _around(self, seq: int) -> Span:
        """The step of a seq with the step before it; its end is 0 while it runs."""
        steps = self._steps
        at = bisect_right(steps, seq, key=_start) - 1
        following = steps[at + 1].start_seq if at + 1 < len(steps) else 0
        if at < 0:
            return Span(0, following or self.checked + 1, 0)
        step = steps[at]
        if step.end_seq and seq > step.end_seq:  # after it
            return Span(step.start_seq, following or self.checked + 1, 0)
        before = steps[at - 1].start_seq if at else 0
        return Span(before, following or (step.end_seq and step.end_seq + 1), step.step)


def _start(step: _Step) -> int:
    return step.start_seq
