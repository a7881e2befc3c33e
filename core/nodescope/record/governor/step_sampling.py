"""Step sampling: what of a run is observed, so that it stays below a slowdown limit.

Its input is the time of each step, and before each it decides whether to observe it. From time to
time it leaves out a few in a row, the last of which are references. Calls outside of steps, and
stretches of a program without any, are paid from the same allowance. It reads no clock.

Invariant: the expected extra cost of what is observed is paid from the allowance of what ran
before, never from that of what follows.
"""

from __future__ import annotations

import random
from typing import Final, Literal, NamedTuple

from nodescope.record.governor.cost_model import COMPARED, WARM, CostModel, Kind, StepCost

# The share of the allowance that is used while the run as a whole is above the limit.
_OWING: Final = 0.25
# Where every step may be observed, references are measured again after this many steps, then after
# twice as many each time.
_SOON: Final = 16
_RARELY: Final = 128
# So many are measured in a row, after so many that let the machine settle; it has settled as well
# after so much time, and a long step does not notice.
_SERIES: Final = 2
_SETTLING: Final = 2
_SETTLED_NS: Final = 5e6
_LONG_NS: Final = 20e6
# The most steps of a series, undisturbed or not.
_MOST_MEASURED: Final = 24
# How far off the assumed cost of making events may be as long as there is no reference.
_DOUBT: Final = 4.0
_MOST_SAVED: Final = 3.0
# At first steps are compared after each one, then whenever so much time has passed.
_COMPARING: Final = 32
_COMPARING_NS: Final = 50e6
# Of the calls outside of steps, so many are observed after each step.
_FIRST_CALLS: Final = 2

Detail = Literal["whole", "times", "counted"]
"""How much is recorded of a stretch: as it was asked for, the times of executions, or counts."""


class Pace(NamedTuple):
    """How the allowance is used.

    Attributes:
        share: The part of it that is used; the rest covers costs that cannot be measured.
        unnoticed_ns: Nothing is left out before observing has cost this much in all.
    """

    share: float = 0.8
    unnoticed_ns: float = 0.0


ASKED: Final = Pace()
"""For a limit that a person chose."""


class StepSampling:
    """Decides about the steps of a run.

    Args:
        limit: The slowdown.
        pace: How what it allows is used.

    Attributes:
        steps, left_out: How many there were, and how many of these ran unobserved.
        calls, calls_left_out: Outermost calls outside of steps.
        model: What observing takes.
        cost_ns: The expected cost of observing the next step.
        saved_ns: The allowance for observing steps, saved up from earlier ones.
        measuring: Whether the next step, if it is left out, is to be measured: nothing may disturb
            it.
        only_measured: Whether it is left out for nothing else.
    """

    def __init__(self, limit: float, *, pace: Pace = ASKED) -> None:
        self.limit = limit
        self._share, self._unnoticed_ns = pace
        self.steps = self.left_out = self.calls = self.calls_left_out = 0
        self.model = CostModel()
        self.cost_ns = self.saved_ns = 0.0
        self.measuring = self.only_measured = False
        # In all; what observing took is charged for good, or of late, at the current estimates.
        self._wall_ns = self._own_ns = self._charged_ns = self._tracing_ns = 0.0
        self._disturbed = self._disturbed_in_all = self._fresh = 0
        self._sought = 0  # references that are still to be measured in this series
        self._row, self._row_ns = 0, 0.0  # left out since the last observed step
        self._since_reference, self._patient_steps = 0, _SOON
        self._since_compared_ns = 0.0
        self._calls_since_step, self._of_call_ns = 0, 0.0  # what observing the last one took
        # Of the last stretch of each kind: what observing took, and the program's own time.
        self._stretches: dict[Detail, tuple[float, float]] = {}
        self._dice = random.Random(7)
        self._patience = self._dice.random()

    # ------------------------------------------------------------ what is known

    @property
    def measured(self) -> bool:
        """Whether unobserved steps have shown the program's own time."""
        return self.model.references > 0

    @property
    def program_ns(self) -> float:
        """The program's own time, measured or estimated."""
        model = self.model
        late_ns = (
            model.tracing * self._tracing_ns
            + model.disturbed_ns * self._disturbed
            + model.defining_ns * self._fresh
        )
        return max(self._wall_ns - self._charged_ns - late_ns, self._wall_ns / 100)

    @property
    def extra_ns(self) -> float:
        """The cost of observing so far."""
        return self._own_ns + self._wall_ns - self.program_ns

    @property
    def slowdown(self) -> float:
        """The slowdown of the run so far; 1 before anything ran."""
        program = self.program_ns
        return 1 + self.extra_ns / program if program > 0 else 1.0

    @property
    def of_observed(self) -> float:
        """The current slowdown of an observed step."""
        plain = self.model.plain_ns
        return 1 + self.cost_ns / plain if plain > 0 else 1.0

    @property
    def share(self) -> float:
        """The approximate share of steps that may be observed."""
        cost = self.cost_ns
        return min(self._share * self._allowed_ns / cost, 1.0) if cost > 0 else 1.0

    def of_stretch(self, detail: Detail) -> float:
        """The slowdown of the last stretch that was recorded so."""
        extra_ns, program_ns = self._stretches.get(detail, (0.0, 1.0))
        return 1 + extra_ns / program_ns

    @property
    def _allowed_ns(self) -> float:
        """What observing a step may take."""
        return (self.limit - 1) * self.model.plain_ns

    def _left_ns(self, more_ns: float = 0.0) -> float:
        """What is left of the allowance of the whole run, with so much more of the program."""
        allowed = self._share * (self.limit - 1) * (self.program_ns + more_ns)
        return max(allowed, self._unnoticed_ns) - self.extra_ns

    @property
    def _owing(self) -> bool:
        return self.extra_ns > self._share * (self.limit - 1) * self.program_ns

    # ------------------------------------------------------------ what happened

    def observed(self, took: StepCost) -> None:
        """A step was observed."""
        self._since_reference += 1
        self.outside(took)
        self._row, self._row_ns = 0, 0.0  # whatever was seen of it
        self._ended("observed", took)
        self.saved_ns = max(self.saved_ns - self.cost_ns, 0.0)
        self._patience = self._dice.random()

    def skipped(self, took: StepCost) -> None:
        """A step was left out; ``spent_ns`` is what its beginning and its end took."""
        # Not by what this one took: of steps that differ, the long ones would be all that count.
        long = self.model.plain_ns >= _LONG_NS
        settled = self._row >= _SETTLING or self._row_ns >= _SETTLED_NS or long
        # One that the writer disturbs is none: what that takes is charged to observing.
        reference = settled and (took.clean or self._row >= _MOST_MEASURED)
        self.left_out += 1
        self._row += 1
        self._row_ns += took.wall_ns
        self.outside(took)
        if reference:
            self._sought = 0 if long else max(self._sought - 1, 0)
            self._since_reference = 0
        else:
            self._disturbed += 1
            self._disturbed_in_all += 1
            self._since_reference += 1
        self._ended("reference" if reference else "disturbed", took)

    def outside(self, took: StepCost) -> None:
        """Something ran, in a step or not."""
        if took.tracing_ns:
            self._row, self._row_ns = 0, 0.0
        self._wall_ns += took.wall_ns
        self._charged_ns += took.spent_ns
        self._tracing_ns += took.tracing_ns
        self._fresh += took.fresh
        if took.tracing_ns and not self.measured:
            self._charged_ns += took.written_ns

    def called(self, took: StepCost, *, left_out: bool) -> None:
        """A call outside of steps ended."""
        self.calls += 1
        self.calls_left_out += left_out
        self._calls_since_step += 1
        extra_ns = self.extra_ns
        self.outside(took)
        if not left_out:
            self._of_call_ns = self.extra_ns - extra_ns

    def own(self, nanoseconds: float) -> None:
        """Charge the cost of deciding."""
        self._own_ns += nanoseconds
        self.saved_ns = max(self.saved_ns - nanoseconds, 0.0)

    # ------------------------------------------------------------ what follows

    def wants(self, *, behind: bool = False) -> bool:
        """Whether the next step may be observed.

        Args:
            behind: The writer is: what finds no room in its queue costs the program far more.
        """
        self.measuring = self.only_measured = False
        cost, allowed = self.cost_ns, self._allowed_ns
        if behind and self.steps and cost >= self._share * allowed:
            return False
        if self.steps < WARM or self.extra_ns + cost < self._unnoticed_ns:
            return True
        if not self.measured:
            if not self._sought and _DOUBT * cost < allowed:
                return True
            self._sought = self._sought or _SERIES
        near = cost >= self._share * allowed or self._owing
        if not self._sought and self._since_reference >= self._patient_steps:
            self._sought = _SERIES
            self._patient_steps = min(2 * self._patient_steps, _RARELY)
        if self._sought:
            self.measuring, self.only_measured = True, not near and self.measured
            return False
        # Not at regular distances: every second step of a program may be another one.
        return not near or self.saved_ns >= cost * (1 + self._patience)

    def wants_call(self) -> bool:
        """Whether a call outside of steps that begins may be observed."""
        return self._calls_since_step < _FIRST_CALLS or self._of_call_ns <= self._left_ns()

    def stretch(self, took: StepCost, detail: Detail, *, behind: bool = False) -> Detail:
        """A stretch of a program without steps ended: how much is recorded of the next one."""
        program_ns, extra_ns = self.program_ns, self.extra_ns
        self.outside(took)
        program_ns = max(self.program_ns - program_ns, 1.0)
        self._stretches[detail] = self.extra_ns - extra_ns, program_ns
        if detail == "whole":
            self._stretches.pop("times", None)  # that is tried again
        whole_ns, _ = self._stretches.get("whole", (0.0, 1.0))
        if not behind and self._left_ns(program_ns) >= whole_ns:
            return "whole"
        within = self.of_stretch("times") - 1 < self._share * (self.limit - 1)
        return "times" if within else "counted"

    def _ended(self, kind: Kind, took: StepCost) -> None:
        """A step has passed: so much may be spent on later ones."""
        self.steps += 1
        self.model.add(self.steps, kind, took)
        self._calls_since_step = 0
        self._since_compared_ns += took.wall_ns
        compares = self.steps <= _COMPARING or self._since_compared_ns >= _COMPARING_NS
        if compares:
            self._since_compared_ns = 0.0
            self.model.compare()
            if min(self.model.compared, self.model.references) >= COMPARED:
                # For good, at estimates of these steps: the next ones are of others.
                self._charged_ns += self.model.tracing * self._tracing_ns
                self._charged_ns += self.model.disturbed_ns * self._disturbed
                self._tracing_ns, self._disturbed = 0.0, 0
        if compares or not self._row:
            later = self._disturbed_in_all / max(self.steps - self.left_out, 1)
            self.cost_ns = self.model.cost_ns() + later * self.model.disturbed_ns
        share = _OWING if self._owing else self._share
        self.saved_ns = min(self.saved_ns + share * self._allowed_ns, _MOST_SAVED * self.cost_ns)
