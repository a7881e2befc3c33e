"""Which values a watcher holds, and for how long."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.watch.observation import Sight
from nodescope.debug.watch.rule import Finding, Rule, plain
from nodescope.debug.watch.watch import Hit, Watch, parse_watch
from nodescope.debug.watch.watcher import Watcher
from nodescope.events import GradientComputed, GraphExtended, NodeFinished, StepFinished
from nodescope.ir.graph import Node
from tests.core.debug.watch.programs import Watched

WEIGHT = Node(1, "w", "parameter", "leaf", outputs=(1,), role="parameter")
VALUE = Node(2, "a", "add", "elementwise", (1,), outputs=(2,))
BACK = Node(3, "backward/a", "add", "elementwise", (2,), outputs=(3,), phase="backward")
OTHER = Node(4, "backward/b", "add", "elementwise", (2,), outputs=(4,), phase="backward")


class Play:
    """A watcher, and the events that it receives."""

    def __init__(self, *specs: str) -> None:
        self.hits: list[Hit] = []
        self.faults: list[str] = []
        self.watcher = Watcher(
            map(parse_watch, specs), on_hit=self.hits.append, on_fault=self.faults.append
        )
        self.watcher.emit(GraphExtended((WEIGHT, VALUE, BACK, OTHER), ()))

    def ran(self, node: Node, array: Any, step: int = 1) -> Play:
        outputs = (np.asarray(array),)
        self.watcher.emit(NodeFinished(node, (), outputs, step, 1, 0, 0))
        return self

    @property
    def steps(self) -> list[int]:
        return [hit.step for hit in self.hits]


def test_a_second_value_in_a_step_does_not_replace_the_previous_step() -> None:
    play = Play("weight_not_changed")
    play.ran(WEIGHT, [1.0]).ran(WEIGHT, [1.0])
    assert play.steps == []
    # The first step has no previous step to compare with.
    assert not play.watcher.outcomes[0].unasked
    play.ran(WEIGHT, [1.0], 2).ran(WEIGHT, [1.0], 2)
    assert play.steps == [2]
    assert play.watcher.outcomes[0].unasked == {
        "the full array of the previous step was not kept": 1
    }


def test_a_good_step_resets_patience() -> None:
    play = Play("nan patience 2")
    for step, good in enumerate([False, True, False, False, False, True], 1):
        play.ran(VALUE, [1.0 if good else np.nan], step)
    assert play.steps == [4, 5]


def test_each_value_has_its_own_patience() -> None:
    play = Play("nan patience 2")
    play.ran(VALUE, [np.nan]).ran(WEIGHT, [np.nan])
    assert play.steps == []


def test_a_value_without_gradient_in_its_first_step_is_not_checked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play = Play("gradient_exploding")
    bad = [np.nan]
    play.ran(BACK, bad).ran(OTHER, bad)
    assert play.hits == []
    play.watcher.emit(GradientComputed(1, 3))
    assert [(hit.node_name, hit.seq) for hit in play.hits] == [("backward/a", 1)]
    play.watcher.emit(StepFinished(1, 0))
    looked: list[str] = []
    monkeypatch.setattr(
        "nodescope.debug.watch.watcher.Live", lambda array: looked.append("array") or None
    )
    play.ran(OTHER, bad, 2)
    assert looked == []
    play.ran(BACK, bad, 2)
    assert looked == ["array"]


def test_a_gradient_that_comes_late_is_known_from_then_on() -> None:
    play = Play("gradient_exploding")
    play.ran(OTHER, [np.nan])
    play.watcher.emit(StepFinished(1, 0))
    play.watcher.emit(GradientComputed(1, 4))
    play.ran(OTHER, [np.nan], 2)
    assert play.steps == [2]
    assert "(gradient of w)" in play.hits[0].text


def test_what_the_program_writes_later_does_not_change_the_step_before() -> None:
    play = Play("weight_not_changed")
    array = np.ones(3)
    play.ran(WEIGHT, array, 1)
    array += 1
    play.ran(WEIGHT, array, 2)
    assert play.steps == []
    play.ran(WEIGHT, array, 3)
    assert play.steps == [3]


def test_memory_of_the_previous_step_is_released() -> None:
    array = np.ones(10)
    hits: list[Hit] = []
    watch = parse_watch("weight_not_changed")
    watcher = Watcher([watch], on_hit=hits.append, hold_bytes=array.nbytes)
    watcher.emit(GraphExtended((WEIGHT,), ()))
    for step in range(1, 6):
        watcher.emit(NodeFinished(WEIGHT, (), (array,), step, 1, 0, 0))
    assert [hit.step for hit in hits] == [2, 3, 4, 5]


def test_a_rule_that_writes_is_refused_and_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(sight: Sight, settings: Any) -> Finding | None:
        sight.array[0] = 7
        return None

    writes = Rule("writes", "it writes", plain(look))
    monkeypatch.setattr("nodescope.debug.watch.watch.get", lambda name: writes)
    faults: list[str] = []
    watcher = Watcher([Watch("writes")], on_hit=lambda hit: None, on_fault=faults.append)
    watcher.emit(GraphExtended((VALUE,), ()))
    array = np.ones(2)
    for step in (1, 2):
        watcher.emit(NodeFinished(VALUE, (), (array,), step, 1, 0, 0))
    assert array.tolist() == [1, 1]
    (fault,) = faults
    assert "assignment destination is read-only" in fault
    assert watcher.outcomes[0].looked == 1


def test_a_failed_node_is_not_evaluated(tmp_path: Path) -> None:
    def fails() -> None:
        for step in ns.steps(range(2)):
            x = ns.tensor(np.ones((2, 2)))
            try:
                x @ np.ones((2 if step == 0 else 3, 2))
            except ValueError:
                continue

    watched = Watched(fails, tmp_path / "run.nscope", parse_watch("max_gt(threshold=0) on matmul"))
    hits, asking = watched.asked()
    assert [hit.step for hit in hits] == [1]
    assert hits == watched.live
    assert asking.coverage().outcomes == watched.watcher.outcomes
    assert asking.coverage().outcomes[0].looked == 1


def test_ids_are_given_once() -> None:
    play = Play("nan", "inf")
    first, second = play.watcher.watches
    assert (first.id, second.id) == (1, 2)
    play.watcher.replace([second, parse_watch("TZ")])
    ids = [watch.id for watch in play.watcher.watches]
    assert ids[0] == 2
    assert ids[1] not in (1, 2)
    assert len(set(itertools.chain(ids))) == 2


def test_a_value_of_another_rule_is_not_reported_as_too_early() -> None:
    """A weight without a gradient, seen often: not ``needs 4 steps, had 3``."""
    play = Play("weight_frozen")
    for step in range(1, 9):
        play.ran(WEIGHT, [1.0], step)
    (outcome,) = play.watcher.outcomes
    assert play.steps == []
    assert outcome.shortcomings() == ["not evaluated: nothing shows whether it is to be trained"]


def test_the_distance_between_numbers_is_that_of_the_dtype(tmp_path: Path) -> None:
    def clock() -> None:
        now = ns.tensor(np.float32(4e7))
        for _ in ns.steps(range(8)):
            now = now + np.float32(0.5)

    watched = Watched(clock, tmp_path / "run.nscope")
    hits, _ = watched.asked(Watch("update_without_effect"))
    assert f"float32 numbers near 4e+07 are {np.spacing(np.float32(4e7)):g} apart" in hits[0].text


def test_a_dead_rectifier_is_found_however_it_is_written(tmp_path: Path) -> None:
    x = np.abs(np.random.default_rng(1).standard_normal((20, 3)))
    ways: list[Callable[[Any], Any]] = [
        lambda z: np.maximum(z, 0), lambda z: np.maximum(0.0, z),
        lambda z: np.where(z > 0, z, 0.0), lambda z: z * (z > 0),
    ]  # fmt: skip
    for number, way in enumerate(ways):
        for bias, expected_hits in ((-50.0, 1), (0.5, 0)):

            def program(way: Callable[[Any], Any] = way, bias: float = bias) -> None:
                w1 = ns.parameter(np.ones((3, 5)), name="w1")
                w2 = ns.parameter(np.ones((5, 1)), name="w2")
                optimizer = ns.optim.SGD([w1, w2], lr=0.001)
                for _ in ns.steps(range(7)):
                    optimizer.minimize(np.mean((way(ns.tensor(x) @ w1 + bias) @ w2 - 1) ** 2))

            watched = Watched(program, tmp_path / f"{number}{expected_hits}.nscope")
            hits, _ = watched.asked(Watch("dead_layer"))
            assert bool(hits) == bool(expected_hits), (number, bias)


def test_a_margin_that_is_kept_is_not_a_dead_layer(tmp_path: Path) -> None:
    def hinge() -> None:
        w = ns.parameter(np.full((3, 6), 9.0), name="w")
        for _ in ns.steps(range(9)):
            margins = np.maximum(0, 1 - ns.tensor(np.ones((20, 3))) @ w)
            (np.mean(margins) + 0.01 * np.sum(w * w)).backward()
            w.grad = None

    hits, _ = Watched(hinge, tmp_path / "run.nscope").asked(Watch("dead_layer"))
    assert hits == []
