"""The step of the first NaN is kept whole for any number of later steps."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.api import Run
from nodescope.debug.why import why
from nodescope.events import Array, Level, Loss, StepFinished, StepStarted
from nodescope.record.governor import governor
from nodescope.record.governor.step_sampling import StepSampling
from nodescope.record.newest.nonfinite_retention import FirstNonfinite, Span
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.writer import Writer
from tests.core.record.runs import chain, finished


def whole_steps(path: Path) -> set[int]:
    with Recording.open(path) as recording:
        return recording.steps_with_arrays()


def told(path: Path) -> tuple[int, ...]:
    with Recording.open(path) as recording:
        keeping = recording.keeping()
    assert keeping is not None
    return keeping.nonfinite_steps


def number(step: int, bad: dict[int, float]) -> Array:
    return np.full(100, bad.get(step, float(step)))


def emit_steps(
    recorder: Recorder, steps: range, bad: dict[int, float], losses: dict[int, float] | None = None
) -> None:
    graph = chain(["x", "y"])
    recorder.emit(graph)
    for step in steps:
        recorder.emit(StepStarted(step, step))
        recorder.emit(finished(graph.nodes[0], number(step, {}), step=step))
        recorder.emit(finished(graph.nodes[1], number(step, bad), step=step))
        loss = () if losses is None else (Loss(1, losses.get(step, 1.0)),)
        recorder.emit(StepFinished(step, step, True, loss))


def test_the_step_of_the_first_nan_and_the_one_before_are_kept() -> None:
    result = FirstNonfinite()
    for step in range(1, 6):
        result.step_began(10 * step, step)
        result.step_ended(10 * step + 9, broken=False)
    result.appeared("nan", 33)
    result.appeared("nan", 44)
    result.appeared("inf", 41)
    assert result.committed(59) == [Span(20, 40, 3), Span(30, 50, 4)]
    assert result.committed(60) == []
    assert (result.checked, result.needed_from) == (60, 50)


def test_a_step_that_runs_is_kept_when_it_is_over() -> None:
    result = FirstNonfinite()
    result.step_began(10, 1)
    result.step_ended(19, broken=False)
    result.step_began(20, 2)
    result.appeared("nan", 25)
    assert result.committed(27) == []
    assert result.needed_from == 10
    result.step_ended(29, broken=True)
    assert result.committed(28) == []  # The last values of the step are not committed yet.
    assert result.committed(29) == [Span(10, 30, 2)]


def test_outside_of_steps_all_that_is_held_is_kept() -> None:
    result = FirstNonfinite()
    result.appeared("inf", 4)
    assert result.committed(7) == [Span(0, 8, 0)]
    result.step_began(10, 1)
    result.step_ended(19, broken=False)
    result.appeared("nan", 22)
    assert result.committed(25) == [Span(10, 26, 0)]


@pytest.mark.parametrize("lagging", [False, True])
def test_the_first_nan_is_whole_at_the_end(lagging: bool, tmp_path: Path) -> None:
    reached, go = threading.Event(), threading.Event()

    def block(_: int) -> None:
        reached.set()
        assert go.wait(20)

    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="summary", newest=True, on_commit=block if lagging else None)
    if lagging:
        emit_steps(recorder, range(1, 2), {})
        assert reached.wait(20)
    emit_steps(recorder, range(2, 20), {5: np.nan, 9: np.nan})
    go.set()
    emit_steps(recorder, range(20, 60), {30: np.inf, 31: np.inf})
    assert recorder.close(20)
    assert not recorder.writer.fault
    assert whole_steps(path) == {4, 5, 29, 30, 58, 59}
    assert told(path) == (5, 30)
    assert recorder.newest is not None
    assert recorder.newest.held.made_room == 0


def test_finite_values_are_released(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.nscope", level="summary", newest=True)
    emit_steps(recorder, range(1, 60), {})
    Recorder.flush(recorder)
    emit_steps(recorder, range(60, 63), {})
    assert recorder.newest is not None
    assert recorder.newest.held._count <= 10
    assert recorder.close(20)


def test_without_statistics_the_loss_reveals_the_first_nan(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="timing", newest=True)
    emit_steps(recorder, range(1, 30), {7: np.nan}, dict.fromkeys(range(8, 30), np.nan))
    assert recorder.close(20)
    assert whole_steps(path) == {7, 8, 28, 29}


@pytest.mark.parametrize("level", ["summary", "values"])
def test_newer_values_never_push_the_first_nan_out(level: Level, tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level=level, newest=level == "summary", budget_bytes=64_000)
    for part in range(20):
        emit_steps(recorder, range(10 * part + 1, 10 * part + 11), {5: np.nan})
        assert recorder.flush(20)
    assert recorder.close(20)
    assert not recorder.writer.fault
    assert {4, 5, 199, 200} <= whole_steps(path)


def test_half_of_the_budget_is_protected_at_most(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "w.nscope", budget_bytes=1000)
    writer.begin()
    assert writer.arrays.add([(1, seq, np.full(10, float(seq))) for seq in range(1, 13)]) == 0
    writer.arrays.protect(2, 40)
    assert writer.arrays.add([(1, seq, np.full(10, float(seq))) for seq in range(13, 40)]) == 27
    # Drops the six unprotected arrays, then has no room itself.
    assert writer.arrays.add([(1, 40, np.zeros(100))]) == 7
    kept = writer._db.execute("SELECT seq FROM blob ORDER BY id").fetchall()
    assert [seq for (seq,) in kept] == [2, 3, 4, 5, 6, 7]
    assert writer._db.execute("SELECT count(*) FROM chunk").fetchone() == (6,)
    writer.abandon()


class _Rarely(StepSampling):
    """Observes every tenth step."""

    def wants(self, *, behind: bool = False) -> bool:
        return self.steps % 10 == 0

    def left_out_for_certain(self) -> int:
        return 0


def test_the_step_after_an_unobserved_nonfinite_loss_is_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(governor, "StepSampling", _Rarely)
    path = tmp_path / "r.nscope"
    observed = Run(
        path, level="summary", newest=True, max_slowdown=2.0, explicit=False, say=lambda _: None
    )
    observed.start()
    with np.errstate(all="ignore"):
        w = ns.parameter(np.array([1.0, 2.0]), name="w")
        optimizer = ns.optim.SGD([w], lr=0.1)
        for _ in ns.steps(range(60)):
            optimizer.zero_grad()
            with ns.name_scope("loss"):
                loss = np.mean(w + np.log(w - 0.5))
            loss.backward()
            optimizer.step()
    observed.finish()
    with Recording.open(path) as recording:
        broken = [row.step for row in recording.losses() if not np.isfinite(row.value)]
        seen = [row.step for row in recording.steps() if row.observed]
        first = broken[0]
        assert first not in seen
        assert first + 1 in seen
        assert first + 1 in recording.steps_with_arrays()
        answer = why(recording, "loss/mean[nan]", step=first + 1)
    assert (answer.culprit.kind, answer.culprit.op) == ("birth", "log")


def test_a_parameter_that_unobserved_steps_updated_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(governor, "StepSampling", _Rarely)
    path = tmp_path / "r.nscope"
    observed = Run(
        path, level="summary", newest=True, max_slowdown=2.0, explicit=False, say=lambda _: None
    )
    observed.start()
    w = ns.parameter(np.arange(20.0), name="w")
    optimizer = ns.optim.SGD([w], lr=0.1)
    for _ in ns.steps(range(25)):
        optimizer.zero_grad()
        np.mean(np.square(w)).backward()
        optimizer.step()
    observed.finish()
    with Recording.open(path) as recording:
        answer = why(recording, "w", step=21)
    assert answer.culprit.words.startswith("updated in steps that were not observed; ")
    assert answer.culprit.words.endswith(" gave it its last recorded value in step 11")
