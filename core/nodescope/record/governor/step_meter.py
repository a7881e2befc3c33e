"""Step meter: where training steps begin and end, how long each took, and which are left out.

Invariant: a step is observed as a whole or not at all, and a step is left out only while nothing
needs to see every node.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from nodescope.events import Bus
from nodescope.record.governor.baseline import StepCost
from nodescope.record.governor.reports import forbidden, leaving_out
from nodescope.record.governor.step_sampling import Pace, StepSampling
from nodescope.record.governor.writer_cost import stood

_now = time.perf_counter_ns
# The first decision about nodes comes after this many steps, however little time has passed.
_EARLY: Final = 3
# The longest wait for the writer.
_MOST_HUSHED_NS: Final = 300_000_000
# The share of unobserved steps from which on a message is worthwhile.
_WORTH_SAYING: Final = 0.9

_State = Literal["outside", "observed", "left out", "call", "call left out"]


class Spent(NamedTuple):
    """The cost of observing since the run began.

    Attributes:
        recording_ns: On the program's threads.
        tracing_ns: Making events, by the price list.
        fresh: Nodes that were met for the first time.
        written_ns: Processor time of the writer.
    """

    recording_ns: int = 0
    tracing_ns: float = 0.0
    fresh: int = 0
    written_ns: int = 0


class StepMeter:
    """Decides at the start of each step whether it is left out; see `Bus.leaves_out`.

    Args:
        bus: Of the run.
        limit, pace: As of `StepSampling`.
        defining_ns: What meeting a node takes.
        spent: What observing took so far.
        weigh: Looks at what is recorded of each node; called with the time, how long of it was left
            out since the last call, and whether it is to be done now.
        hush: Has the writer stand still before its next batch, or go on; whether it stands now.
        tell: Takes a line for the person.

    Attributes:
        held: When probes held the program, to be added to by who sees it.
        because: Why a step could not be left out that should have been, or ``""``.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        limit: float,
        pace: Pace,
        defining_ns: float,
        spent: Callable[[], Spent],
        weigh: Callable[[int, int, bool], None],
        hush: Callable[[bool], bool],
        tell: Callable[[str], None],
    ) -> None:
        self.stepping = StepSampling(limit, pace=pace, defining_ns=defining_ns)
        self.held: list[tuple[int, int]] = []
        self.because = ""
        self.step = 0
        self._broken = False
        self._bus, self._spent, self._weigh, self._tell = bus, spent, weigh, tell
        self._hush, self._hushed_ns = hush, 0
        self._state: _State = "outside"
        self._since_ns = _now()
        self._before = Spent()
        self._left_out_ns = 0
        self._ahead = self._row = 0  # steps that may pass unasked; that did, with the first
        self._said = self._weighed = False
        self._over = self._wanted = False

    @property
    def in_the_dark(self) -> bool:
        """Whether the program is in a step that is left out, or broke off in one and began none."""
        return self._state in ("left out", "call left out") or self._broken

    @property
    def running(self) -> int:
        """Steps that began and are not counted yet: the current one, with others left out in a
        row."""
        return {"observed": 1, "left out": self._row}.get(self._state, 0)

    @property
    def running_left_out(self) -> int:
        """Of these, which are left out."""
        return self._row if self._state == "left out" else 0

    def begin(self) -> None:
        """The program begins: what passed before, such as the start of a server, is none of it."""
        self._since_ns, self._before = _now(), self._spent()
        self.held = []

    def observe_next(self) -> None:
        """Observe the next step, whatever it costs."""
        self._wanted, self._ahead = True, 0

    def leaves_out(self, step: int) -> bool:
        """Whether a step that begins is left out; 0 and -1 as of `Bus.leaves_out`."""
        if self._ahead and step > 0 and not self._over and not self._bus.demand.seen_whole:
            self._ahead -= 1
            self._row += 1
            self.step = step
            return True
        if self._over:
            return False
        now = _now()
        self._close(now)
        self._ahead = 0
        self._broken = step < 0 and self._state == "left out"
        self._state = "outside"
        if step <= 0:
            self._unhush()
            self._open(now)
            return False
        stepping = self.stepping
        self._weigh(now, self._left_out_ns, stepping.steps >= _EARLY and not self._weighed)
        self._weighed = self._weighed or stepping.steps >= _EARLY
        self._left_out_ns = 0
        leave = not stepping.wants() and not self._wanted
        self._wanted = False
        if leave:
            reason = self._bus.demand.seen_whole
            if reason or stepping.measured:
                self._say(reason)
            leave = not reason
        if leave and stepping.measuring:
            leave = self._undisturbed(now) or not stepping.only_measured
        else:
            self._unhush()
        self.step = step
        self._ahead, self._row = stepping.ahead if leave else 0, 1
        self._state = "left out" if leave else "observed"
        self._open(now)
        return leave

    def leaves_out_call(self) -> bool:
        """Whether an outermost call that begins outside of steps is left out."""
        if self._over or self._state != "outside":
            return False
        now = _now()
        self._close(now)
        leave = not self.stepping.wants_call() and not self._bus.demand.seen_whole
        self._state = "call left out" if leave else "call"
        self._open(now)
        return leave

    def call_ended(self, *, broken: bool) -> None:
        """The call about which `leaves_out_call` was asked has ended, or raised."""
        if not self._over and self._state in ("call", "call left out"):
            now = _now()
            self._close(now)
            self._broken = broken and self._state == "call left out"
            self._state = "outside"
            self._open(now)

    def end(self) -> None:
        """The run is over."""
        if not self._over:
            self._over = True
            self._hush(False)
            self._close(_now())
            self._broken = self.in_the_dark
            self._state = "outside"

    def _open(self, before: int) -> None:
        """Begin a stretch. The cost of deciding is charged to observing."""
        self._since_ns = _now()
        self.stepping.own(self._since_ns - before)

    def _close(self, now: int) -> None:
        """End the current stretch."""
        holds, self.held = self.held, []
        lasted = max(now - self._since_ns - stood(holds, self._since_ns, now), 0)
        spent, before = self._spent(), self._before
        self._before = spent
        took = StepCost(
            wall_ns=lasted,
            spent_ns=min(spent.recording_ns - before.recording_ns, lasted),
            tracing_ns=spent.tracing_ns - before.tracing_ns,
            written_ns=min(spent.written_ns - before.written_ns, lasted),
            fresh=spent.fresh - before.fresh,
        )
        if self._state == "observed":
            self.stepping.observed(took)
        elif self._state == "left out":
            self.stepping.skipped(took, self._row)
            self._left_out_ns += now - self._since_ns
        elif self._state == "outside":
            self.stepping.outside(took)
        else:
            left_out = self._state == "call left out"
            self.stepping.called(took, left_out=left_out)
            self._left_out_ns += left_out * (now - self._since_ns)

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
        stepping = self.stepping
        if reason:
            if not self.because and stepping.of_observed > stepping.limit:
                self.because = reason
                self._tell(forbidden(stepping.of_observed, stepping.limit, reason))
        elif not self._said and stepping.share < _WORTH_SAYING:
            self._said = True
            self._tell(leaving_out(stepping.of_observed, stepping.limit, stepping.share))
