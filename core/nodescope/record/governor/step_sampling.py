"""Step sampling: which training steps are observed, so that a run stays below a slowdown limit.

Its input is the time of each step, and before each it decides whether to observe it. From time to
time it leaves out a few in a row, the last of which are references. It reads no clock.

Invariant: the expected extra cost of observed steps is paid from the allowance of earlier steps,
never from that of later ones.
"""

from __future__ import annotations

import random
from collections import deque
from statistics import median
from typing import Final, NamedTuple

from nodescope.record.governor.baseline import COMPARED, WARM, Baseline, StepCost

# The share of the allowance that is used while the run as a whole is above the limit.
_OWING: Final = 0.25
# Where every step may be observed, references are measured again after this many steps: at first,
# later, and where the limit is far away.
_SOON: Final = 8
_LATER: Final = 128
_RARELY: Final = 1024
_FIRST_REFERENCES: Final = 6
# So many are measured in a row, after so many that let the machine settle; it has settled as well
# after so much time, and a long step does not notice.
_SERIES: Final = 2
_SETTLING: Final = 2
_SETTLED_NS: Final = 5e6
_LONG_NS: Final = 20e6
# The most steps of a series, undisturbed or not.
_MOST_MEASURED: Final = 24
# The assumed error of the price list as long as there is no reference.
_DOUBT: Final = 4.0
# Below this share of the allowance, the limit is far away.
_FAR: Final = 0.3
# After less is recorded, observed steps are taken to record so much of what they did.
_LIGHTER: Final = 0.3
_MOST_SAVED: Final = 3.0
# At first steps are compared after each one, then whenever so much time has passed.
_COMPARING: Final = 32
_COMPARING_NS: Final = 50e6
# Of the calls outside of steps, so many are observed after each step; what one takes is what so
# many took last.
_FIRST_CALLS: Final = 2
_RECENT_CALLS: Final = 24
# Nobody is asked for so long at most, nor for so many steps.
_AHEAD_NS: Final = 20e6
_MOST_AHEAD: Final = 256


class Pace(NamedTuple):
    """How the allowance is used.

    Attributes:
        share: The part of it that is used; the rest covers costs that cannot be measured.
        unnoticed_ns: No step is left out before observing has cost this much in all.
    """

    share: float = 0.8
    unnoticed_ns: float = 0.0


ASKED: Final = Pace()
"""For a limit that the user chose."""


class StepSampling:
    """Decides about the steps of a run.

    Args:
        limit: The slowdown.
        pace: How what it allows is used.
        defining_ns: What the first execution of a node takes besides, until it is measured.
    """

    def __init__(self, limit: float, *, pace: Pace = ASKED, defining_ns: float = 0.0) -> None:
        self.limit = limit
        self._share, self._unnoticed_ns = pace
        self.steps = self.left_out = 0
        self.known = Baseline(defining_ns=defining_ns)
        self.cost_ns = 0.0
        """The expected cost of observing the next step."""
        self.saved_ns = 0.0
        """The allowance for observing steps, saved up from earlier ones."""
        self.measuring = False
        """Whether the next step, if it is left out, is to be measured: nothing may disturb it."""
        self.only_measured = False
        """Whether it is left out for nothing else."""
        self.ahead = 0
        """How many further steps may be left out without asking `wants` again."""
        # Sums over the run: of all that was observed, and of what was left out. What was charged
        # for good, at the estimate of its time, is `_before_ns` for `_before_tracing`; since then
        # so many steps were observed, and references measured.
        self._uncharged = self._references = 0
        self._wall = self._spent_sum = self._tracing_sum = self._written_sum = 0.0
        self._seen_tracing = self._seen_written = self._before_tracing = self._before_ns = 0.0
        self._fresh_sum = self._unsettled = 0
        self._own_ns = 0.0
        self._sought = 0  # references that are still to be measured in this series
        self._row, self._row_ns = 0, 0.0  # left out since the last observed step
        self._since_reference = 0
        self._since_compared = 0.0
        self.calls = self.calls_left_out = 0
        """Outermost calls outside of steps."""
        self._calls_since_step = 0
        self._calls_seen: deque[float] = deque(maxlen=_RECENT_CALLS)
        self._calls_plain: deque[float] = deque(maxlen=_RECENT_CALLS)
        self._dice = random.Random(7)
        self._patience = self._dice.random()

    # ------------------------------------------------------------ what is known

    @property
    def measured(self) -> bool:
        """Whether unobserved steps have shown the program's own time."""
        return len(self.known) > 0

    @property
    def program_ns(self) -> float:
        """The program's own time, measured or estimated."""
        return max(self._wall - self._extra_inside, self._wall / 100)

    @property
    def extra_ns(self) -> float:
        """The cost of observing so far."""
        return self._own_ns + self._wall - self.program_ns

    @property
    def slowdown(self) -> float:
        """The slowdown of the run so far; 1 before the first step."""
        program = self.program_ns
        return 1 + self.extra_ns / program if program > 0 else 1.0

    @property
    def of_observed(self) -> float:
        """The current slowdown of an observed step."""
        plain = self._typical
        return 1 + self.cost_ns / plain if plain > 0 else 1.0

    @property
    def share(self) -> float:
        """The approximate share of steps that may be observed."""
        cost = self.cost_ns
        return min(self._share * (self.limit - 1) * self._typical / cost, 1.0) if cost > 0 else 1.0

    @property
    def _typical(self) -> float:
        return self.known.typical_ns(self.cost_ns)

    @property
    def _extra_inside(self) -> float:
        references = self.known
        return (
            self._spent_sum
            + self._before_ns
            + references.tracing * (self._tracing_sum - self._before_tracing)
            + references.contention * self._written_sum
            + (0.0 if self.measured else self._seen_written)
            + references.settling_ns * self._unsettled
            + references.defining_ns * self._fresh_sum
        )

    @property
    def _owing(self) -> bool:
        return self.extra_ns > (self.limit - 1) * self.program_ns

    # ------------------------------------------------------------ what happened

    def observed(self, took: StepCost) -> None:
        """A step was observed."""
        self.steps += 1
        self._uncharged += 1
        self._calls_since_step = 0
        self._since_reference += 1
        self._row, self._row_ns = 0, 0.0  # whatever was seen of it
        self._seen_tracing += took.tracing_ns
        self._seen_written += took.written_ns
        self.outside(took)
        self.known.observed(self.steps, took)
        self._ended(took)
        self.saved_ns = max(self.saved_ns - self.cost_ns, 0.0)
        self._patience = self._dice.random()

    def skipped(self, took: StepCost, count: int = 1) -> None:
        """A step was left out, or some in a row; ``spent_ns`` is what beginnings and ends took."""
        # Not by what this one took: of steps that differ, the long ones would be all that count.
        long = self._typical >= _LONG_NS
        settled = self._row >= _SETTLING or self._row_ns >= _SETTLED_NS or long
        self.steps += count
        self.left_out += count
        self._calls_since_step = 0
        self._row += count
        self._row_ns += took.wall_ns
        self.outside(took)
        self._written_sum += took.written_ns
        if not settled:
            self._unsettled += count
        self.known.left_out(self.steps, took, settled=settled, count=count)
        self._references += settled and count == 1
        if settled and (took.clean or self._row > _MOST_MEASURED):
            self._sought = 0 if long else max(self._sought - 1, 0)
            self._since_reference = 0
        else:
            self._since_reference += count
        self._ended(took, count)

    def outside(self, took: StepCost) -> None:
        """Something ran that belongs to no step."""
        if took.tracing_ns:
            self._row, self._row_ns = 0, 0.0
        self._wall += took.wall_ns
        self._spent_sum += took.spent_ns
        self._tracing_sum += took.tracing_ns
        self._fresh_sum += took.fresh

    def called(self, took: StepCost, *, left_out: bool) -> None:
        """A call outside of steps ended."""
        self.calls += 1
        self.calls_left_out += left_out
        self._calls_since_step += 1
        (self._calls_plain if left_out else self._calls_seen).append(took.wall_ns)
        self.outside(took)

    def own(self, nanoseconds: float) -> None:
        """Charge the cost of deciding between steps."""
        self._own_ns += nanoseconds
        self.saved_ns = max(self.saved_ns - nanoseconds, 0.0)

    def lighter(self) -> None:
        """Less is recorded of nodes from now on, or more: what was spent is no guide any more."""
        if self.measured:
            self._charge()
        self.known.lighter(self.steps + 1, _LIGHTER)
        self.cost_ns = self._cost()

    # ------------------------------------------------------------ what follows

    def wants(self) -> bool:
        """Whether the next step may be observed."""
        self.measuring = self.only_measured = False
        self.ahead = 0
        if self.steps < WARM or self.extra_ns + self.cost_ns < self._unnoticed_ns:
            return True
        allowed = (self.limit - 1) * self._typical
        cost = self.cost_ns
        if not self.measured:
            if _DOUBT * cost < allowed:
                return True
            self._sought = self._sought or _SERIES
        elif self.known.compared < 2 and self.steps < 4 * WARM and not self._owing:
            return self._row > 0  # to have something to compare
        near = cost >= self._share * allowed or self._owing
        if not self._sought and self._since_reference >= self._often(cost, allowed, near=near):
            self._sought = _SERIES
        if self._sought:
            self.measuring, self.only_measured = True, not near and self.measured
            return False
        if not near:
            return True
        # Not at regular distances: every second step of a program may be another one.
        lacking = cost * (1 + self._patience) - self.saved_ns
        if lacking > 0:
            self._look_ahead(lacking)
        return lacking <= 0

    def wants_call(self) -> bool:
        """Whether a call outside of steps that begins may be observed."""
        if self._calls_since_step < _FIRST_CALLS or not self._calls_seen:
            return True
        observed_ns = median(self._calls_seen)
        plain = median(self._calls_plain) if self._calls_plain else 0.0
        allowed = self._share * (self.limit - 1) * self.program_ns
        return self.extra_ns + max(observed_ns - plain, 0.0) <= max(allowed, self._unnoticed_ns)

    def _often(self, cost: float, allowed: float, *, near: bool) -> int:
        """After how many steps references are measured again."""
        if len(self.known) < _FIRST_REFERENCES:
            return _SOON  # a few may be steps of another kind
        return _RARELY if cost < _FAR * allowed and not near else _LATER

    def _look_ahead(self, lacking: float) -> None:
        """For how many steps the answer is known, after some that are looked at one by one."""
        typical = self._typical
        if self._row < _SETTLING + _SERIES or typical <= 0:
            return
        saved = self._share * (self.limit - 1) * typical
        self.ahead = int(min(lacking / saved, _AHEAD_NS / typical, _MOST_AHEAD))

    def _charge(self) -> None:
        """Charge what making events took at the estimate of now, which is of these steps.

        The next estimates are of other steps: one that is off must not count for the whole run.
        """
        self._before_ns += self.known.tracing * (self._tracing_sum - self._before_tracing)
        self._before_tracing = self._tracing_sum
        self._uncharged = self._references = 0

    def _cost(self) -> float:
        # The writer writes of what runs between steps as well.
        ours = self._seen_tracing / self._tracing_sum if self._tracing_sum > 0 else 1.0
        references, observed_steps = self.known, max(self.steps - self.left_out, 1)
        later = (
            references.settling_ns * self._unsettled
            + ours * references.contention * self._written_sum
        )
        return references.cost_ns() + later / observed_steps

    def _ended(self, took: StepCost, count: int = 1) -> None:
        """More steps have passed: so much may be spent on later ones."""
        self._since_compared += took.wall_ns
        if self.steps <= _COMPARING or self._since_compared >= _COMPARING_NS:
            self._since_compared = 0.0
            self.known.compare(self.steps)
            if self._uncharged >= COMPARED and self._references >= COMPARED:
                self._charge()
            self.cost_ns = self._cost()
        elif not self._row:
            self.cost_ns = self._cost()
        share = _OWING if self._owing else self._share
        ceiling = _MOST_SAVED * self.cost_ns
        allowance = count * share * (self.limit - 1) * self._typical
        self.saved_ns = min(self.saved_ns + allowance, ceiling)
