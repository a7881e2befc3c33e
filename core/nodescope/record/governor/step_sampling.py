"""Step sampling: which parts of a run are observed, so that it stays below a slowdown limit.

It decides from the times of earlier steps, calls outside of steps, and stretches of a program
without steps, which share one allowance. Now and then it leaves a few consecutive steps unobserved,
the last of which serve as references. It reads no clock.

Invariant: the allowance for observing comes from time that has passed, never from time to come.
"""

from __future__ import annotations

import random
from typing import Final

from nodescope.record.capture_levels import Detail
from nodescope.record.governor.cost_model import WARM, CostModel, Kind, StepCost

# The share of the allowance that is used, since not all costs can be measured, and while the run as
# a whole is above the limit; the most that is saved up, in observed steps; and the least that a
# step adds, although leaving it out costs something, too.
_SHARE, _OWING, _MOST_SAVED, _LEAST_GAIN = 0.8, 0.25, 3.0, 0.02
# The least share of the time that is taken to be the program's own, measured and assumed: what the
# costs leave of it would be less than their errors.
_LEAST_OWN: Final = {True: 0.01, False: 0.05}
# The assumed additional cost of the first execution of a node.
_DEFINING_NS: Final = 60_000.0
# References are measured again after so many steps: `_SERIES` of them, after `_SETTLING` unobserved
# steps or some time, or if one is long.
_INTERVAL, _SERIES = 128, 2
_SETTLING, _SETTLED_NS, _LONG_NS = 2, 5e6, 20e6
# The assumed costs may be wrong by this factor as long as there is no reference.
_DOUBT: Final = 4.0
# Steps are compared after each of the first steps, and then at these intervals.
_COMPARING, _COMPARING_NS = 32, 50e6
# The most steps for which one decision is made, and the longest that they may take.
_MOST_TOGETHER, _TOGETHER_NS = 100, 50e6
# The calls outside of steps that are observed after each step in any case.
_FIRST_CALLS: Final = 2


class StepSampling:
    """Decides what is observed.

    Args:
        limit: The slowdown.
        share: The share of the allowance that is used.
        unnoticed_ns: Nothing is left out before observing has cost this much in total.

    Attributes:
        steps, left_out: The number of steps, and of those that ran unobserved.
        calls, calls_left_out: The same for outermost calls outside of steps.
        model: The cost model of observing.
        cost_ns: The expected cost of observing the next step.
        saved_ns: The allowance for observing steps, saved up from earlier ones.
        in_row: The steps left out since something was observed.
    """

    def __init__(self, limit: float, *, share: float = _SHARE, unnoticed_ns: float = 0.0) -> None:
        self.steps = self.left_out = self.calls = self.calls_left_out = self.in_row = 0
        self.model = CostModel()
        self.cost_ns = self.saved_ns = 0.0
        self._share, self._rate, self._unnoticed_ns = share, share * (limit - 1), unnoticed_ns
        # Of the whole run: its time, the known cost of observing, and the tracing time whose cost
        # is still estimated.
        self._wall_ns = self._charged_ns = self._tracing_ns = 0.0
        self._skipping_ns = 0.0  # the known cost of the latest step that was left out
        self._sought, self._in_row_ns = 0, 0.0  # references still to be measured in this series
        self._since_reference, self._calls_since_step, self._comparing_ns = 0, 0, 0.0
        # What observing cost, and the program's own time, in the latest stretch of each detail and
        # in the latest observed call.
        self._latest: dict[str, tuple[float, float]] = {}
        self._dice = random.Random(7)
        self._patience = self._dice.random()

    @property
    def program_ns(self) -> float:
        """The program's own time, measured or estimated."""
        own_ns = self._wall_ns - self._charged_ns - self.model.tracing * self._tracing_ns
        return self._own_ns(own_ns, self._wall_ns)

    @property
    def extra_ns(self) -> float:
        """The cost of observing so far."""
        return self._wall_ns - self.program_ns

    @property
    def slowdown(self) -> float:
        """The slowdown of the run so far; 1 before anything ran."""
        return self._wall_ns / self.program_ns if self._wall_ns else 1.0

    @property
    def of_observed(self) -> float:
        """The slowdown of an observed step now."""
        plain = self.model.plain_ns
        return 1 + self.cost_ns / plain if plain > 0 else 1.0

    @property
    def share(self) -> float:
        """The approximate share of steps that may be observed."""
        return min(self._gain_ns / self.cost_ns, 1.0) if self.cost_ns > 0 else 1.0

    def of_stretch(self, detail: Detail) -> float:
        """The slowdown of the latest stretch that was recorded in this detail."""
        extra_ns, program_ns = self._latest.get(detail, (0.0, 1.0))
        return 1 + extra_ns / program_ns

    @property
    def _gain_ns(self) -> float:
        """The allowance that one step adds, less what it costs even if it is left out."""
        gain_ns = self._rate * self.model.plain_ns
        return max(gain_ns - self._skipping_ns, _LEAST_GAIN * gain_ns)

    def left_ns(self, more_ns: float = 0.0) -> float:
        """The rest of the allowance of the whole run, and of a further stretch of the program."""
        program_ns = self.program_ns
        allowed_ns = max(self._rate * (program_ns + more_ns), self._unnoticed_ns)
        return allowed_ns - (self._wall_ns - program_ns)

    def _own_ns(self, own_ns: float, wall_ns: float) -> float:
        return max(own_ns, _LEAST_OWN[self.model.references > 0] * wall_ns, 1.0)

    def observed(self, cost: StepCost) -> None:
        """Note that a step was observed."""
        self.outside(cost)
        self._step_ended("observed", cost)
        self.saved_ns = max(self.saved_ns - self.cost_ns, 0.0)
        self._patience = self._dice.random()

    def skipped(self, cost: StepCost, many: int = 1) -> None:
        """Note that consecutive steps, which took this long together, were left out."""
        # Judged by the model, not by this step's own length: with steps of two kinds, all
        # references would be of the longer kind.
        long = self.model.plain_ns >= _LONG_NS
        reference = self.in_row >= _SETTLING or self._in_row_ns >= _SETTLED_NS or long
        self.left_out += many
        self.in_row, self._in_row_ns = self.in_row + many, self._in_row_ns + cost.wall_ns
        self._skipping_ns = cost.spent_ns / many
        self.outside(cost)
        if reference:
            self._sought = 0 if long else max(self._sought - many, 0)
        self._step_ended("reference" if reference else "disturbed", cost, many)

    def called(self, cost: StepCost, *, left_out: bool) -> None:
        """Note that a call outside of steps ended."""
        self.calls += 1
        self._calls_since_step += 1
        self.calls_left_out += left_out
        self.outside(cost, "" if left_out else "call")

    def outside(self, cost: StepCost, what: str = "") -> None:
        """Add the cost of something that ran, in a step or outside."""
        before_ns = self.program_ns if what else 0.0
        if cost.tracing_ns:
            self.in_row, self._in_row_ns = 0, 0.0
            if not self.model.references:  # `model.tracing` does not include the writer yet
                self._charged_ns += cost.written_ns
        self._wall_ns += cost.wall_ns
        self._charged_ns += cost.spent_ns + _DEFINING_NS * cost.fresh
        self._tracing_ns += cost.tracing_ns
        if what:
            program_ns = self._own_ns(self.program_ns - before_ns, cost.wall_ns)
            self._latest[what] = cost.wall_ns - program_ns, program_ns

    def _step_ended(self, kind: Kind, cost: StepCost, many: int = 1) -> None:
        self.steps += many
        self._charged_ns += self.model.add(self.steps, kind, cost, many)
        self._calls_since_step = 0
        self._since_reference = 0 if kind == "reference" else self._since_reference + many
        if self.steps <= _COMPARING or self._wall_ns >= self._comparing_ns:
            self._comparing_ns = self._wall_ns + _COMPARING_NS
            if self.model.compare():
                # Charged once and for all, because later estimates describe later steps.
                self._charged_ns += self.model.tracing * self._tracing_ns
                self._tracing_ns = 0.0
            self.cost_ns = self.model.cost_ns
        gain = many * self._gain_ns * (_OWING / self._share if self.left_ns() < 0 else 1)
        self.saved_ns = min(self.saved_ns + gain, _MOST_SAVED * self.cost_ns)

    def wants(self, *, behind: bool = False) -> bool:
        """Whether the next step is observed. While the writer is behind, without room in its
        queue, a step costs the program far more.
        """
        near = self.cost_ns >= self._gain_ns
        if behind and self.steps and near:
            return False
        if self.steps < WARM or self.extra_ns + self.cost_ns < self._unnoticed_ns:
            return True
        late = self._since_reference >= _INTERVAL
        doubtful = _DOUBT * self.cost_ns * self._share >= self._gain_ns
        if (late if self.model.references else doubtful) and not self._sought:
            self._sought = _SERIES
        within = not near and self.left_ns() >= 0
        return not self._sought and (within or self._missing_ns() <= 0)

    def left_out_for_certain(self) -> int:
        """The number of steps after an unobserved one that are unobserved too, because the
        allowance cannot suffice earlier. Only a few, and none if steps are long or disturbed.
        """
        if self.in_row < _SETTLING:
            return 0
        many = min(self._missing_ns() / self._gain_ns - 1, _MOST_TOGETHER)
        return max(int(min(many, _TOGETHER_NS / self.model.plain_ns)), 0)

    def _missing_ns(self) -> float:
        """The allowance that must still be saved up before a step is observed."""
        # The intervals are irregular, because every second step may be of another kind.
        return self.cost_ns * (1 + self._patience) - self.saved_ns

    def wants_call(self) -> bool:
        """Whether the call outside of steps that now begins is observed."""
        call_ns, _ = self._latest.get("call", (0.0, 1.0))
        return call_ns <= self.left_ns() or self._calls_since_step < _FIRST_CALLS

    def next_stretch(self, detail: Detail, *, behind: bool = False) -> Detail:
        """How much is recorded of the next stretch of a program without steps, after one that was
        recorded in this detail.
        """
        if detail == "whole":
            self._latest.pop("times", None)  # recording times will be tried again
        whole_ns, _ = self._latest.get("whole", (0.0, 1.0))
        _, program_ns = self._latest[detail]
        if not behind and self.left_ns(program_ns) >= whole_ns:
            return "whole"
        return "times" if self.of_stretch("times") - 1 < self._rate else "counted"
