"""The samples, run as a user runs them, and the first example edited on the page."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import ROOT, Debuggee
from tests.e2e.test_first_flow import by
from tests.ray.observing import Observed, opened

Start = Callable[..., Debuggee]
SAMPLES = ROOT / "samples" / "ray"


def recorded(start: Start, sample: str, path: Path) -> tuple[Debuggee, Observed]:
    program = start(
        "run", "--no-browser", "--no-stop-on-entry", "--exit", "--record", path, SAMPLES / sample
    )
    program.expect("recorded in")
    assert program.wait() == 0
    return program, opened(path)


def test_two_tasks(start: Start, tmp_path: Path) -> None:
    program, run = recorded(start, "two_tasks.py", tmp_path / "run.nscope")
    program.expect("^result: 20$")
    assert run.tasks == ["task1", "task2"]
    assert run.value("task2") == 20


@pytest.mark.timeout(300)
def test_the_search(start: Start, tmp_path: Path) -> None:
    program, run = recorded(start, "hyperparameter_search.py", tmp_path / "run.nscope")
    accuracy = float(program.expect(r"best trial: (\S+)").group(1))
    assert accuracy > 0.9
    assert sum(name.endswith("__init__") for name in run.tasks) == 6
    rounds = [name for name in run.tasks if name.startswith("better_half")]
    assert [len(run.edges(name)) for name in rounds] == [6, 3, 1]
    assert run.edges("Trial/train")[0] == "make_data"


@pytest.mark.timeout(300)
def test_twenty_becomes_what_the_edit_implies(start: Start, page: Page) -> None:
    program = start("run", "--no-browser", "--exit", SAMPLES / "two_tasks.py")
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    expect(by(page, "mode")).to_have_text("tasks")
    expect(by(page, "inspector-title")).to_contain_text("task1")
    page.keyboard.press("F11")
    expect(by(page, "inspector-reason")).to_contain_text("after")
    page.keyboard.press("e")
    by(page, "edit-number").fill("50")
    by(page, "edit-apply").click()
    expect(by(page, "edited")).to_contain_text("task1 set to 50")
    by(page, "continue").click()
    program.expect("^result: 200$")


@pytest.mark.parametrize("sample", ["data_parallel.py", "pipeline.py"])
def test_partitions_give_what_one_process_gives(start: Start, tmp_path: Path, sample: str) -> None:
    alone = subprocess.run(
        [sys.executable, SAMPLES / sample, "--alone", "--steps", "4"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    path = tmp_path / "run.nscope"
    program = start(
        "run", "--no-browser", "--no-stop-on-entry", "--exit", "--record", path, SAMPLES / sample,
        "--steps", "4",
    )  # fmt: skip
    program.expect(f"^{re.escape(alone.stdout.splitlines()[-1])}$", timeout_s=180)
    program.expect("recorded in")
    assert program.wait() == 0
    run = opened(path)
    devices = {node.device for node in run.nodes.values()}
    assert {"worker:0/cpu:0", "worker:1/cpu:0"} <= devices
    parts = {name.partition(" · ")[0] for name in run.recording.device_table.names().values()}
    assert parts == {"worker:0", "worker:1"}


def test_gradients_of_shards_are_averaged_to_those_of_the_batch() -> None:
    """Equal up to rounding, since sums are in another order."""
    losses = []
    for shards in ("1", "4"):
        ran = subprocess.run(
            [sys.executable, SAMPLES / "data_parallel.py", "--alone", "--shards", shards],
            capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        losses.append([float(line.split()[-1]) for line in ran.stdout.splitlines()])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
