"""The courses of a step, made once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.record import step_courses
from nodescope.record.recording import Recording
from nodescope.record.step_courses import StepCourses


@pytest.fixture
def collections() -> Iterator[list[str]]:
    """Phases of garbage collections, which come as often as they can."""
    seen: list[str] = []

    def see(phase: str, _: object) -> None:
        seen.append(phase)

    thresholds = gc.get_threshold()
    gc.callbacks.append(see)
    gc.set_threshold(1)
    try:
        yield seen
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(see)


def test_no_garbage_is_collected_while_a_step_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collections: list[str]
) -> None:
    path = tmp_path / "r.nscope"
    with ns.record(path, level="timing"):
        for _ in ns.steps(range(1)):
            for _ in range(50):
                np.tanh(ns.tensor(np.ones(3, np.float32)))
    read = step_courses.step_runs
    during: list[int] = []

    def watched(recording: Recording, step: int) -> step_courses.StepRuns:
        before = len(collections)
        runs = read(recording, step)
        during.append(len(collections) - before)
        return runs

    monkeypatch.setattr(step_courses, "step_runs", watched)
    with Recording.open(path) as recording:
        courses = StepCourses()
        assert courses.paths(recording, 1).observed
        assert courses.memory(recording, 1).observed
        assert during == [0, 0]
        assert gc.isenabled()

        def broken(*_: object) -> step_courses.StepRuns:
            raise OSError

        monkeypatch.setattr(step_courses, "step_runs", broken)
        with pytest.raises(OSError):
            StepCourses().paths(recording, 1)
    assert gc.isenabled()
