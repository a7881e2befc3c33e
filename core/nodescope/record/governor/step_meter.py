"""Step meter: where training steps begin and end, how long each took, and which are left out.

Invariant: a step is observed as a whole or not at all, and a step is left out only while nothing
needs to see every node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, Protocol

from nodescope.events import Bus
from nodescope.record.governor.cost_model import StepCost
from nodescope.record.governor.reports import forbidden, leaving_out, stuck
from nodescope.record.governor.step_sampling import Detail, StepSampling

# The longest wait for the writer.
_MOST_HUSHED_NS: Final = 300_000_000
# So many stretches that were only counted, each above the limit, show that it cannot be met; the
# writer may be busy with earlier ones.
_IN_VAIN: Final = 10
# The share of unobserved steps from which on a message is worthwhile.
_WORTH_SAYING: Final = 0.9

_State = Literal["outside", "observed", "left out", "call", "call left out"]


class Writer(Protocol):
    """The recorder's thread that writes."""

    @property
    def behind(self) -> bool:
        """Whether a step might find no room in its queue."""

    def hush(self, still: bool) -> bool:
        """Stand still before the next batch, or go on; whether it stands now."""


class StepMeter:
    """Decides at the start of each step whether it is left out; see `Bus.leaves_out`.

    Args:
        bus: Of the run.
        sampling: Which steps are observed.
        totals: What the run took so far.
        writer: Which may disturb a step.
        tell: Takes a line for the person.

    Attributes:
        because: Why a step could not be left out that should have been, or ``""``.
        step: The last one that began; 0 before the first.
        detail: How much is recorded where there are no steps.
        stuck: Whether it was above the limit with as little recorded as allowed.
    """

    def __init__(
        self, bus: Bus, sampling: StepSampling, *, totals: Callable[[], StepCost], writer: Writer,
        tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.sampling = sampling
        self.because = ""
        self.step = 0
        self.detail: Detail = "whole"
        self.stuck = False
        self._bus, self._totals, self._writer, self._tell = bus, totals, writer, tell
        self._state: _State = "outside"
        self._began = totals()
        self._hushed_ns = 0.0  # since when the writer is to stand still
        self._in_vain = 0
        self._broken = self._said = self._over = self._wanted = False

    @property
    def in_the_dark(self) -> bool:
        """Whether the program is in a step that is left out, or broke off in one and began none."""
        return self._state in ("left out", "call left out") or self._broken

    @property
    def steps(self) -> int:
        """Steps so far, with the current one."""
        return self.sampling.steps + (self._state in ("observed", "left out"))

    @property
    def left_out(self) -> int:
        """Of these, which are left out."""
        return self.sampling.left_out + (self._state == "left out")

    def begin(self) -> None:
        """The program begins: what passed before, such as the start of a server, is none of it."""
        self._began = self._totals()

    def observe_next(self) -> None:
        """Observe the next step, whatever it costs."""
        self._wanted = True

    def leaves_out(self, step: int) -> bool:
        """Whether a step that begins is left out; 0 and -1 as of `Bus.leaves_out`."""
        if self._over:
            return False
        now = self._close()
        self._broken = step < 0 and self._state == "left out"
        leave, still = self._decide(now.wall_ns) if step > 0 else (False, False)
        if self._hushed_ns and not still:
            self._hushed_ns = 0.0
            self._writer.hush(False)
        self.step = max(step, self.step)
        self._open("left out" if leave else "observed" if step > 0 else "outside", now)
        return leave

    def leaves_out_call(self, begins: int) -> bool:
        """Whether an outermost call outside of steps is left out; as of `Bus.leaves_out_call`."""
        inside = self._state in ("call", "call left out")
        if self._over or not (self._state == "outside" if begins > 0 else inside):
            return False
        now = self._close()
        if begins < 1:
            self._broken = begins < 0 and self._state == "call left out"
            self._open("outside", now)
            return False
        leave = not self.sampling.wants_call() and not self._bus.demand.seen_whole
        self._open("call left out" if leave else "call", now)
        return leave

    def stretch_ends(self, *, everything: bool) -> None:
        """Before the first step: decide how much is recorded of what follows, for a while."""
        now, sampling, detail = self._totals(), self.sampling, self.detail
        took = now.since(self._began)
        self.detail = sampling.stretch(took, detail, behind=self._writer.behind)
        if everything:
            self.detail = "whole"
        elif not self._said and self.detail != "whole":
            self._said = True
            self._tell(leaving_out("the program", sampling.of_stretch(detail), sampling.limit))
        if detail == "counted" and not self.stuck:
            slowdown = sampling.of_stretch(detail)
            self._in_vain = self._in_vain + 1 if slowdown > sampling.limit else 0
            if self._in_vain == _IN_VAIN:
                self.stuck = True
                others = 1 - took.by_hand_ns / max(took.wall_ns, 1.0)
                self._tell(stuck(slowdown, slowdown * others, sampling.limit))
        self._open("outside", now)

    def end(self) -> None:
        """The run is over."""
        if not self._over:
            self._over = True
            self._writer.hush(False)
            self._close()
            self._broken = self.in_the_dark
            self._state = "outside"

    def _decide(self, now_ns: float) -> tuple[bool, bool]:
        """Whether the step that begins is left out, and whether the writer is to stand still."""
        sampling = self.sampling
        wanted, self._wanted = self._wanted, False
        if sampling.wants(behind=self._writer.behind) or wanted:
            return False, False
        reason = self._bus.demand.seen_whole
        self._say(reason)
        if reason:
            return False, False
        if not sampling.measuring:
            return True, False
        self._hushed_ns = self._hushed_ns or now_ns
        stands = self._writer.hush(True) or now_ns - self._hushed_ns > _MOST_HUSHED_NS
        return stands or not sampling.only_measured, True

    def _open(self, state: _State, before: StepCost) -> None:
        """Begin a stretch. The cost of deciding is charged to observing."""
        self._state, self._began = state, self._totals()
        self.sampling.own(self._began.wall_ns - before.wall_ns)

    def _close(self) -> StepCost:
        """End the current stretch; the totals."""
        now = self._totals()
        took = now.since(self._began)
        if self._state == "observed":
            self.sampling.observed(took)
        elif self._state == "left out":
            self.sampling.skipped(took)
        elif self._state == "outside":
            self.sampling.outside(took)
        else:
            self.sampling.called(took, left_out=self._state == "call left out")
        return now

    def _say(self, reason: str) -> None:
        """Say once that steps are left out, or why they cannot be."""
        sampling = self.sampling
        if reason:
            if not self.because and sampling.of_observed > sampling.limit:
                self.because = reason
                self._tell(forbidden(sampling.of_observed, sampling.limit, reason))
        elif sampling.measured and not self._said and sampling.share < _WORTH_SAYING:
            self._said = True
            told = (sampling.of_observed, sampling.limit, sampling.share)
            self._tell(leaving_out("a training step", *told))
