"""Step meter: where training steps begin and end, how long each took, and which are left out.

Invariant: a step is observed as a whole or not at all, and a step is left out only while nothing
needs to see every node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

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
_OUTSIDE: Final = ("outside",)
_CALLS: Final = ("call", "call left out")


class Spent(NamedTuple):
    """The cost of observing since the run began.

    Attributes:
        recording_ns: On the program's threads, with what meeting nodes takes.
        tracing_ns: The assumed cost of making events.
        fresh: Nodes that were met for the first time.
        written_ns: Processor time of the writer.
        by_hand_ns: Of `recording_ns`, for nodes whose level a person chose.
    """

    recording_ns: float = 0.0
    tracing_ns: float = 0.0
    fresh: int = 0
    written_ns: int = 0
    by_hand_ns: int = 0


class StepMeter:
    """Decides at the start of each step whether it is left out; see `Bus.leaves_out`.

    Args:
        bus: Of the run; its clock does not count time held by a debugger.
        sampling: Which steps are observed.
        spent: What observing took so far.
        hush: Has the writer stand still before its next batch, or go on; whether it stands now.
        behind: Whether the writer is, so that a step might find no room in its queue.
        tell: Takes a line for the person.

    Attributes:
        because: Why a step could not be left out that should have been, or ``""``.
        step: The last one that began; 0 before the first.
        detail: How much is recorded where there are no steps.
        stuck: Whether it was above the limit with as little recorded as allowed.
    """

    def __init__(
        self, bus: Bus, sampling: StepSampling, *, spent: Callable[[], Spent],
        hush: Callable[[bool], bool], behind: Callable[[], bool], tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.sampling = sampling
        self.because = ""
        self.step = 0
        self.detail: Detail = "whole"
        self.stuck = False
        self._bus, self._spent, self._tell = bus, spent, tell
        self._hush, self._behind = hush, behind
        # Whether the writer is to stand still; since when.
        self._hushing, self._hushed_ns = False, 0
        self._in_vain = 0
        self._state: _State = "outside"
        self._since_ns = bus.ran_ns()
        self._before = Spent()
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
        self._since_ns, self._before = self._bus.ran_ns(), self._spent()

    def observe_next(self) -> None:
        """Observe the next step, whatever it costs."""
        self._wanted = True

    def leaves_out(self, step: int) -> bool:
        """Whether a step that begins is left out; 0 and -1 as of `Bus.leaves_out`."""
        if self._over:
            return False
        now, self._hushing = self._close(), False
        self._broken = step < 0 and self._state == "left out"
        leave = step > 0 and self._left_out(now)
        if not self._hushing:
            self._unhush()
        self.step = max(step, self.step)
        self._open("left out" if leave else "observed" if step > 0 else "outside", now)
        return leave

    def leaves_out_call(self, begins: int) -> bool:
        """Whether an outermost call outside of steps is left out; as of `Bus.leaves_out_call`."""
        if self._over or self._state not in (_OUTSIDE if begins > 0 else _CALLS):
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
        sampling, spent, before = self.sampling, self._spent(), self._before
        now, detail = self._bus.ran_ns(), self.detail
        follows = sampling.stretch(self._took(now), detail, behind=self._behind())
        self.detail = "whole" if everything else follows
        if not self._said and follows != "whole":
            self._said = True
            self._tell(leaving_out("the program", sampling.of_stretch(detail), sampling.limit))
        slowdown = sampling.of_stretch("counted")
        if detail == "counted":
            self._in_vain = self._in_vain + 1 if slowdown > sampling.limit else 0
        if not self.stuck and self._in_vain >= _IN_VAIN:
            self.stuck = True
            by_hand = (spent.by_hand_ns - before.by_hand_ns) / max(now - self._since_ns, 1)
            self._tell(stuck(slowdown, slowdown * (1 - by_hand), sampling.limit))
        self._open("outside", now)

    def end(self) -> None:
        """The run is over."""
        if not self._over:
            self._over = True
            self._hush(False)
            self._close()
            self._broken = self.in_the_dark
            self._state = "outside"

    def _left_out(self, now: int) -> bool:
        """Whether the step that begins now is left out."""
        sampling = self.sampling
        wanted, self._wanted = self._wanted, False
        if sampling.wants(behind=self._behind()) or wanted:
            return False
        reason = self._bus.demand.seen_whole
        if reason or sampling.measured:
            self._say(reason)
        if reason:
            return False
        self._hushing = sampling.measuring
        return not sampling.measuring or self._undisturbed(now) or not sampling.only_measured

    def _open(self, state: _State, before: int) -> None:
        """Begin a stretch. The cost of deciding is charged to observing."""
        self._state, self._since_ns = state, self._bus.ran_ns()
        self.sampling.own(self._since_ns - before)

    def _close(self) -> int:
        """End the current stretch; the time."""
        now = self._bus.ran_ns()
        took = self._took(now)
        if self._state == "observed":
            self.sampling.observed(took)
        elif self._state == "left out":
            self.sampling.skipped(took)
        elif self._state == "outside":
            self.sampling.outside(took)
        else:
            self.sampling.called(took, left_out=self._state == "call left out")
        return now

    def _took(self, now: int) -> StepCost:
        """The cost of what ends now."""
        spent, before = self._spent(), self._before
        lasted, self._before = max(now - self._since_ns, 0), spent
        return StepCost(
            wall_ns=lasted,
            spent_ns=min(spent.recording_ns - before.recording_ns, lasted),
            tracing_ns=spent.tracing_ns - before.tracing_ns,
            written_ns=min(spent.written_ns - before.written_ns, lasted),
            fresh=spent.fresh - before.fresh,
        )

    def _undisturbed(self, now: int) -> bool:
        """Pause the writer; whether it is paused, or the wait for it was long enough."""
        self._hushed_ns = self._hushed_ns or now
        return self._hush(True) or now - self._hushed_ns > _MOST_HUSHED_NS

    def _unhush(self) -> None:
        """Let the writer continue if it was paused."""
        if self._hushed_ns:
            self._hushed_ns = 0
            self._hush(False)

    def _say(self, reason: str) -> None:
        sampling = self.sampling
        if reason:
            if not self.because and sampling.of_observed > sampling.limit:
                self.because = reason
                self._tell(forbidden(sampling.of_observed, sampling.limit, reason))
        elif not self._said and sampling.share < _WORTH_SAYING:
            self._said = True
            self._tell(leaving_out("a training step", sampling.of_observed, sampling.limit,
                                   sampling.share))  # fmt: skip
