"""Checks of running programs: correct ones have no hits; for faulty ones, the cause comes first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim
from nodescope.api import Run
from nodescope.cli.check_reports import words
from nodescope.debug.watch.births import births
from nodescope.debug.watch.check_verdicts import CheckReport
from nodescope.debug.watch.run_check import RunCheck
from nodescope.debug.watch.watch import parse_watches
from nodescope.record.recording import Recording
from tests.core.debug.watch.right_programs import RIGHT, bias_before_a_norm


def checked(program: Callable[[], object], path: Path, watches: str = "") -> CheckReport:
    run = Run(path, level="values")
    checking = RunCheck(
        run.bus, parse_watches(watches), recommended=not watches,
        seq_source=run.recorder.thread_seq,
    )  # fmt: skip
    run.start()
    try:
        program()
    finally:
        run.finish()
    with Recording.open(path) as recording:
        return checking.report(recording)


def hits(report: CheckReport) -> dict[str, str]:
    """Rules with hits, in order, each with the rule that explains it."""
    return {verdict.rule: verdict.cause for verdict in report.having("hit")}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("program", RIGHT, ids=lambda program: program.__name__)
def test_correct_programs_have_no_hits(program: Callable[[], None], tmp_path: Path) -> None:
    report = checked(program, tmp_path / "run.nscope")
    assert hits(report) == {}
    assert not report.vacuous
    assert report.having("failed") == []


def test_a_gradient_that_cancels_is_neither_lost_nor_is_its_weight_frozen(tmp_path: Path) -> None:
    report = checked(bias_before_a_norm, tmp_path / "run.nscope")
    assert not {"gradient_lost", "weight_frozen"} & set(hits(report))


def carried_uphill() -> None:
    """A tensor carried from step to step, not a parameter, is moved in the wrong direction."""
    place, velocity = ns.tensor(np.ones(2), name="place"), ns.tensor(np.zeros(2), name="velocity")
    for _ in ns.steps(range(30)):
        _, slope = ns.value_and_grad(lambda place: np.sum(place**2))(place)
        velocity = 0.8 * velocity - 0.1 * slope
        place = place - velocity


def test_the_result_of_what_is_differentiated_is_a_loss(tmp_path: Path) -> None:
    assert "loss_diverging" in hits(checked(carried_uphill, tmp_path / "run.nscope"))


def nothing_passes() -> None:
    """A dead layer: no gradient, no change, a flat loss."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (64, 4))
    w = ns.parameter(rng.normal(0, 0.5, (4, 16)), name="hidden/w")
    bias = ns.parameter(np.full(16, -9.0), name="hidden/b")
    out = ns.parameter(rng.normal(0, 0.2, (16, 1)), name="out/w")
    optimizer = optim.SGD([w, bias, out], lr=0.1)
    for _ in ns.steps(range(21)):
        optimizer.zero_grad()
        loss = np.mean(np.square(nn.relu(ns.tensor(x) @ w + bias) @ out - x[:, :1]))
        loss.backward()
        optimizer.step()


def test_consequences_are_listed_beneath_their_cause(tmp_path: Path) -> None:
    report = checked(nothing_passes, tmp_path / "run.nscope")
    assert hits(report) == {
        "dead_layer": "", "gradient_lost": "dead_layer", "loss_flat": "dead_layer",
    }  # fmt: skip
    lines = words(report).splitlines()
    assert "1 with hits" in lines[0]
    assert lines[1].startswith("HIT  dead_layer: 17 hits")
    assert "relu in step 5" in lines[2]
    assert "(17 times, last in step 21)" in lines[2]
    assert [line.split()[2] for line in lines if line.strip().startswith("from it:")] == [
        "gradient_lost:", "loss_flat:",
    ]  # fmt: skip


def overflow_after_a_mask() -> None:
    """In step 1 a NaN is removed again; in step 3 another one reaches the loss."""
    w = ns.parameter(np.array([[1.0, 2.0]]), name="w")
    optimizer = optim.SGD([w], lr=0.1)
    with np.errstate(all="ignore"):
        for step in ns.steps(range(5)):
            optimizer.zero_grad()
            with ns.name_scope("healed"):
                freq = ns.tensor(np.array([0.0, 1.0]))
                entropy = np.sum(np.where(freq > 0, freq * np.log(freq), 0.0))
            with ns.name_scope("fatal"):
                root = np.sqrt(w - (9.0 if step == 2 else 0.0))
            loss = np.mean(np.square(root)) + entropy
            loss.backward()
            optimizer.step()


def test_births_are_ordered_by_what_they_reach(tmp_path: Path) -> None:
    report = checked(overflow_after_a_mask, tmp_path / "run.nscope")
    (first, *_) = report.verdicts
    assert [hit.node for hit in first.found] == ["fatal/sqrt"]
    assert "sqrt produces 2 NaN in 2 elements" in first.found[0].text
    assert first.note == ("NaN or Inf of healed/log reached no weight, loss or result: not counted")
    assert set(hits(report).values()) == {"", "operator_overflow"}
    assert next(iter(hits(report))) == "operator_overflow"
    with Recording.open(tmp_path / "run.nscope") as recording:
        reached = {(birth.node.name, birth.step): birth.reached for birth in births(recording)}
    assert reached["healed/log", 1] == ""
    assert reached["fatal/sqrt", 3] == "weight"


def fully_masked() -> None:
    """Every element of a row is masked: softmax returns NaN, although the Inf is intended."""
    with np.errstate(all="ignore"):
        for _ in ns.steps(range(2)):
            scores = np.where(np.eye(3) > 1, ns.tensor(np.ones((3, 3))), -np.inf)
            nn.softmax(scores, axis=-1) + 1.0


def test_a_nan_of_a_deliberate_inf_is_a_birth(tmp_path: Path) -> None:
    report = checked(fully_masked, tmp_path / "run.nscope")
    assert [hit.node for hit in report.verdicts[0].found] == ["softmax"]


def test_chosen_watches_report_everything(tmp_path: Path) -> None:
    report = checked(overflow_after_a_mask, tmp_path / "run.nscope", "inf on op:log; nan")
    assert report.verdicts[0].rule == "inf"
    assert report.verdicts[0].hits == 5


def test_a_run_is_reported_the_same_each_time(tmp_path: Path) -> None:
    first, second = (checked(nothing_passes, tmp_path / f"{name}.nscope").verdicts for name in "ab")
    assert first == second


def several_updates_a_step() -> None:
    """0/0 in one part of the data, in steps that update the weight three times."""
    w = ns.parameter(np.ones(2), name="w")
    optimizer = optim.SGD([w], lr=0.1)
    gaps = np.array([[1.0, np.nan], [2.0, 3.0]])
    for _ in ns.steps(range(4)):
        for size in (4.0, 0.0, 2.0):
            given = ns.tensor(gaps, name="given")
            filled = np.where(np.isnan(given), 0.0, given)
            share = ns.tensor(size, name="size") / ns.tensor(size, name="whole")
            optimizer.minimize(share * np.sum((filled @ w) ** 2))


def test_a_birth_reaches_a_weight_by_any_update_of_its_step(tmp_path: Path) -> None:
    with np.errstate(all="ignore"):
        report = checked(several_updates_a_step, tmp_path / "run.nscope")
    (first, *others) = report.having("hit")
    assert first.rule == "operator_overflow"
    assert first.found[0].text.startswith("divide_1 in step 1 ")
    assert all(hit.node.startswith("divide") for hit in first.found)
    assert {verdict.cause for verdict in others} == {first.watch}
