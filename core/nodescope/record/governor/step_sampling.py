"""Step sampling: which parts of a run are observed, so that it stays below a slowdown limit.

It decides from the times of earlier steps, calls outside of steps, and stretches of a program
without steps, which share one allowance. Now and then it leaves a few consecutive steps unobserved,
the last of which serve as references.

Invariant: it reads no clock, and the allowance comes from time that has passed.
"""

from __future__ import annotations

import random

from nodescope.record.capture_levels import Detail
from nodescope.record.governor.cost_model import SETTLING, WARM, CostModel, Kind, StepCost

_SHARE = 0.8  # share of the allowance that is used, since not all costs can be measured
_OWING = 0.25  # the same while the run as a whole is above the limit
_MOST_SAVED = 3.0  # largest allowance that can be saved up, in observed steps
_LEAST_GAIN = 0.02  # least share of its allowance that a step adds, whatever leaving it out costs
_LEAST_OWN = {True: 0.01, False: 0.05}  # least share of the program's own time, if measured or not
_MOST_TRACING = 0.85  # largest share of the time beside the recorder that making events takes
_DEFINING_NS = 60_000.0  # assumed cost of the first execution of a node
_DOUBT = 4.0  # factor by which assumed costs may be wrong
_INTERVAL, _SERIES = 128, 2  # steps between series of references; references in a series
_SETTLED_NS = 5e6  # time after which steps are undisturbed, however few they were
_LONG_NS = 20e6  # length of steps that are never disturbed
_COMPARING, _COMPARING_NS = 32, 50e6  # first steps that are compared at once; interval later
_MOST_TOGETHER, _TOGETHER_NS = 100, 50e6  # most steps with one decision; their longest time


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
        saved_ns: The allowance for observing steps, saved up from earlier ones.
        in_row: The steps left out since something was observed.
    """

    def __init__(self, limit: float, *, share: float = _SHARE, unnoticed_ns: float = 0.0) -> None:
        self.steps = self.left_out = self.calls = self.calls_left_out = self.in_row = 0
        self.model, self.saved_ns = CostModel(), 0.0
        self._share, self._rate, self._unnoticed_ns = share, share * (limit - 1), unnoticed_ns
        # Of the run: its time, the known cost of observing, and tracing whose cost is estimated.
        self._wall_ns = self._charged_ns = self._tracing_ns = 0.0
        self._skipping_ns = 0.0  # the known cost of leaving out the latest such step
        self._sought, self._in_row_ns = 0, 0.0  # references still to be measured in this series
        self._since_reference, self._calls_since_step, self._comparing_ns = 0, 0, 0.0
        # The cost and the program's own time of the latest observed call, and stretch by detail.
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
        return 1 + self.model.cost_ns / self.model.plain_ns

    @property
    def share(self) -> float:
        """The approximate share of steps that may be observed."""
        return min(self._gain_ns / max(self.model.cost_ns, 1.0), 1.0)

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

    def outside(self, cost: StepCost, what: str = "") -> None:
        """Add the cost of something that ran, in a step or outside."""
        before_ns = self.program_ns if what else 0.0
        most_ns = _MOST_TRACING * max(cost.wall_ns - cost.spent_ns, 0.0)
        cost = cost._replace(tracing_ns=min(cost.tracing_ns, most_ns))
        if cost.tracing_ns:
            self.in_row, self._in_row_ns = 0, 0.0
            if not self.model.references:  # `model.tracing` does not include the writer yet
                self._charged_ns += cost.written_ns
        self._wall_ns += cost.wall_ns
        self._charged_ns += min(cost.spent_ns, cost.wall_ns) + _DEFINING_NS * cost.fresh
        if what in ("times", "counted"):  # of which steps, recorded whole, say nothing
            self._charged_ns += cost.tracing_ns
        else:
            self._tracing_ns += cost.tracing_ns
        if what:
            program_ns = self._own_ns(self.program_ns - before_ns, cost.wall_ns)
            self._latest[what] = cost.wall_ns - program_ns, program_ns

    def step_ended(self, cost: StepCost, *, left_out: int = 0) -> None:
        """Note that an observed step ended, or so many that were left out, at this cost in all."""
        many = left_out or 1
        kind: Kind = "observed"
        if left_out:
            # Not this step's own length: of two kinds of steps, only longer ones would count.
            long = self.model.plain_ns >= _LONG_NS
            warm = self.in_row >= SETTLING or self._in_row_ns >= _SETTLED_NS or long
            warm = warm or self._since_reference >= 2 * _INTERVAL  # in loops of a step or two
            kind = "reference" if warm else "disturbed"
            self._sought = 0 if long else max(self._sought - many * warm, 0)
            self.in_row, self._in_row_ns = self.in_row + many, self._in_row_ns + cost.wall_ns
            self._skipping_ns = cost.spent_ns / many
        self.outside(cost)
        self.steps, self.left_out = self.steps + many, self.left_out + left_out
        self._charged_ns += self.model.add(self.steps, kind, cost, many)
        self._calls_since_step = 0
        self._since_reference = 0 if kind == "reference" else self._since_reference + many
        if self.steps <= _COMPARING or self._wall_ns >= self._comparing_ns:
            self._comparing_ns = self._wall_ns + _COMPARING_NS
            if self.model.compare():
                # Charged once and for all, because later estimates describe later steps.
                self._charged_ns += self.model.tracing * self._tracing_ns
                self._tracing_ns = 0.0
        gain = many * self._gain_ns * (_OWING / self._share if self.left_ns() < 0 else 1)
        self.saved_ns = min(self.saved_ns + gain, _MOST_SAVED * self.model.cost_ns)
        if not left_out:
            self.saved_ns = max(self.saved_ns - self.model.cost_ns, 0.0)
            self._patience = self._dice.random()

    def call_ended(self, cost: StepCost, *, left_out: bool) -> None:
        """Note that a call outside of steps ended."""
        self.calls += 1
        self._calls_since_step += 1
        self.calls_left_out += left_out
        self.outside(cost, "" if left_out else "call")

    def wants(self, *, behind: bool = False) -> bool:
        """Whether the next step is observed. It costs far more while the writer is behind."""
        near = self.model.cost_ns >= self._gain_ns
        if behind and self.steps and near:
            return False
        if self.steps < WARM or self.extra_ns + self.model.cost_ns < self._unnoticed_ns:
            return True
        late = self._since_reference >= _INTERVAL
        doubtful = _DOUBT * self.model.cost_ns * self._share >= self._gain_ns
        if (late if self.model.references else doubtful) and not self._sought:
            self._sought = _SERIES
        within = not near and self.left_ns() >= 0
        return not self._sought and (within or self._missing_ns() <= 0)

    def left_out_for_certain(self) -> int:
        """How many more steps cannot be observed yet: few, and none if long or disturbed."""
        if self.in_row < SETTLING:
            return 0
        many = min(self._missing_ns() / self._gain_ns - 1, _MOST_TOGETHER)
        return max(int(min(many, _TOGETHER_NS / self.model.plain_ns)), 0)

    def _missing_ns(self) -> float:
        """The allowance that must still be saved up before a step is observed."""
        # The intervals are irregular, because every second step may be of another kind.
        return self.model.cost_ns * (1 + self._patience) - self.saved_ns

    def wants_call(self) -> bool:
        """Whether the call outside of steps that now begins is observed."""
        call_ns, _ = self._latest.get("call", (0.0, 1.0))
        return call_ns <= self.left_ns() or self._calls_since_step < WARM

    def next_stretch(self, detail: Detail, *, behind: bool = False) -> Detail:
        """How much is recorded, without steps, of the stretch after one in this detail."""
        if detail == "whole":
            self._latest.pop("times", None)  # recording times will be tried again
        whole_ns, _ = self._latest.get("whole", (0.0, 1.0))
        _, program_ns = self._latest[detail]
        if not behind and self.left_ns(program_ns) >= whole_ns:
            return "whole"
        return "times" if self.of_stretch("times") - 1 < self._rate else "counted"
