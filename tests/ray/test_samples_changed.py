"""The samples stopped and edited, and the static form of a sample compared with its dynamic one."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from nodescope.compare.result import judge
from nodescope.compare.verdict import Verdict
from nodescope.record.recording import Recording
from tests.adapters.driving import debugged, recorded
from tests.e2e.conftest import ROOT
from tests.ray.observing import opened
from tests.ray.test_stops import set_value

SAMPLES = ROOT / "samples" / "ray"
Sample = Callable[..., Callable[[], Any]]


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sample]:
    """A sample's program, given its arguments."""

    def program(name: str, *args: str) -> Callable[[], Any]:
        def main() -> Any:
            monkeypatch.setattr(sys, "argv", [name, *args])
            try:
                return runpy.run_path(str(SAMPLES / name), run_name="sample")["main"]()
            finally:
                ray.shutdown()

        return main

    yield program
    ray.shutdown()


def test_the_search_goes_on_with_another_trial(sample: Sample, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    with debugged(
        path, sample("hyperparameter_search.py"), "op:better_half", level="values"
    ) as run:
        assert run.stop() is not None
        (kept,) = run.controller.outputs()
        dropped = next(at for at in range(6) if at not in list(kept.array))
        set_value(run, "better_half", dropped, "0")
        run.go_on()
        for _ in run.stops():
            pass
        run.end()
    observed = opened(path)
    trial = f"Trial_{dropped}" if dropped else "Trial"
    assert observed.edges("better_half_1")[0] == f"{trial}/train_1"
    (edit,) = observed.recording.edits()
    assert edit.how == f"better_half[0] set to {dropped}"


@pytest.mark.parametrize("name", ["data_parallel.py", "pipeline.py"])
def test_a_loss_that_is_edited_is_printed(
    sample: Sample, tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    """Of the tenth step; the weights do not depend on it."""
    alone = subprocess.run(
        [sys.executable, SAMPLES / name, "--alone", "--steps", "10"],
        capture_output=True, text=True, check=True, timeout=120,
    ).stdout.splitlines()  # fmt: skip
    program = sample(name, "--steps", "10")
    with debugged(tmp_path / "run.nscope", program, "op:divide if step == 10") as run:
        losses = [stop for stop in run.stops() if not stop.scope and _zeroed(run)]
        run.end()
    assert len(losses) == 1
    lines = [line for line in capfd.readouterr().out.splitlines() if line[:4] in ("step", "weig")]
    assert lines == ["step  10  loss 0.000000", alone[-1]]


def _zeroed(run: Any) -> bool:
    run.controller.edit("value = 0")
    return True


@pytest.mark.parametrize(("form", "op"), [("bound", "task1"), ("compiled", "Adder.add")])
def test_a_graph_that_is_bound_first_is_edited(
    sample: Sample, tmp_path: Path, capfd: pytest.CaptureFixture[str], form: str, op: str
) -> None:
    program = sample("bind_graph.py", "--form", form)
    with debugged(tmp_path / "run.nscope", program, f"op:{op}") as run:
        stop = run.stop()
        assert stop is not None
        assert stop.stack[0].file == str(SAMPLES / "bind_graph.py")
        run.controller.edit("value = 50")
        run.go_on()
        run.end()
    assert "result: 200" in capfd.readouterr().out


def judged(
    sample: Sample, folder: Path, first: tuple[str, ...], second: tuple[str, ...]
) -> Verdict:
    paths = folder / "first.nscope", folder / "second.nscope"
    for path, args in zip(paths, (first, second), strict=True):
        recorded(path, sample("bind_graph.py", "--form", *args), level="values")
    with Recording.open(paths[0]) as static, Recording.open(paths[1]) as dynamic:
        return judge(static, dynamic)[0]


@pytest.mark.parametrize(
    ("static", "dynamic", "executions"), [("bound", "submitted", 5), ("compiled", "called", 7)]
)
def test_the_static_graph_is_what_is_submitted(
    sample: Sample, tmp_path: Path, static: str, dynamic: str, executions: int
) -> None:
    verdict = judged(sample, tmp_path, (static,), (dynamic,))
    assert verdict.text == (
        f"No difference: the values of {executions} executions are the same in both runs."
    )


def test_where_the_static_graph_is_given_something_else(sample: Sample, tmp_path: Path) -> None:
    verdict = judged(sample, tmp_path, ("bound",), ("submitted", "--given", "5"))
    assert (verdict.outcome, verdict.cause, verdict.name) == ("differs", "input", "task1.a")
