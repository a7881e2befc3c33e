"""Which steps of simulated programs are observed; the only clock is the sum of their times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodescope.record.capture_levels import Detail
from nodescope.record.governor.cost_model import StepCost
from nodescope.record.governor.step_sampling import StepSampling

US = 1000.0
Wall = Callable[[int], float]


class Program:
    """Steps with given times; `StepSampling` decides which are observed, and gets their costs.

    Args:
        plain: The time of an unobserved step, by its number.
        tracing: The time of making a step's events; the sampling assumes only half of it.
        recording: The time of recording them, which is measured.
    """

    def __init__(self, limit: float, plain: Wall, *, tracing: float, recording: float) -> None:
        self.stepping = StepSampling(limit)
        self.plain, self.tracing, self.recording = plain, tracing, recording
        self.observed: list[int] = []
        self.wall = self.free = 0.0

    def run(self, steps: int, *, forbid: bool = False) -> Program:
        for step in range(self.stepping.steps + 1, self.stepping.steps + steps + 1):
            free = self.plain(step)
            seen = self.stepping.wants() or forbid
            fresh = 20 if step == 1 else 0
            wall = free + (self.tracing + self.recording + 50 * US * fresh if seen else 0.0)
            self.wall += wall
            self.free += free
            if seen:
                self.observed.append(step)
                self.stepping.step_ended(
                    StepCost(wall, self.recording, self.tracing / 2, fresh=fresh)
                )
            else:
                self.stepping.step_ended(StepCost(wall), left_out=1)
        return self

    @property
    def slowdown(self) -> float:
        return self.wall / self.free

    @property
    def gaps(self) -> list[int]:
        return [b - a for a, b in zip(self.observed, self.observed[1:], strict=False)]


class Machine(Program):
    """A program on a machine with one interpreter lock, and with caches.

    Args:
        writing: The writer's time for each observed step, spent during the step and afterwards.
        losing: How much of the writer's time the program loses.
        defining: The writer's time for what the first step defines.
        anyway: The writer's time in every 500 steps, whatever is observed.
    """

    def __init__(
        self, limit: float, plain: Wall, *, writing: float, losing: float = 0.6,
        defining: float = 0.0, anyway: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(limit, plain, tracing=900 * US, recording=300 * US)
        self.writing, self.losing, self.defining, self.anyway = writing, losing, defining, anyway
        self._backlog, self._cold = 0.0, [0.0, 0.0]

    def run(self, steps: int, *, forbid: bool = False) -> Machine:
        assert not forbid
        for step in range(1, steps + 1):
            seen = self.stepping.wants()
            self._backlog += self.defining * (step == 1) + self.anyway * (step % 500 == 0)
            took = self._take(self.plain(step), seen, fresh=20 if step == 1 else 0)
            if seen:
                self.observed.append(step)
                self.stepping.step_ended(took)
            else:
                self.stepping.step_ended(took, left_out=1)
        return self

    def _take(self, free: float, seen: bool, *, fresh: int) -> StepCost:
        wall = free + self._cold.pop(0)
        self._cold.append(0.0)
        if seen:
            self._backlog += self.writing
            self._cold = [0.4 * free, 0.1 * free]
            wall += self.tracing + self.recording + 50 * US * fresh
        wrote = min(self._backlog, 0.9 * wall)
        self._backlog -= wrote
        wall += self.losing * wrote
        self.wall += wall
        self.free += free
        if not seen:
            return StepCost(wall, written_ns=wrote)
        return StepCost(wall, self.recording, self.tracing / 2, wrote, fresh=fresh)


@pytest.mark.parametrize("limit", [1.2, 1.5, 3.0, 5.0])
@pytest.mark.parametrize("writing", [200 * US, 1500 * US])
def test_a_busy_writer_and_cold_caches_are_charged(limit: float, writing: float) -> None:
    program = Machine(limit, constant, writing=writing).run(6000)
    assert program.slowdown <= limit
    # Far below the limit, no step is left out to measure it.
    assert (program.stepping.model.references > 0) == (limit < 5 or writing > 200 * US)
    if program.stepping.model.references:  # The estimate may be too high rather than too low.
        assert 0.95 < program.stepping.slowdown / program.slowdown < 1.17
    # The program uses up the limit, unless observing every step stays below it.
    cost = 1000 + 900 + 300 + 500 + 0.6 * writing / US
    assert program.slowdown >= 1 + 0.55 * (min(limit, cost / 1000) - 1)


@pytest.mark.parametrize("limit", [1.2, 1.5, 3.0])
@pytest.mark.parametrize("losing", [0.0, 1.0, 2.0])
def test_what_is_written_anyway_is_not_the_cost_of_observing_a_step(
    limit: float, losing: float
) -> None:
    program = Machine(
        limit, constant, writing=200 * US, losing=losing, defining=30_000 * US, anyway=15_000 * US
    ).run(6000)
    assert program.slowdown <= limit
    assert 0.95 < program.stepping.slowdown / program.slowdown < 1.1
    cost = 1000 + 900 + 300 + 500 + losing * 230
    assert program.slowdown >= 1 + 0.6 * (min(limit, cost / 1000) - 1)


@pytest.mark.parametrize("losing", [0.0, 0.5, 1.0])
def test_a_writer_that_never_rests_does_not_take_all_the_time_of_a_step(losing: float) -> None:
    program = Machine(1.5, constant, writing=60_000 * US, losing=losing).run(6000)
    assert program.slowdown < 1.7
    assert program.stepping.model.plain_ns > 400 * US
    assert program.stepping.of_observed < 100


def constant(step: int) -> float:
    return 1000 * US


def alternating(step: int) -> float:
    return 1000 * US if step % 2 else 8000 * US


def growing(step: int) -> float:
    return 500 * US * (1 + step / 200)


def now_and_then_evaluating(step: int) -> float:
    return 50_000 * US if step % 25 == 0 else 1000 * US


PROGRAMS = [constant, alternating, growing, now_and_then_evaluating]


@pytest.mark.parametrize("plain", PROGRAMS)
@pytest.mark.parametrize("limit", [1.2, 1.5, 3.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_limit_is_kept_and_reported_truthfully(plain: Wall, limit: float, seed: int) -> None:
    program = Program(limit, plain, tracing=1500 * US, recording=600 * US)
    program.stepping._dice.seed(seed)  # which steps are observed must not matter
    program.run(1500)
    assert program.slowdown <= 1.02 * limit
    assert program.stepping.slowdown == pytest.approx(program.slowdown, rel=0.1)
    assert program.stepping.model.references
    assert program.observed[0] == 1
    assert program.stepping.left_out == 1500 - len(program.observed)


@pytest.mark.parametrize("limit", [1.2, 1.5, 2.5])
def test_what_the_limit_allows_is_used_and_spread_evenly(limit: float) -> None:
    program = Program(limit, constant, tracing=1500 * US, recording=600 * US).run(1500)
    share = 0.8 * (limit - 1) * 1000 / 2100
    assert len(program.observed) / 1500 == pytest.approx(share, rel=0.15)
    late = program.gaps[len(program.gaps) // 4 :]
    assert max(late) <= 2 + 2.2 / share


def test_steps_that_take_turns_are_all_seen() -> None:
    program = Program(1.5, alternating, tracing=1500 * US, recording=600 * US).run(1500)
    odd = sum(step % 2 for step in program.observed)
    assert 0.25 < odd / len(program.observed) < 0.75


@pytest.mark.parametrize("limit", [1.2, 1.5, 2.0])
def test_what_runs_between_steps_does_not_cost_what_a_step_costs(limit: float) -> None:
    """Making a step's events costs 700 times what is assumed, because its arrays are large."""
    sampling, wall, program = StepSampling(limit), 0.0, 0.0
    for step in range(1000):
        observed = sampling.wants()
        cold = 1_000 * US if step % 10 < 2 else 0.0  # whether a step was observed or not
        recording = 5_000 * US * observed, 15 * US * observed
        cost = StepCost(500 * US + cold + 15_000 * US * observed, *recording)
        sampling.step_ended(cost, left_out=1 - observed)
        wall, program = wall + cost.wall_ns, program + 500 * US + cold
        if step % 10 == 9:  # an evaluation, of which only times are recorded
            sampling.outside(StepCost(2_000 * US, 50 * US, 150 * US), "times")
            wall, program = wall + 2_000 * US, program + 1_800 * US
    assert sampling.slowdown == pytest.approx(wall / program, rel=0.1)
    assert wall / program < 1.1 * limit


@pytest.mark.parametrize("length", [1, 2])
def test_loops_of_a_step_or_two_are_observed_again_and_again(length: int) -> None:
    """What is observed after each loop disturbs the first steps of the next one, which are all."""
    sampling, seen = StepSampling(5), 0
    for step in range(2000):
        observed = sampling.wants()
        seen += observed
        cost = StepCost(100 * US + 200 * US * observed, 100 * US * observed, 50 * US * observed)
        sampling.step_ended(cost, left_out=1 - observed)
        if step % length == length - 1:
            sampling.outside(StepCost(30 * US, 10 * US, 10 * US), "times")
    assert seen > 200
    assert sampling.slowdown < 5


def test_far_below_the_limit_hardly_a_step_is_left_out() -> None:
    near = Program(4, constant, tracing=1500 * US, recording=600 * US).run(1000)
    assert 1 <= near.stepping.left_out <= 45
    far = Program(1000, constant, tracing=1500 * US, recording=600 * US).run(1000)
    assert far.stepping.left_out == 0
    assert not far.stepping.model.references


def test_the_slowdown_is_reported_if_every_step_must_be_observed() -> None:
    program = Program(1.5, constant, tracing=1500 * US, recording=600 * US)
    program.run(20).run(500, forbid=True)
    assert program.slowdown > 2.5
    assert program.stepping.slowdown == pytest.approx(program.slowdown, rel=0.1)
    assert program.stepping.of_observed == pytest.approx(3.1, rel=0.05)
    # Afterwards, fewer steps are observed to make up for the excess, but still some.
    before = len(program.observed)
    program.run(1000)
    assert len(program.observed) > before
    assert program.slowdown < 2


def test_a_program_that_becomes_expensive_to_observe_is_observed_less() -> None:
    program = Program(1.5, constant, tracing=300 * US, recording=100 * US).run(600)
    assert len(program.observed) > 500
    program.tracing = 4000 * US
    seen = len(program.observed)
    program.run(1500)
    assert len(program.observed) - seen < 350
    assert program.slowdown < 1.6


def test_what_a_busy_writer_takes_from_unobserved_steps_is_reported() -> None:
    stepping, program, total = StepSampling(1.5), 0.0, 0.0
    for number in range(400):
        writing = 500 * US if number % 4 == 0 else 0.0
        wall = 1000 * US + 0.6 * writing
        observed = stepping.wants()
        program, total = program + 1000 * US, total + wall + observed * 2000 * US
        if observed:
            stepping.step_ended(StepCost(wall + 2000 * US, 1000 * US, 500 * US, writing))
        else:
            stepping.step_ended(StepCost(wall, written_ns=writing), left_out=1)
    assert stepping.slowdown == pytest.approx(total / program, rel=0.06)
    # The writer's time counts as a cost of observing, even if it slows unobserved steps.
    assert 2000 * US <= stepping.model.cost_ns <= 2000 * US + 4 * 0.6 * 500 * US


@given(
    limit=st.floats(1.05, 6),
    walls=st.lists(st.floats(10 * US, 20_000 * US), min_size=30, max_size=120),
    tracing=st.floats(0, 20_000 * US),
    recording=st.floats(0, 20_000 * US),
)
def test_the_advance_allowance_is_never_exceeded(
    limit: float, walls: list[float], tracing: float, recording: float
) -> None:
    program = Program(
        limit, lambda step: walls[step % len(walls)], tracing=tracing, recording=recording
    ).run(10)
    stepping = program.stepping
    for _ in range(150):
        wanted = stepping.wants()
        cost, saved = stepping.model.cost_ns, stepping.saved_ns
        owing = stepping.extra_ns > (limit - 1) * stepping.program_ns
        # The allowance covers an observed step, or observing every step is within the limit.
        assert not wanted or saved >= cost or (stepping.of_observed <= limit and not owing)
        assert 0 <= stepping.share <= 1
        assert 1 + stepping.share * (stepping.of_observed - 1) <= limit * (1 + 1e-9)
        program.run(1)


@pytest.mark.parametrize("limit", [1.2, 1.5, 3.0])
@pytest.mark.parametrize("step_ns", [1_000 * US, 60_000 * US])
def test_steps_that_are_left_out_for_certain_would_be_left_out(
    limit: float, step_ns: float
) -> None:
    program = Program(limit, lambda _: step_ns, tracing=9 * step_ns, recording=3 * step_ns)
    stepping, certain, together = program.stepping, 0, 0
    for _ in range(1500):
        seen = len(program.observed)
        program.run(1)
        if len(program.observed) > seen:
            assert certain == 0
        elif certain:
            certain -= 1
            together += 1
        else:
            certain = stepping.left_out_for_certain()
    assert (together > 500) == (step_ns < 50e6)  # Long steps are decided one by one.


@pytest.mark.parametrize("limit", [1.2, 1.5, 3.0])
@given(series=st.lists(st.integers(1, 100), min_size=15, max_size=25), busy=st.floats(0, 0.03))
def test_steps_in_a_series_count_as_when_they_come_one_by_one(
    limit: float, series: list[int], busy: float
) -> None:
    """``busy`` is the writer's share of the time."""
    single, together = (
        Program(limit, constant, tracing=9_000 * US, recording=3_000 * US).run(40).stepping
        for _ in range(2)
    )
    step = StepCost(1_000 * US, written_ns=busy * 1_000 * US)
    for many in series:
        for _ in range(3 + many + 3):
            single.step_ended(step, left_out=1)
        for count in (1, 1, 1, many, 1, 1, 1):
            wall_ns, written_ns = count * step.wall_ns, count * step.written_ns
            together.step_ended(StepCost(wall_ns, written_ns=written_ns), left_out=count)
        for stepping in (single, together):
            stepping.step_ended(StepCost(13_000 * US, 3_000 * US, 4_500 * US))
    assert (together.steps, together.left_out) == (single.steps, single.left_out)
    assert together.model.plain_ns == pytest.approx(single.model.plain_ns)
    assert together.extra_ns == pytest.approx(single.extra_ns, rel=0.1)
    assert together.model.cost_ns == pytest.approx(single.model.cost_ns, rel=0.02)


def test_while_the_writer_is_behind_no_step_that_costs_much_is_observed() -> None:
    stepping = StepSampling(2.0, share=0.65, unnoticed_ns=100e6)
    assert stepping.wants(behind=True)  # The first step is always observed.
    stepping.step_ended(StepCost(50_000 * US, 30_000 * US))
    assert not stepping.wants(behind=True)
    assert stepping.wants(behind=False)
    far = StepSampling(1000.0)
    far.step_ended(StepCost(50_000 * US, 30_000 * US))
    assert far.wants(behind=True)


def test_an_unnoticeable_overhead_leaves_out_no_steps() -> None:
    stepping = StepSampling(2.0, share=0.65, unnoticed_ns=100e6)
    seen = []
    for step in range(1, 201):
        if stepping.wants():
            seen.append(step)
            stepping.step_ended(StepCost(4000 * US, 3000 * US, fresh=20 if step == 1 else 0))
        else:
            stepping.step_ended(StepCost(1000 * US), left_out=1)
    # 100 ms at 3 ms per step, less the cost of defining 20 nodes, is 32 steps; then the limit
    # applies.
    assert seen[:32] == list(range(1, 33))
    assert len(seen) < 80
    assert stepping.slowdown < 2


def calls(limit: float, *, plain: float, cost: float, number: int, steps: int = 40) -> StepSampling:
    """A program whose steps cost nothing, followed by a number of calls."""
    stepping = StepSampling(limit)
    for _ in range(steps):
        if stepping.wants():
            stepping.step_ended(StepCost(1000 * US))
        else:
            stepping.step_ended(StepCost(1000 * US), left_out=1)
    for _ in range(number):
        if stepping.wants_call():
            stepping.call_ended(StepCost(plain + cost, cost), left_out=False)
        else:
            stepping.call_ended(StepCost(plain), left_out=True)
    return stepping


def test_calls_after_the_steps_keep_to_the_limit() -> None:
    stepping = calls(2.0, plain=1000 * US, cost=20_000 * US, number=500)
    assert stepping.calls == 500
    assert 2 <= stepping.calls - stepping.calls_left_out < 30
    assert stepping.slowdown < 2


def test_calls_that_cost_little_are_all_observed() -> None:
    assert calls(2.0, plain=1000 * US, cost=100 * US, number=500).calls_left_out == 0


def test_the_first_calls_are_observed_whatever_they_cost() -> None:
    assert calls(1.1, plain=1000 * US, cost=900_000 * US, number=9).calls_left_out == 7


def test_after_more_steps_the_first_calls_are_observed_again() -> None:
    stepping = calls(1.1, plain=1000 * US, cost=900_000 * US, number=9)
    assert not stepping.wants_call()
    stepping.step_ended(StepCost(1000 * US), left_out=1)
    assert stepping.wants_call()


@pytest.mark.parametrize(("limit", "times", "since"), [(1.3, 5, 220), (1.4, 6, 200)])
def test_steps_that_cost_more_at_the_end_do_not_count_for_the_whole_run(
    limit: float, times: int, since: int
) -> None:
    sampling, plain, total, program = StepSampling(limit), 8e6, 0.0, 0.0
    for step in range(276):
        program += plain
        if sampling.wants():
            hidden = 2e6 * (times if step >= since else 1)
            sampling.step_ended(StepCost(plain + 3e6 + hidden, 3e6, 1e6))
            total += plain + 3e6 + hidden
        else:
            sampling.step_ended(StepCost(plain), left_out=1)
            total += plain
    assert sampling.left_out > 100
    assert sampling.slowdown == pytest.approx(total / program, abs=0.12)


class Stepless:
    """A program without steps, in stretches of 20 ms of its own time, plus that of recording.

    Args:
        whole, times, counted: The cost of recording a stretch in this detail, in percent.
    """

    def __init__(self, limit: float, whole: float, times: float, counted: float) -> None:
        self.sampling = StepSampling(limit)
        self.costs = {"whole": whole, "times": times, "counted": counted}
        self.detail: Detail = "whole"
        self.seen: Counter[Detail] = Counter()
        self.wall = self.program = 0.0

    def run(self, stretches: int) -> Stepless:
        for _ in range(stretches):
            plain = 20_000 * US
            spent = plain * self.costs[self.detail] / 100
            self.program, self.wall = self.program + plain, self.wall + plain + spent
            self.seen[self.detail] += 1
            took = StepCost(plain + spent, spent / 2, spent / 2)
            self.sampling.outside(took, self.detail)
            self.detail = self.sampling.next_stretch(self.detail)
        return self

    @property
    def slowdown(self) -> float:
        return self.wall / self.program


@pytest.mark.parametrize("limit", [1.2, 1.5, 3.0])
@pytest.mark.parametrize("costs", [(300, 40, 10), (300, 120, 15), (30, 20, 1), (5000, 15, 5)])
def test_a_program_without_steps_keeps_to_the_limit_and_uses_it(
    limit: float, costs: tuple[float, float, float]
) -> None:
    program = Stepless(limit, *costs).run(3000)
    assert program.slowdown <= limit
    # Of a stretch that takes 51 times as long, the program is assumed to have had a larger part.
    within = 0.1 if costs[0] == 5000 else 1e-3
    assert program.sampling.slowdown == pytest.approx(program.slowdown, rel=within)
    used = (program.slowdown - 1) / (limit - 1)
    assert used > 0.7 or program.seen["whole"] == 3000
    assert program.seen["whole"]
    # Times are recorded rather than counts if the limit allows it.
    assert (program.seen["times"] > program.seen["counted"]) or (
        costs[1] >= 80 * (limit - 1) or program.seen["whole"] == 3000
    )


def test_a_stretch_of_a_program_within_its_limit_is_left_alone() -> None:
    assert Stepless(1.5, 39, 20, 5).run(500).seen == {"whole": 500}


def test_a_program_that_becomes_cheap_is_recorded_completely_again() -> None:
    program = Stepless(1.5, 300, 45, 10).run(500)
    program.costs = {"whole": 20, "times": 5, "counted": 1}
    before = program.seen["whole"]
    program.run(500)
    assert program.seen["whole"] - before > 450


def test_costs_that_are_assumed_too_high_leave_a_share_to_the_program() -> None:
    sampling = StepSampling(1.2)
    for _ in range(3):
        sampling.outside(StepCost(20_000 * US, 5_000 * US, 40_000 * US), "whole")
    # Making events takes 85 % of the 15 ms beside the recorder at most, which leaves 2.25 ms of 20.
    assert sampling.of_stretch("whole") == pytest.approx(20 / 2.25)
    assert sampling.slowdown == pytest.approx(20 / 2.25)


def test_a_limit_below_what_counting_takes_is_known() -> None:
    program = Stepless(1.5, 300, 200, 110).run(500)
    assert program.seen["whole"] < 3
    assert program.sampling.of_stretch("counted") == pytest.approx(2.1)


def test_while_the_writer_is_behind_no_stretch_is_recorded_whole() -> None:
    sampling = StepSampling(3.0)
    took = StepCost(20_000 * US, 1000 * US)
    sampling.outside(took, "whole")
    assert sampling.next_stretch("whole", behind=True) == "times"
    sampling.outside(took, "times")
    assert sampling.next_stretch("times", behind=False) == "whole"


def test_with_blocks_the_cost_of_single_events_is_forgotten() -> None:
    sampling = StepSampling(2.0)
    for _ in range(20):
        sampling.step_ended(StepCost(100e6, 80e6, 3_500.0 * 1000))
    before = sampling.model.cost_ns
    sampling.step_ended(StepCost(22e6, 1e6, 1_500.0 * 1000))
    assert before > 80e6
    assert sampling.model.cost_ns < 10e6
    sampling.step_ended(StepCost(100e6, 80e6, 3_500.0 * 1000))  # A step without blocks.
    assert sampling.model.cost_ns < 50e6
