"""How long a run took: the program's own time, the same in every report."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope import api
from nodescope.cli.runs import runs
from nodescope.debug.report.run_summary import summarise_run
from nodescope.record.overview import glance
from nodescope.record.recording import Recording
from nodescope.record.run_time import run_time

SECOND = 1_000_000_000


def recorded(path: Path) -> None:
    """Record a run with 100 s before the program began, and 100 s after it ended."""
    run = api.Run(path, debugger=False)
    run.bus.origin_ns -= 100 * SECOND
    run.start()
    w = ns.parameter(np.ones(3), name="w")
    for _ in ns.steps(range(2)):
        np.mean(w).backward()
    np.mean(w)
    run.end()
    run.bus.origin_ns -= 100 * SECOND
    run.finish()


def test_neither_what_passes_before_nor_after_the_program_counts(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorded(path)
    with Recording.open(path) as recording:
        took = run_time(recording)
        summary = summarise_run(recording)
        executions = recording.executions()
    assert 0 < took.ran_ns < 50 * SECOND
    assert took.held_ns == 0
    assert all(0 <= execution.start_ns <= took.ran_ns for execution in executions)
    assert (summary.time, glance(path).ran_ns) == (took, took.ran_ns)
    assert summary.before_ns is not None
    assert summary.after_ns is not None
    assert summary.before_ns > 0
    assert 0 < summary.after_ns < took.ran_ns - summary.before_ns


def test_the_list_says_the_run_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    recorded(tmp_path / "r.nscope")
    assert runs(argparse.Namespace(all=False, number=20)) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert "RUN TIME" in head
    assert " min " not in row
