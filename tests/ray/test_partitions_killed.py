"""A partitioned run whose worker, Ray's daemon, program, or server is killed at a random moment.

As for tasks (``test_faults.py``), nothing hangs, one line says what happened, and the recording is
complete up to that moment. ``make test-ray`` kills each once, ``--depth deep`` 48 times in all.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from nodescope.errors import RecordingError
from nodescope.record.overview import glance
from nodescope.record.recording import Recording
from tests import depth
from tests.e2e.conftest import ROOT, Debuggee
from tests.ray.killing import LIMIT_S, READY_MS, end_of, ended, number, reached, server_of

Start = Callable[..., Debuggee]
PROGRAM = ROOT / "tests" / "ray" / "partitions_program.py"
ROUNDS, MANY = 20, 2000
"""The rounds of a program that runs to its end, and of one that is killed long before."""
SEEDS = depth.some(range(12), 12)


def started(start: Start, recording: Path, seed: int) -> Debuggee:
    """Start the program, and wait for a random number of steps, some of which are on disk."""
    program = start(
        "run", "--no-browser", "--no-stop-on-entry", "--exit", "--record", recording,
        "--level", "summary", PROGRAM, MANY,
    )  # fmt: skip
    program.expect(r"^driver \d+")
    program.expect(rf"^reached {random.Random(seed).randint(1, ROUNDS)}\b")
    until = time.monotonic() + LIMIT_S
    while not results(recording):
        assert time.monotonic() < until
    return program


def results(path: Path) -> list[float]:
    """The results of a recording's steps, in order."""
    sums: list[float] = []
    try:
        opened = Recording.open(path)
    except RecordingError:  # Nothing is written yet.
        return sums
    with opened as run:
        total = next((row.node for row in run.nodes() if row.node.op == "sum"), None)
        if total is None:
            return sums
        for row in run.executions(node=total.id):
            if run.failure(row.seq) is None:
                result = run.latest_at(total.outputs[0], row.seq)
                assert result is not None
                assert result.summary is not None
                assert result.summary.mean is not None
                sums.append(result.summary.mean)
        return sums


def complete(path: Path, program: Debuggee) -> None:
    """Check that every result that the program has printed is recorded."""
    printed = [float(line.split()[1]) for line in program.lines if line.startswith("result ")]
    assert len(printed) >= reached(program) > 0
    recorded = results(path)
    assert len(recorded) >= len(printed)
    assert recorded == pytest.approx(printed[:1] * len(recorded))


def killed(process: int, path: Path, program: Debuggee) -> int:
    """Kill a process, and check that steps on disk are intact. Returns the program's status."""
    before = results(path)
    os.kill(process, signal.SIGKILL)
    status = ended(program)
    after = results(path)
    assert len(after) >= len(before) > 0
    assert after == pytest.approx(before[:1] * len(after))
    assert reached(program) < MANY
    return status


@pytest.mark.parametrize("seed", SEEDS)
def test_a_worker_is_killed(start: Start, tmp_path: Path, seed: int) -> None:
    recording = tmp_path / "run.nscope"
    program = started(start, recording, seed)
    worker = number(program, "worker")
    os.kill(worker, signal.SIGKILL)
    assert ended(program) != 0
    program.expect(rf"WorkerError: function: worker:1 \(pid {worker}\) died while it ran")
    program.expect("recorded in")
    complete(recording, program)
    with Recording.open(recording) as run:
        nodes = {row.node.id: row.node for row in run.nodes()}
        failed = {nodes[row.node].device for row in run.executions() if run.failure(row.seq)}
    assert failed == {"worker:1/cpu:0"}


@pytest.mark.parametrize("seed", SEEDS)
def test_rays_daemon_is_killed(start: Start, tmp_path: Path, seed: int) -> None:
    recording = tmp_path / "run.nscope"
    program = started(start, recording, seed)
    worker = number(program, "worker")
    status = killed(number(program, "raylet"), recording, program)
    assert status != 0
    if any("recorded in" in line for line in program.lines):
        complete(recording, program)
    # Ray ends a program that has values in the daemon's memory at once, mostly without a message.
    else:
        assert status == 1
        assert glance(recording).outcome == "killed"
    assert end_of(worker)


def test_the_page_says_that_the_program_has_ended(start: Start, page: Page, tmp_path: Path) -> None:
    """Ray ends the program; nodescope's server, a process of its own, stays.

    If Ray reports its daemon's death to the program before it ends it, the program stops where it
    failed, for as long as the page is open.
    """
    recording = tmp_path / "run.nscope"
    program = start(
        "run", "--no-browser", "--no-stop-on-entry", "--record", recording, "--level", "summary",
        PROGRAM, MANY,
    )  # fmt: skip
    page.goto(program.address)
    program.expect(r"^reached 2\b")
    os.kill(number(program, "raylet"), signal.SIGKILL)
    state = page.get_by_test_id("state")
    expect(state).to_contain_text(re.compile("Killed|Stopped by an error"), timeout=LIMIT_S * 1000)
    if "Stopped" in state.inner_text():
        page.keyboard.press("F5")
        expect(state).to_contain_text(re.compile("Failed|Killed"))
        assert glance(recording).outcome in ("failed", "killed")
        return
    assert ended(program) != 0
    expect(page.get_by_test_id("lost-run")).to_contain_text("can still be inspected")
    assert glance(recording).outcome == "killed"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_program_is_killed(start: Start, tmp_path: Path, seed: int) -> None:
    recording = tmp_path / "run.nscope"
    program = started(start, recording, seed)
    worker = number(program, "worker")
    killed(number(program, "driver"), recording, program)
    assert glance(recording).outcome == "killed"
    assert end_of(worker)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_server_is_killed_at_a_stop(
    start: Start, page: Page, tmp_path: Path, seed: int
) -> None:
    recording = tmp_path / "run.nscope"
    program = start(
        "run", "--no-browser", "--no-stop-on-entry", "--exit", "--record", recording,
        "--level", "summary", "--break",
        f"op:sum [hits == {random.Random(seed).randint(1, 5)}]", PROGRAM, ROUNDS,
    )  # fmt: skip
    page.goto(program.address)
    expect(page.get_by_test_id("state")).to_contain_text("Stopped", timeout=READY_MS)
    page.goto("about:blank")
    os.kill(server_of(program), signal.SIGKILL)
    assert ended(program) == 0
    assert reached(program) == ROUNDS
    complete(recording, program)
