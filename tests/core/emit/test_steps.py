"""Steps, without a library: when they begin and end, and when observation rests."""

from __future__ import annotations

import math

import pytest

from nodescope.emit import steps as steps_module
from nodescope.emit.steps import Steps
from nodescope.events import (
    Bus,
    Event,
    HostSpan,
    Logged,
    Loss,
    StepFinished,
    StepStarted,
    StepsUnobserved,
)
from nodescope.ir.demands import Demand
from nodescope.ir.identity import Identity


class Attachment:
    """Records the calls it receives."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def rest(self) -> None:
        self.told.append("rest")

    def wake(self) -> None:
        self.told.append("wake")

    def step_begins(self) -> None:
        self.told.append("begins")

    def steps_end(self) -> None:
        self.told.append("end")

    def forked(self) -> None:
        self.told.append("forked")


class EventLog:
    """A probe that keeps the step events it receives."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)

    @property
    def steps(self) -> list[tuple[str, int, bool]]:
        return [
            ("began" if isinstance(event, StepStarted) else "ended", event.step, event.observed)
            for event in self.events
            if isinstance(event, StepStarted | StepFinished)
        ]


def fresh() -> tuple[Steps, EventLog, Attachment]:
    bus, told, attachment = Bus(), EventLog(), Attachment()
    bus.add(told)
    steps = Steps(bus, Identity(lambda: 0))
    steps.attachments = (attachment,)
    return steps, told, attachment


def test_a_step_ends_where_the_next_begins() -> None:
    steps, told, _ = fresh()
    steps.end_step()  # No step is open.
    steps.begin_step()
    steps.begin_step()
    steps.end_step()
    steps.end_step()
    assert told.steps == [
        ("began", 1, True), ("ended", 1, True), ("began", 2, True), ("ended", 2, True)
    ]  # fmt: skip


def test_calls_are_counted_from_zero_in_each_observed_step() -> None:
    steps, _, _ = fresh()
    steps.bus.leaves_out = lambda step, _: step == 2
    epochs = []
    for _ in range(3):
        steps.begin_step()
        epochs.append(steps.epoch)
    assert epochs[0] is epochs[1]
    assert epochs[1] is not epochs[2]


def test_what_begins_a_step_that_is_left_out_is_its_first_call() -> None:
    steps, _, _ = fresh()
    steps.bus.leaves_out = lambda step, _: step > 1
    epochs = []
    for _ in range(3):
        steps.root_called()
        epochs.append(steps.epoch)
        steps.optimizer_stepped()
    assert len(set(map(id, epochs))) == 3


def test_an_unobserved_step_lets_the_library_rest_until_the_next() -> None:
    steps, told, attachment = fresh()
    steps.bus.leaves_out = lambda step, _: step == 2
    for _ in range(3):
        steps.begin_step()
    assert attachment.told == ["begins", "wake", "rest", "begins", "wake"]
    assert [observed for what, _, observed in told.steps if what == "began"] == [True, False, True]


def test_a_listener_hears_once_that_observation_rests() -> None:
    steps, _, _ = fresh()
    rests: list[bool] = []
    steps.on_rest = rests.append
    steps.bus.leaves_out = lambda step, _: step in (2, 3, 5)
    for _ in range(5):
        steps.begin_step()
    steps.end_of_steps()
    assert rests == [True, False, True, False]


def test_steps_that_are_surely_left_out_are_emitted_together() -> None:
    steps, told, _ = fresh()
    asked: list[int] = []

    def leaves_out(step: int, unit: str) -> int:
        asked.append(step)
        return 3 if step == 2 else 0

    steps.bus.leaves_out = leaves_out
    site = fresh.__code__, 0
    for step in range(1, 6):
        steps.begin_step()
        assert steps.step == step
        assert steps.observed == (step not in (2, 3, 4))
        steps.losses.note(site, float(step), 0)
        steps.end_step()
    assert asked == [1, 2, 5]
    kinds = [type(event) for event in told.events]
    pair = [StepStarted, StepFinished]
    assert kinds == [*pair, *pair, StepsUnobserved, *pair]
    [together] = [event for event in told.events if isinstance(event, StepsUnobserved)]
    apart = list(together.apart())
    assert [(type(part), part.step, part.observed) for part in apart] == [
        (StepStarted, 3, False), (StepFinished, 3, False),
        (StepStarted, 4, False), (StepFinished, 4, False),
    ]  # fmt: skip
    assert [part.time_ns for part in apart] == sorted(part.time_ns for part in apart)
    losses = [part.losses for part in apart if isinstance(part, StepFinished)]
    assert losses == [(Loss(1, 3.0, 1, 0),), (Loss(1, 4.0, 1, 0),)]


def test_what_happens_in_an_unobserved_step_is_emitted_after_its_start() -> None:
    steps, told, _ = fresh()
    steps.bus.leaves_out = lambda step, _: 9 if step == 1 else 0
    for _ in range(3):
        steps.begin_step()
        steps.end_step()
    steps.begin_step()
    steps.bus.emit(Logged("stdout", "hello", steps.step, steps.bus.now_ns()))
    steps.end_step()
    steps.begin_step()
    steps.end_of_steps(broken=True)
    order: list[tuple[str, int]] = []
    for event in told.events:
        parts = event.apart() if isinstance(event, StepsUnobserved) else [event]
        order += [(type(part).__name__, part.step) for part in parts]  # type: ignore[union-attr]
    began, ended = "StepStarted", "StepFinished"
    assert order == [
        (began, 1), (ended, 1), (began, 2), (ended, 2), (began, 3), (ended, 3),
        (began, 4), ("Logged", 4), (ended, 4), (began, 5),
    ]  # fmt: skip


def test_a_new_demand_or_a_broken_loss_ends_what_was_surely_left_out() -> None:
    for broken in (False, True):
        steps, _, _ = fresh()
        asked: list[int] = []

        def leaves_out(step: int, unit: str, asked: list[int] = asked) -> int:
            asked.append(step)
            return 9 if step == 1 else 0

        steps.bus.leaves_out = leaves_out
        for step in range(1, 4):
            steps.begin_step()
            if step == 2 and broken:
                steps.losses.note((fresh.__code__, 0), math.inf, 0)
            elif step == 2:
                steps.bus.want(steps, Demand(stops="a breakpoint"))
            steps.end_step()
        assert asked == [1, 3]
        assert steps.observed


def test_what_follows_unobserved_steps_is_observed() -> None:
    steps, _, attachment = fresh()
    asked: list[int] = []

    def leaves_out(step: int, unit: str) -> bool:
        asked.append(step)
        return True

    steps.bus.leaves_out = leaves_out
    steps.begin_step()
    assert steps.resting
    steps.end_of_steps(broken=True)
    assert asked == [1, -1]
    assert not steps.resting
    assert steps.observed
    assert attachment.told == ["rest", "wake", "end"]


def test_the_optimizer_ends_steps_that_calls_begin() -> None:
    steps, told, _ = fresh()
    for _ in range(2):
        steps.root_called()
        steps.root_called()  # A second model in the same step.
        steps.optimizer_stepped()
    assert [event[:2] for event in told.steps] == [
        ("began", 1), ("ended", 1), ("began", 2), ("ended", 2)
    ]  # fmt: skip


def test_where_the_program_marks_its_steps_the_library_does_not() -> None:
    steps, told, _ = fresh()
    steps.begin_step()
    steps.root_called()
    steps.optimizer_stepped()
    assert told.steps == [("began", 1, True)]


@pytest.mark.parametrize("least_ns", [0, 1 << 62])
def test_a_call_outside_of_steps_may_go_unobserved(
    least_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps_module, "LEAST_SPAN_NS", least_ns)
    steps, told, attachment = fresh()
    steps.begin_step()
    steps.end_step()
    asked: list[tuple[int, str]] = []

    def leaves_out(begins: int, unit: str) -> bool:
        asked.append((begins, unit))
        return True

    steps.bus.leaves_out = leaves_out
    assert steps.outermost_call(lambda: steps.outermost_call(lambda: steps.resting)) is True
    assert asked == [(1, "call"), (0, "call")]
    assert attachment.told[-2:] == ["rest", "wake"]
    kinds = [event.kind for event in told.events if isinstance(event, HostSpan)]
    assert kinds == ([] if least_ns else ["unobserved"])  # short ones are only counted
