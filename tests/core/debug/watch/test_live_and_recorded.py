"""Watches on real programs: live and recorded hits are the same, and nothing is changed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import nodescope as ns
from nodescope import nn
from nodescope.api import Run
from nodescope.debug.watch import observation
from nodescope.debug.watch.offline import Asking
from nodescope.debug.watch.watch import Hit, Watch, parse_watch, parse_watches
from nodescope.debug.watch.watcher import Watcher
from nodescope.events import Bus, Demand, GraphExtended, HostSpan, NodeFinished
from nodescope.ir.graph import Node, TensorSpec, Value
from nodescope.record import captures
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.summary import summarise
from tests import depth
from tests.core.debug.watch import programs
from tests.core.debug.watch.programs import Train, Watched
from tests.core.debug.watch.test_conformance import TESTABLE, required

PROGRAMS = {
    item.__name__: item
    for item in (
        programs.healthy, programs.healthy_compiled, programs.dead_relu, programs.frozen_layer,
        programs.exploding_gradient, programs.nan_loss,
    )
}  # fmt: skip


def in_order(hits: list[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: (hit.seq, hit.watch, hit.value))


def everything() -> list[Watch]:
    """Every rule, with settings by which it has occasional hits."""
    watches = []
    for number, rule in enumerate(TESTABLE, 1):
        params = required(rule)
        for parameter in rule.parameters:
            if parameter.name in ("num_steps", "samples", "threshold_samples"):
                params[parameter.name] = int(max(2, parameter.low))
        if rule.name in ("within", "without"):
            params |= {"first_on": "glob:*weight", "second_on": "glob:backward/*", "steps": 1}
        watches.append(Watch(rule.name, number, params))
    return watches


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", depth.some(list(PROGRAMS), 2))
def test_live_and_recorded_say_the_same(name: str, tmp_path: Path) -> None:
    watched = Watched(PROGRAMS[name], tmp_path / "run.nscope", *everything())
    recorded, asking = watched.asked()
    assert watched.faults == []
    assert watched.live
    live = in_order(watched.live)
    # The recorder sums C-ordered copies, so sums may differ in their last digit.
    assert [msgspec.structs.replace(hit, actual={}) for hit in live] == [
        msgspec.structs.replace(hit, actual={}) for hit in in_order(recorded)
    ]
    for a, b in zip(live, in_order(recorded), strict=True):
        assert a.actual == pytest.approx(b.actual, rel=1e-12)
    assert [hit.seq for hit in recorded] == sorted(hit.seq for hit in recorded)
    # The outcomes are equal too: how often a rule was evaluated, was not, and why.
    assert watched.watcher.outcomes == asking.coverage().outcomes


@pytest.mark.one_in(3)
@pytest.mark.parametrize("train", PROGRAMS.values(), ids=PROGRAMS)
def test_watching_changes_no_result(train: Train, tmp_path: Path) -> None:
    plain = train()
    watched = Watched(train, tmp_path / "run.nscope", *everything())
    np.testing.assert_array_equal(plain, watched.result)


@pytest.mark.parametrize(
    ("train", "watch", "node", "step", "words"),
    [
        ("nan_loss", "operator_overflow", "loss/log", 3, "log produces 1 NaN in 2 elements, first "
         "at [1], from finite inputs in [-"),
        ("nan_loss", "loss_not_decreasing(num_steps=1)", "loss/add", 3, "it is NaN"),
        ("exploding_gradient", "gradient_exploding", "backward/", 1, "Inf"),
        ("dead_relu", "dead_relu", "relu", 1, "8 of 8 units are dead (100%, more than 50%)"),
        ("dead_relu", "gradient_vanishing(abs_mean_lt=1e-9) on scope:layer_0", "layer_0", 1,
         "gradient of layer_0"),
        ("frozen_layer", "weight_not_changed patience 3", "layer_0/weight", 4,
         "all 48 elements are unchanged since the previous step"),
        ("frozen_layer", "unchanged_tensor on layer_0/weight", "layer_0/weight", 3,
         "no element has changed in 3 steps"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found(
    train: str, watch: str, node: str, step: int, words: str, tmp_path: Path
) -> None:
    rule = parse_watch(watch)
    watched = Watched(PROGRAMS[train], tmp_path / "run.nscope", rule)
    with Recording.open(watched.path) as recording:
        first = Asking(recording, [rule]).first()
    assert first is not None
    assert first == in_order(watched.live)[0]
    assert node in first.node_name or node in first.text
    assert first.step == step
    assert words in first.text
    assert "programs.py:" in first.text  # The hit names the user's line.


@pytest.mark.parametrize("train", ["healthy", "healthy_compiled"])
def test_nothing_is_found_where_nothing_is_wrong(train: str, tmp_path: Path) -> None:
    specs = (
        "nan", "operator_overflow", "gradient_exploding", "weight_not_changed", "dead_relu",
        "gradient_vanishing(abs_mean_lt=1e-9)", "saturated_activation", "weight_initialization",
    )  # fmt: skip
    watched = Watched(PROGRAMS[train], tmp_path / "run.nscope", *map(parse_watch, specs))
    assert watched.live == []
    assert watched.asked()[0] == []
    looked = {item.watch.rule: item.looked for item in watched.watcher.outcomes}
    assert looked.pop("dead_relu") == 0  # The program has no rectifier.
    assert all(looked.values())


def test_what_was_not_recorded_is_reported_and_counted(tmp_path: Path) -> None:
    watches = [parse_watch("dead_relu"), parse_watch("nan"), parse_watch("weight_not_changed")]
    watched = Watched(programs.dead_relu, tmp_path / "run.nscope", *watches, level="summary")
    hits, asking = watched.asked()
    assert {hit.rule for hit in watched.live} >= {"dead_relu"}
    assert {hit.rule for hit in hits} == set()
    coverage = asking.coverage()
    dead, nan, unchanged = coverage.outcomes
    assert dict(dead.unasked) == {"the full array was not kept": programs.STEPS}
    assert dead.looked == programs.STEPS
    assert not nan.unasked
    # One more: a bias is written before the first step.
    assert unchanged.unasked["the full array was not kept"] == 4 * (programs.STEPS - 1) + 1
    lines = coverage.words()
    assert lines[0] == (
        "dead_relu: not evaluated 6 of 6 times: "
        "the full array was not kept (recorded at level summary)"
    )


def test_statistics_alone_decide_where_they_leave_no_doubt(tmp_path: Path) -> None:
    watch = parse_watch("gradient_vanishing(abs_mean_lt=1e-9)")
    watched = Watched(programs.dead_relu, tmp_path / "run.nscope", watch, level="summary")
    recorded, asking = watched.asked()
    places = [(hit.node, hit.step, hit.seq) for hit in in_order(recorded)]
    assert places == [(hit.node, hit.step, hit.seq) for hit in in_order(watched.live)]
    assert places
    assert not asking.coverage().outcomes[0].unasked


def test_no_rule_can_be_evaluated_on_times_alone(tmp_path: Path) -> None:
    watched = Watched(
        programs.nan_loss, tmp_path / "run.nscope", parse_watch("nan"), level="timing"
    )
    hits, asking = watched.asked()
    assert hits == []
    (status,) = asking.coverage().outcomes
    assert status.unasked.total() == status.looked > 0


def test_a_part_of_a_recording(tmp_path: Path) -> None:
    watched = Watched(programs.nan_loss, tmp_path / "run.nscope", parse_watch("nan"))
    whole, _ = watched.asked()
    middle = whole[len(whole) // 2].seq
    assert watched.asked(after=middle)[0] == [hit for hit in whole if hit.seq > middle]
    assert watched.asked(until=middle)[0] == [hit for hit in whole if hit.seq <= middle]
    none, asking = watched.asked(parse_watch("dead_relu"))
    assert none == []
    (line,) = asking.coverage().words()
    assert line == "dead_relu: no value in the recording matches it"


def test_the_first_hit_is_found_without_reading_on(tmp_path: Path) -> None:
    def without_steps() -> None:
        with np.errstate(all="ignore"):
            for x in (1.0, -1.0, 2.0, 3.0):
                np.log(ns.tensor([x])).sum()

    nan = parse_watch("nan")
    watched = Watched(without_steps, tmp_path / "run.nscope", nan)
    with Recording.open(watched.path) as recording:
        asking = Asking(recording, [nan])
        first = asking.first()
        assert first == watched.live[0]
        assert first.node_name == "log"
        (before,) = [item.looked for item in asking.coverage().outcomes]
        assert list(asking) == watched.live[1:]
        (after,) = [item.looked for item in asking.coverage().outcomes]
    assert before == 5
    assert after == 12


# ---------------------------------------------------------------- the watcher itself


class Counted(np.ndarray):
    """An array that counts how often it is read."""

    looks = 0

    def view(self, *args: Any, **kwargs: Any) -> Any:
        type(self).looks += 1
        return super().view(*args, **kwargs)


def test_what_no_watch_covers_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[Any] = []

    def counted(array: np.ndarray) -> Any:
        judged.append(array.shape)
        return summarise(array)

    for module in (captures, observation):
        monkeypatch.setattr(module, "summarise", counted)
    hits: list[Hit] = []
    log = Node(1, "log", "log", "elementwise", outputs=(1,))
    exp = Node(2, "exp", "exp", "elementwise", outputs=(2,))
    watcher = Watcher(
        [parse_watch("nan on op:log"), parse_watch("inf on op:log"), parse_watch("off TZ")],
        on_hit=hits.append,
    )
    watcher.emit(GraphExtended((log, exp), ()))
    array = np.ones(3).view(Counted)
    for node in (exp, log, exp):
        watcher.emit(NodeFinished(node, (), (array,), 1, 1, 0, 0))
    assert judged == [(3,)]  # Evaluated once for both watches.
    watcher.replace([parse_watch("nan on op:exp")])
    watcher.emit(NodeFinished(log, (), (array,), 1, 1, 0, 0))
    assert len(judged) == 1
    watcher.emit(NodeFinished(exp, (), (np.array([np.nan]),), 1, 1, 0, 0))
    assert len(judged) == 2
    assert [hit.node_name for hit in hits] == ["exp"]


def test_a_rule_that_fails_is_disabled_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    hits: list[Hit] = []
    faults: list[str] = []
    bus = Bus()
    watches = parse_watches('condition(condition="value > 1") -> log; max_gt(threshold=2)')
    watcher = Watcher(watches, on_hit=hits.append, on_fault=faults.append)
    bus.add(watcher)
    node = Node(1, "a", "add", "elementwise", outputs=(1,))
    bus.emit(GraphExtended((node,), ()))
    for _ in range(3):
        bus.emit(NodeFinished(node, (), (np.array([1.0, 3.0]),), 1, 1, 0, 0))
    (fault,) = faults
    assert fault.startswith(
        'watch condition(condition="value > 1") -> log was disabled: it failed on a in step 1: '
    )
    assert "yields 2 booleans (shape (2,)), not one" in fault
    assert [hit.rule for hit in hits] == ["max_gt"] * 3
    assert bus.probes == (watcher,)
    first, second = watcher.outcomes
    assert (first.looked, second.looked) == (1, 3)
    # A disabled watch is evaluated again once it is set again.
    watcher.replace(watcher.watches)
    bus.emit(NodeFinished(node, (), (np.array([3.0]),), 1, 1, 0, 0))
    assert [hit.rule for hit in hits[3:]] == ["condition", "max_gt"]


def test_a_watch_that_stays_keeps_its_state() -> None:
    hits: list[Hit] = []
    keep = parse_watch("nan patience 2")
    watcher = Watcher([keep], on_hit=hits.append)
    node = Node(1, "a", "add", "elementwise", outputs=(1,))
    watcher.emit(GraphExtended((node,), ()))
    bad = NodeFinished(node, (), (np.array([np.nan]),), 1, 1, 0, 0)
    watcher.emit(bad)
    watcher.replace([*watcher.watches, parse_watch("inf")])
    assert [watch.id for watch in watcher.watches] == [1, 2]
    watcher.emit(bad)
    assert [(hit.watch, hit.text.endswith("(2 times in a row)")) for hit in hits] == [(1, True)]


def test_held_values_are_bounded() -> None:
    hits: list[Hit] = []
    watch = parse_watch("weight_not_changed")
    node = Node(1, "w", "parameter", "leaf", outputs=(1,), role="parameter")
    array = np.ones(100)
    for room, expected in ((array.nbytes, 2), (array.nbytes - 1, 0)):
        hits.clear()
        watcher = Watcher([watch], on_hit=hits.append, hold_bytes=room)
        watcher.emit(GraphExtended((node,), ()))
        for step in (1, 2, 3):
            watcher.emit(NodeFinished(node, (), (array,), step, 1, 0, 0))
        assert len(hits) == expected
        (status,) = watcher.outcomes
        assert status.unasked.total() == 2 - expected


def test_gradients_in_conditions(tmp_path: Path) -> None:
    watch = parse_watch('condition(condition="norm(grad) > 0") on glob:*weight')
    watched = Watched(programs.healthy, tmp_path / "run.nscope", watch)
    # A weight is read before the step's gradient exists, so its gradient is the previous step's.
    assert {hit.step for hit in watched.live} == set(range(3, programs.STEPS + 1))
    assert in_order(watched.asked()[0]) == in_order(watched.live)


def test_a_run_is_compared_with_another(tmp_path: Path) -> None:
    first = Watched(programs.healthy, tmp_path / "first.nscope")
    spec = f'similar_across_runs(other_trial="{first.path}")'
    same = Watched(programs.healthy, tmp_path / "same.nscope", parse_watch(spec))
    assert same.live == []
    (status,) = same.watcher.outcomes
    assert status.looked > 100
    assert not status.unasked
    other = Watched(
        lambda: programs.train(programs.network(np.tanh), lr=0.06),
        tmp_path / "other.nscope",
        parse_watch(spec),
    )
    hits = in_order(other.live)
    assert "optimizer/layer_0" in hits[0].node_name or "multiply" in hits[0].node_name
    assert hits[0].step == 1
    assert "differ from the other run, first at [0, 0]" in hits[0].text
    assert other.asked()[0] == hits
    deeper = Watched(
        lambda: programs.train(programs.network(np.tanh, np.tanh)),
        tmp_path / "deeper.nscope",
        parse_watch(spec),
    )
    assert deeper.watcher.outcomes[0].unasked["the other run has no such node"]


def test_a_run_is_compared_with_one_that_lacks_steps(tmp_path: Path) -> None:
    def run(steps: range) -> Train:
        def train() -> None:
            for i in ns.steps(range(300)):
                if i in steps:
                    np.exp(ns.tensor([float(i)]) * 0.01)

        return train

    other = Watched(run(range(0, 300, 3)), tmp_path / "other.nscope").path
    watch = Watch("similar_across_runs", params={"other_trial": str(other)}, select="op:exp")
    watched = Watched(run(range(300)), tmp_path / "run.nscope", watch)
    (status,) = watched.watcher.outcomes
    assert watched.asked()[1].coverage().outcomes == (status,)
    # Both runs have every third step, beginning with step 1.
    assert dict(status.unasked) == {"the other run has no such step": 200}
    assert (status.looked, status.hits) == (300, 0)


def test_labels_that_the_loss_ignores_are_of_no_class(tmp_path: Path) -> None:
    labels = np.array([0, 1, 255, 255, 255, 255])
    scores = np.array([[5.0, 0], [0, 5], [0, 5], [0, 5], [0, 5], [0, 5]])

    def train() -> None:
        for _ in ns.steps(range(2)):
            nn.cross_entropy(ns.tensor(scores), ns.tensor(labels), ignore_index=255)

    watches = parse_watches("class_imbalance(samples=2, threshold_imbalance=2); confusion")
    watched = Watched(train, tmp_path / "run.nscope", *watches)
    assert watched.live == watched.asked()[0] == []
    assert all(item.looked and not item.unasked for item in watched.watcher.outcomes)


def test_labels_that_are_scores_are_not_taken_for_classes(tmp_path: Path) -> None:
    def train() -> None:
        for _ in ns.steps(range(2)):
            nn.cross_entropy(ns.tensor([[5.0, 0.0]]), ns.tensor([[0.0, 1.0]]))

    watched = Watched(train, tmp_path / "run.nscope", *parse_watches("confusion"))
    (status,) = watched.watcher.outcomes
    assert dict(status.unasked) == {"the labels are scores per class; set argmax=true": 2}
    watches = parse_watches("confusion(argmax=true)")
    assert [hit.step for hit in watched.asked(*watches)[0]] == [1, 2]


def test_rules_do_not_stop_tracing(tmp_path: Path) -> None:
    """A rule computes with NumPy while the program is traced; none of that is traced."""
    watched = Watched(programs.healthy, tmp_path / "run.nscope", *everything())
    alone = Watched(programs.healthy, tmp_path / "alone.nscope")
    with Recording.open(watched.path) as a, Recording.open(alone.path) as b:
        assert [row.node.name for row in a.nodes()] == [row.node.name for row in b.nodes()]


def test_kernels_that_cover_what_is_watched_are_opened(tmp_path: Path) -> None:
    watches = parse_watches("nan on op:log; dead_activations; max_gt(threshold=1)")
    watcher = Watcher(watches, on_hit=lambda hit: None)
    assert watcher.wants(Node(1, "log", "log", "elementwise", outputs=(1,)))
    assert watcher.wants(Node(2, "a/tanh", "tanh", "activation", outputs=(2,)))
    assert not watcher.wants(Node(3, "exp", "exp", "elementwise", outputs=(3,)))
    assert not watcher.wants(Node(4, "gone", "exp", "elementwise"))

    @ns.compile(backend="c")
    def fused(x: Any) -> Any:
        return np.mean(np.exp(np.log(x * 2) + 1))

    hits: list[Hit] = []
    run = Run(tmp_path / "run.nscope", level="values")
    watcher = Watcher(watches[:1], on_hit=hits.append, seq_source=run.recorder.thread_seq)
    run.bus.add(watcher)
    run.bus.want(watcher, Demand(opened=(watcher.wants,)))
    run.start()
    with np.errstate(all="ignore"):
        for _ in ns.steps(range(2)):
            fused(ns.tensor(np.linspace(-1, 1, 1000)))
    run.finish()
    assert [(hit.node_name, hit.step) for hit in hits] == [("log", 1), ("log", 2)]
    assert "500 NaN in 1000 elements, first at [0]" in hits[0].text


def test_threads_take_turns() -> None:
    hits: list[Hit] = []
    watcher = Watcher(parse_watches("nan; unchanged_tensor(num_steps=2)"), on_hit=hits.append)
    nodes = [Node(n, f"a{n}", "add", "elementwise", outputs=(n,)) for n in range(1, 5)]
    watcher.emit(GraphExtended(tuple(nodes), ()))
    bad = np.array([np.nan, 1.0])

    def run(node: Node) -> None:
        for step in range(1, 51):
            watcher.emit(NodeFinished(node, (), (bad,), step, node.id, 0, 0))

    threads = [threading.Thread(target=run, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(hits) == 200
    assert {item.looked for item in watcher.outcomes} == {200}
    assert len({hit.seq for hit in hits}) == 200


RULE = """
from nodescope.debug.watch.rule import (Finding, Rule, plain)

odd = Rule("odd_size", "a value has an odd number of elements",
           plain(lambda sight, settings: Finding("odd") if sight.size % 2 else None))
"""


def test_rules_of_other_packages_are_found(tmp_path: Path) -> None:
    (tmp_path / "odd_rules.py").write_text(RULE)
    about = tmp_path / "odd_rules-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: odd_rules\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[nodescope.watch]\nodd = odd_rules:odd\n")
    script = "from nodescope.debug.watch import get; print(get('odd_size').about)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "a value has an odd number of elements\n"


@pytest.mark.parametrize("held", [True, False])
def test_what_the_debugger_held_is_not_a_stall(held: bool, tmp_path: Path) -> None:
    hour = 3600 * 10**9
    bus = Bus()
    hits: list[Hit] = []
    watch = parse_watch("stalled_training(threshold=1s)")
    watcher = Watcher([watch], on_hit=hits.append, held_ns=lambda: bus.held_ns)
    path = tmp_path / "r.nscope"
    recorder = Recorder(path)
    bus.add(recorder)
    bus.add(watcher)
    loss = Node(1, "loss/mse", "mse", "loss", outputs=(1,), scope="loss")
    value = Value(1, TensorSpec((), "float64"), "loss")
    bus.emit(GraphExtended((loss,), (value,)))
    for start in (0, hour):
        bus.emit(NodeFinished(loss, (), (np.float64(1.0).reshape(()),), 1, 7, start, start + 5))
        if held and not start:
            bus.held_ns += hour - 10
            bus.emit(HostSpan("held", 7, 1, 5, hour - 5))
    assert recorder.close()
    assert len(hits) == (0 if held else 1)
    with Recording.open(path) as recording:
        assert len(list(Asking(recording, [watch]))) == len(hits)
