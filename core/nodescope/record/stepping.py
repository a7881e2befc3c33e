"""Stepping: which training steps are observed, so that a run keeps to a slowdown.

It is fed with what each step took, and asked before each whether it may be observed. Now and then
it has a few left out in a row, the last of which are references. It reads no clock.

Invariant: what the steps that may be left out are expected to cost more than plain ones is paid
from what the limit allows of those before them, and never from what it will allow.
"""

from __future__ import annotations

import random
from typing import Final

from nodescope.record.references import WARM, References, Took

# Of what the limit allows, what is used: what cannot be measured has to have room as well. And
# while the run so far is above the limit.
_SHARE: Final = 0.8
_OWING: Final = 0.25
# Where all steps may be observed, after so many references are measured again: at first, later,
# and where the limit is far away.
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
# Undisturbed or not, after so many it is enough.
_MOST_MEASURED: Final = 24
# Without a reference the price list may be wrong by this factor.
_DOUBT: Final = 4.0
# What is above this share of what the limit allows is no longer far below it.
_FAR: Final = 0.3
# After less is recorded, observed steps are taken to record so much of what they did.
_LIGHTER: Final = 0.3
_MOST_SAVED: Final = 3.0
# At first steps are compared after each one, then whenever so much time has passed.
_COMPARING: Final = 32
_COMPARING_NS: Final = 50e6
# Nobody is asked for so long at most, nor for so many steps.
_AHEAD_NS: Final = 20e6
_MOST_AHEAD: Final = 256


class Stepping:
    """Decides about the steps of a run.

    Args:
        limit: The slowdown.
        defining_ns: What the first execution of a node takes besides, until it is measured.
    """

    def __init__(self, limit: float, *, defining_ns: float = 0.0) -> None:
        self.limit = limit
        self.steps = self.left_out = 0
        self.known = References(defining_ns=defining_ns)
        self.cost_ns = 0.0
        """What observing the next step is expected to take."""
        self.saved_ns = 0.0
        """What may be spent on observing steps, saved up from those before."""
        self.measuring = False
        """Whether the next step, if it is left out, is to be measured: nothing may disturb it."""
        self.only_measured = False
        """Whether it is left out for nothing else."""
        self.ahead = 0
        """How many steps may be left out after the next one before `wants` is asked again."""
        # Sums over the run: of all that was observed, and of what was left out. What was recorded
        # before less was, and what it took.
        self._wall = self._spent_sum = self._tracing_sum = self._written_sum = 0.0
        self._seen_tracing = self._seen_written = self._before_tracing = self._before_ns = 0.0
        self._fresh_sum = self._unsettled = 0
        self._own_ns = 0.0
        self._sought = 0  # references that are still to be measured in this series
        self._row, self._row_ns = 0, 0.0  # left out since the last observed step
        self._since_reference = 0
        self._since_compared = 0.0
        self._dice = random.Random(7)
        self._patience = self._dice.random()

    # ------------------------------------------------------------ what is known

    @property
    def measured(self) -> bool:
        """Whether a step that was left out tells what the program takes."""
        return len(self.known) > 0

    @property
    def program_ns(self) -> float:
        """What the program took, or would have taken."""
        return max(self._wall - self._extra_inside, self._wall / 100)

    @property
    def extra_ns(self) -> float:
        """What was taken from it."""
        return self._own_ns + self._wall - self.program_ns

    @property
    def slowdown(self) -> float:
        """Of the run so far; 1 before anything was seen."""
        program = self.program_ns
        return 1 + self.extra_ns / program if program > 0 else 1.0

    @property
    def of_observed(self) -> float:
        """The slowdown of a step that is observed, as things are."""
        plain = self._typical
        return 1 + self.cost_ns / plain if plain > 0 else 1.0

    @property
    def share(self) -> float:
        """About which share of the steps may be observed."""
        cost = self.cost_ns
        return min(_SHARE * (self.limit - 1) * self._typical / cost, 1.0) if cost > 0 else 1.0

    @property
    def _typical(self) -> float:
        return self.known.typical_ns(self.cost_ns)

    @property
    def _extra_inside(self) -> float:
        known = self.known
        return (
            self._spent_sum
            + self._before_ns
            + known.tracing * (self._tracing_sum - self._before_tracing)
            + known.contention * self._written_sum
            + (0.0 if self.measured else self._seen_written)
            + known.settling_ns * self._unsettled
            + known.defining_ns * self._fresh_sum
        )

    @property
    def _owing(self) -> bool:
        return self.extra_ns > (self.limit - 1) * self.program_ns

    # ------------------------------------------------------------ what happened

    def observed(self, took: Took) -> None:
        """A step was observed."""
        self.steps += 1
        self._since_reference += 1
        self._row, self._row_ns = 0, 0.0  # whatever was seen of it
        self._seen_tracing += took.tracing_ns
        self._seen_written += took.written_ns
        self.outside(took)
        self.known.observed(self.steps, took)
        self._ended(took)
        self.saved_ns = max(self.saved_ns - self.cost_ns, 0.0)
        self._patience = self._dice.random()

    def skipped(self, took: Took, count: int = 1) -> None:
        """A step was left out, or some in a row; ``spent_ns`` is what beginnings and ends took."""
        # Not by what this one took: of steps that differ, the long ones would be all that count.
        long = self._typical >= _LONG_NS
        settled = self._row >= _SETTLING or self._row_ns >= _SETTLED_NS or long
        self.steps += count
        self.left_out += count
        self._row += count
        self._row_ns += took.wall_ns
        self.outside(took)
        self._written_sum += took.written_ns
        if not settled:
            self._unsettled += count
        self.known.left_out(self.steps, took, settled=settled, count=count)
        if settled and (took.clean or self._row > _MOST_MEASURED):
            self._sought = 0 if long else max(self._sought - 1, 0)
            self._since_reference = 0
        else:
            self._since_reference += count
        self._ended(took, count)

    def outside(self, took: Took) -> None:
        """Something ran that belongs to no step."""
        if took.tracing_ns:
            self._row, self._row_ns = 0, 0.0
        self._wall += took.wall_ns
        self._spent_sum += took.spent_ns
        self._tracing_sum += took.tracing_ns
        self._fresh_sum += took.fresh

    def own(self, nanoseconds: float) -> None:
        """So much was taken between steps, for deciding about them."""
        self._own_ns += nanoseconds
        self.saved_ns = max(self.saved_ns - nanoseconds, 0.0)

    def lighter(self) -> None:
        """Less is recorded of nodes from now on, or more: what was spent is no guide any more."""
        if self.measured:
            self._before_ns += self.known.tracing * (self._tracing_sum - self._before_tracing)
            self._before_tracing = self._tracing_sum
        self.known.lighter(self.steps + 1, _LIGHTER)
        self.cost_ns = self._cost()

    # ------------------------------------------------------------ what follows

    def wants(self) -> bool:
        """Whether the next step may be observed."""
        self.measuring = self.only_measured = False
        self.ahead = 0
        if self.steps < WARM:
            return True
        allowed = (self.limit - 1) * self._typical
        cost = self.cost_ns
        if not self.measured:
            if _DOUBT * cost < allowed:
                return True
            self._sought = self._sought or _SERIES
        elif self.known.compared < 2 and self.steps < 4 * WARM and not self._owing:
            return self._row > 0  # to have something to compare
        near = cost >= _SHARE * allowed or self._owing
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
        saved = _SHARE * (self.limit - 1) * typical
        self.ahead = int(min(lacking / saved, _AHEAD_NS / typical, _MOST_AHEAD))

    def _cost(self) -> float:
        # The writer writes of what runs between steps as well.
        ours = self._seen_tracing / self._tracing_sum if self._tracing_sum > 0 else 1.0
        known, seen = self.known, max(self.steps - self.left_out, 1)
        later = known.settling_ns * self._unsettled + ours * known.contention * self._written_sum
        return known.cost_ns() + later / seen

    def _ended(self, took: Took, count: int = 1) -> None:
        """More steps have passed: so much may be spent on later ones."""
        self._since_compared += took.wall_ns
        if self.steps <= _COMPARING or self._since_compared >= _COMPARING_NS:
            self._since_compared = 0.0
            self.known.compare(self.steps)
            self.cost_ns = self._cost()
        elif not self._row:
            self.cost_ns = self._cost()
        share = _OWING if self._owing else _SHARE
        most = _MOST_SAVED * self.cost_ns
        more = count * share * (self.limit - 1) * self._typical
        self.saved_ns = min(self.saved_ns + more, most)
