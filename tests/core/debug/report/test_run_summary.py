"""The summary of a run: outcome, losses, costs, troubles, what was kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.report.run_summary import last_words, summarise_run
from nodescope.record.overview import glance, outcome_of
from nodescope.record.recording import Recording


def train(path: Path, *, fail: bool = False) -> None:
    w = ns.parameter(np.array([4.0, 3.0]), name="w")
    with ns.record(path, "values"), np.errstate(all="ignore"):
        for _ in ns.steps(range(6)):
            with ns.name_scope("loss"):
                loss = np.mean(np.log(w))
            loss.backward()
            with ns.no_grad():
                ns.assign(w, w - 1.0)
        if fail:
            raise ValueError("the data is empty")


def test_the_summary_of_a_run(tmp_path: Path) -> None:
    train(tmp_path / "run.nscope")
    with Recording.open(tmp_path / "run.nscope") as recording:
        summary = summarise_run(recording)
        words = last_words(recording)
    assert (summary.outcome, summary.steps, summary.advice) == ("finished", 6, None)
    assert 0 < summary.operations_ns <= summary.time.ran_ns
    (curve,) = summary.curves
    assert curve.name == "loss/mean"
    assert [point.step for point in curve.points] == [1, 2, 3, 4, 5, 6]
    assert curve.points[-1].value is None
    assert curve.first == pytest.approx(np.log([4.0, 3.0]).mean())
    assert (curve.broken, curve.total) == (3, 6)
    # log(0) in step 4 precedes log(-1) in step 5.
    assert [(trouble.kind, trouble.name, trouble.step) for trouble in summary.troubles] == [
        ("inf", "loss/log", 4), ("nan", "loss/log", 5),
    ]  # fmt: skip
    assert {slow_scope.name for slow_scope in summary.slow_scopes} >= {"loss", "backward/loss"}
    with Recording.open(tmp_path / "run.nscope") as recording:
        leaves = [row.node for row in recording.nodes() if row.node.is_leaf]
        ran = {cost.node: cost.times for cost in recording.costs()}
    held = {leaf.name for leaf in leaves}
    assert held
    # Leaves do not count as operations: neither as nodes that ran nor as executions.
    assert summary.operations == sum(ran.values()) - sum(ran.get(leaf.id, 0) for leaf in leaves)
    assert not held & {slow_node.name for slow_node in summary.slow_nodes}
    totals = [slow_node.total_ns for slow_node in summary.slow_nodes]
    assert totals == sorted(totals, reverse=True)
    kept = summary.kept
    assert kept.ranges == ((1, 6),)
    assert kept.arrays > 0
    assert words.endswith(
        "finished, 6 steps, loss/mean is Inf since step 4, first Inf in loss/log (step 4)"
    )


@pytest.mark.parametrize("parts", [1, 2])
def test_the_operand_of_a_mean_loss_is_not_another_loss(tmp_path: Path, parts: int) -> None:
    w = ns.parameter(np.array([0.5, -0.5]), name="w")
    with ns.record(tmp_path / "run.nscope"):
        for target in ns.steps([1.0, 0.0]):
            loss = ns.nn.binary_cross_entropy_with_logits(w, ns.tensor(np.full(2, target)))
            if parts == 2:
                loss = loss + ns.nn.mse_loss(w, ns.tensor(np.zeros(2)))
            loss.backward()
    with Recording.open(tmp_path / "run.nscope") as recording:
        names = [curve.name for curve in summarise_run(recording).curves]
    assert names == (["mean"] if parts == 1 else ["add", "bce_with_logits", "mse"])


def test_a_run_that_failed(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    with pytest.raises(ValueError, match="empty"):
        train(path, fail=True)
    with Recording.open(path) as recording:
        summary = summarise_run(recording)
        words = last_words(recording)
    assert (summary.outcome, summary.error) == ("failed", "ValueError: the data is empty")
    assert " failed, 6 steps, loss/mean is Inf since step 4, " in words
    assert words.endswith(": ValueError: the data is empty")
    seen = glance(path)
    assert (seen.outcome, seen.steps, seen.error) == ("failed", 6, "ValueError: the data is empty")


@pytest.mark.parametrize(
    ("status", "error", "outcome"),
    [
        (0, "", "finished"),
        (1, "ValueError: no", "failed"),
        (7, "SystemExit: 7", "failed"),
        (130, "KeyboardInterrupt", "interrupted"),
        (None, "", "killed"),
    ],
)
def test_how_runs_end(status: int | None, error: str, outcome: str) -> None:
    assert outcome_of(status, error) == outcome


def test_a_glance_at_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    train(path)
    path.write_bytes(path.read_bytes()[:9000])
    seen = glance(path)
    assert seen.outcome == "unreadable"
    assert "cut to 9,000" in seen.fault
    assert str(tmp_path) not in seen.fault
    assert glance(tmp_path / "none.nscope").outcome == "unreadable"


def test_a_single_slow_execution_is_named(tmp_path: Path) -> None:
    with ns.record(tmp_path / "run.nscope"):
        for step in ns.steps(range(8)):
            matrix = ns.tensor(np.ones((800, 800) if step == 5 else (2, 2)))
            with ns.name_scope("net"):
                matrix @ matrix
    with Recording.open(tmp_path / "run.nscope") as recording:
        (product,) = [cost for cost in summarise_run(recording).slow_nodes if "net" in cost.name]
    assert product.times == 8
    assert product.total_ns / 2 < product.odd_ns < product.total_ns
    assert product.odd_step == 6
