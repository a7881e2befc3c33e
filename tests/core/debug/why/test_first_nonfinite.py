"""The origin of NaN or Inf: the same for the summary, the problems, ``why`` and lists of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.cli import main
from nodescope.cli.runs import outcome_word
from nodescope.debug.report.problems import Problems
from nodescope.debug.report.run_summary import last_words, summarise_run
from nodescope.debug.why import spread
from nodescope.debug.why.first_nonfinite import NonfiniteOrigin, nonfinite_origin
from nodescope.events import Loss, RunFinished, RunStarted, StepFinished, StepStarted, ValueEdited
from nodescope.record.overview import glance
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.core.record.runs import RUN, chain, finished


def overflowing() -> None:
    """An Inf in step 2, from which a NaN is computed."""
    w = ns.parameter(np.array([1.0, 2.0]), name="w")
    for step in ns.steps(range(4)):
        with ns.name_scope("loss"):
            grown = np.exp(w * (800.0 if step == 1 else 1.0))
            loss = np.mean(grown / grown)
        loss.backward()


def masked() -> None:
    """An intended Inf from step 1 on, and a NaN in step 3."""
    x = ns.parameter(np.array([1.0, 2.0]), name="x")
    for step in ns.steps(range(1, 5)):
        with ns.name_scope("mask"):
            np.where(ns.tensor([True, False]), 0.0, -np.inf)
        with ns.name_scope("loss"):
            np.mean(np.log(x * (-1.0 if step == 3 else 1.0))).backward()


def recorded(path: Path, program: Any) -> Recording:
    with np.errstate(all="ignore"), ns.record(path):
        program()
    return Recording.open(path)


def name_of(recording: Recording, node: int) -> str:
    return {row.node.id: row.node.name for row in recording.nodes()}[node]


@pytest.mark.parametrize(
    ("program", "kind", "name", "step"),
    [(overflowing, "inf", "loss/exp", 2), (masked, "nan", "loss/log", 3)],
)
def test_every_report_names_the_same_first_node(
    program: Any, kind: str, name: str, step: int, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "run.nscope"
    with recorded(path, program) as recording:
        origin = nonfinite_origin(recording)
        assert origin is not None
        assert (origin.kind, name_of(recording, origin.node), origin.step) == (kind, name, step)
        (first,) = [row for row in Problems(recording).rows() if row.first]
        assert name_of(recording, first.node) == name
        word = {"nan": "NaN", "inf": "Inf"}[kind]
        assert last_words(recording).endswith(f"first {word} in {name} (step {step})")
        trouble = summarise_run(recording).troubles[0]
        assert (trouble.kind, trouble.name, trouble.step) == (kind, name, step)
        assert spread(recording, step).births[0].node == name
    assert main(["why", str(path)]) == 0
    answer = capsys.readouterr().out
    assert answer.startswith(f"step {step}: ")
    assert f"\nfirst culprit: {name} " in answer


def test_a_finite_run_has_none(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    with recorded(path, lambda: ns.tensor([1.0]) + 1) as recording:
        assert nonfinite_origin(recording) is None
        assert summarise_run(recording).broken_loss is None
    assert outcome_word(glance(path)) == "finished"


def by_hand(path: Path, losses: dict[int, float], observed: set[int], bad: set[int]) -> None:
    """Five steps, of which some are observed; ``y`` is NaN in some of these."""
    graph = chain(["x", "y"])
    recorder = Recorder(path)
    recorder.emit(RunStarted(RUN, "train.py", ("train.py",), 7, 1_000))
    recorder.emit(graph)
    for step in range(1, 6):
        seen = step in observed
        recorder.emit(StepStarted(step, step, seen))
        if seen:
            recorder.emit(finished(graph.nodes[0], np.ones((2, 3)), step=step))
            number = np.nan if step in bad else 1.0
            recorder.emit(finished(graph.nodes[1], np.full((2, 3), number), step=step))
        loss = Loss(1, losses.get(step, 1.0), 1, 2 if seen else 0)
        recorder.emit(StepFinished(step, step, seen, (loss,)))
    recorder.emit(RunFinished(0, "", 9))
    assert recorder.close(20)


def test_a_loss_that_broke_unobserved_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.nscope"
    by_hand(path, {3: np.nan, 4: np.nan, 5: np.inf}, {1, 2}, set())
    with Recording.open(path) as recording:
        origin = nonfinite_origin(recording)
        assert origin == NonfiniteOrigin("nan", 0, 3, 0, unseen_step=3)
        assert "first NaN in step 3, which was not observed" in last_words(recording)
        summary = summarise_run(recording)
        (trouble,) = summary.troubles
        assert (trouble.node, trouble.step, trouble.text) == (0, 3, "this step was not observed")
        assert str(summary.broken_loss) == "NaN since step 3"
        assert Problems(recording).rows() == []
    assert outcome_word(glance(path)) == "finished, NaN since step 3"
    assert main(["why", str(path)]) == 0
    assert "first NaN in step 3, which was not observed; --max" in capsys.readouterr().out


def test_a_later_sighting_is_reported_as_later(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    by_hand(path, {3: np.nan, 4: np.nan}, {1, 2, 4, 5}, {4})
    with Recording.open(path) as recording:
        words = last_words(recording)
        assert words.endswith("first NaN in step 3, which was not observed; then in y (step 4)")
        assert summarise_run(recording).broken_loss is None  # The loss is finite again at the end.


def test_a_number_set_to_nan_by_hand_is_where_it_began(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    graph = chain(["x", "loss"])
    recorder = Recorder(path)
    recorder.emit(RunStarted(RUN, "train.py", ("train.py",), 7, 1_000))
    recorder.emit(graph)
    recorder.emit(StepStarted(1, 1))
    for node in graph.nodes:
        recorder.emit(finished(node, np.ones((2, 3)), step=1))
    recorder.emit(ValueEdited(2, np.array(np.nan), recorder.last_seq, 1, "loss = nan", 5))
    recorder.emit(StepFinished(1, 6))
    recorder.emit(RunFinished(0, "", 9))
    assert recorder.close(20)
    with Recording.open(path) as recording:
        (trouble,) = summarise_run(recording).troubles
        assert (trouble.kind, trouble.name, trouble.text) == ("nan", "loss", "set by hand")
        assert last_words(recording).endswith("first NaN set by hand in loss (step 1)")
        assert [row.first for row in Problems(recording).rows()] == [True]


def test_statistics_that_come_late_are_among_the_problems_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    by_hand(path, {}, {1, 2, 3, 4, 5}, {2})
    with Recording.open(path) as recording:
        problems = Problems(recording)
        # Read the recording as if nothing had been read before.
        problems._until = recording.last_seq()
        assert [row.first_step for row in problems.rows()] == [2]
