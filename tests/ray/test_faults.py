"""A worker, Ray's own daemon, the program, or nodescope's server killed at a random moment.

Whichever dies, nothing hangs, one line says what happened, and the recording is complete up to that
moment. `make test-ray` kills each twice, ``--depth deep`` 52 times in all.
"""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from nodescope.record.recording import Recording
from tests import depth
from tests.e2e.conftest import ROOT, Debuggee
from tests.ray.killing import READY_MS, end_of, ended, number, reached, server_of

Start = Callable[..., Debuggee]
PROGRAM = ROOT / "tests" / "ray" / "chain_program.py"
ROUNDS = 12
SEEDS = depth.some(range(13), 12)


def started(start: Start, recording: Path, seed: int, *options: str, retries: int = 0) -> Debuggee:
    """Start the program, and wait for a random number of its rounds."""
    program = start(
        "run", "--no-browser", "--no-stop-on-entry", "--exit", "--record", recording, *options,
        PROGRAM, ROUNDS, retries,
    )  # fmt: skip
    program.expect(r"^driver \d+")
    after = random.Random(seed).randint(1, ROUNDS - 2)
    program.expect(rf"^reached {after}\b")
    return program


class Story:
    """The contents of a recording.

    Attributes:
        failures: Why nodes failed, by name.
        links: The results of the chain's tasks, in the order of their ends.
    """

    def __init__(self, path: Path) -> None:
        with Recording.open(path) as opened:
            nodes = {row.node.id: row.node for row in opened.nodes()}
            self.failures: dict[str, str] = {}
            self.links: list[int] = []
            for row in opened.executions():
                node = nodes[row.node]
                if text := opened.failure(row.seq):
                    self.failures[node.name] = text
                elif node.op == "link":
                    result = opened.latest_at(node.outputs[0], row.seq)
                    assert result is not None
                    assert result.summary is not None
                    self.links.append(round(result.summary.mean or 0))


def complete(story: Story, program: Debuggee) -> None:
    """Check that every result that the program has printed is recorded."""
    program.expect("recorded in")
    assert story.links[: reached(program)] == list(range(1, reached(program) + 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_worker_is_killed(start: Start, tmp_path: Path, seed: int) -> None:
    recording = tmp_path / "run.nscope"
    program = started(start, recording, seed)
    os.kill(number(program, "worker"), signal.SIGKILL)
    ended(program)
    story = Story(recording)
    complete(story, program)
    # The kill may have hit an idle worker, or one that had only just been given its task.
    if reached(program) < ROUNDS:
        own = [text for text in story.failures.values() if not text.startswith("not run")]
        assert own, story.failures
        assert all(re.match("WorkerDied: its worker|WorkerCrashedError: ", text) for text in own)
        assert any("not run, because link" in text for text in story.failures.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_rays_daemon_is_killed(start: Start, tmp_path: Path, seed: int) -> None:
    recording = tmp_path / "run.nscope"
    program = started(start, recording, seed)
    os.kill(number(program, "raylet"), signal.SIGKILL)
    assert ended(program) != 0
    complete(Story(recording), program)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_program_is_killed(start: Start, tmp_path: Path, seed: int) -> None:
    recording = tmp_path / "run.nscope"
    program = started(start, recording, seed)
    worker = number(program, "worker")
    os.kill(number(program, "driver"), signal.SIGKILL)
    ended(program)
    story = Story(recording)
    assert story.links == list(range(1, len(story.links) + 1))
    # Half a second of records may not be on disk yet.
    assert len(story.links) >= reached(program) - 10
    assert end_of(worker)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_server_is_killed_while_a_task_is_stopped(
    start: Start, page: Page, tmp_path: Path, seed: int
) -> None:
    """The page is closed too: an open one would connect to the next server."""
    recording = tmp_path / "run.nscope"
    program = start(
        "run", "--no-browser", "--no-stop-on-entry", "--exit", "--record", recording,
        "--break", f"op:link [hits == {random.Random(seed).randint(1, 5)}]", PROGRAM, ROUNDS, 0,
    )  # fmt: skip
    page.goto(program.address)
    expect(page.get_by_test_id("state")).to_contain_text("Stopped", timeout=READY_MS)
    page.goto("about:blank")
    os.kill(server_of(program), signal.SIGKILL)
    assert ended(program) == 0
    complete(Story(recording), program)
    assert reached(program) == ROUNDS
