"""Two recordings of any runs: the first step and node that differ, and whether inputs agreed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.compare.result import judge
from nodescope.compare.verdict import Verdict
from nodescope.record.recording import Recording


def training(
    *, scale: float = 2.0, axis: int = 1, rate: float = 0.1, steps: int = 4, seed: int = 0,
    more: bool = False, fails: int = -1, late: float = 0.0,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    weight = ns.parameter(rng.standard_normal((4, 3)), np.float32, name="weight")
    descent = ns.optim.SGD([weight], rate)
    for step in ns.steps(range(steps)):
        x = ns.tensor(rng.standard_normal((8, 4)).astype(np.float32), name="x")
        descent.zero_grad()
        hidden = np.tanh(x @ weight) * scale
        if more:
            hidden = np.abs(hidden)
        loss = np.mean(np.max(hidden, axis=axis)) + (late if step == 2 else 0.0)
        loss.backward()
        descent.step()
        if step == fails:
            raise RuntimeError("no more data")


def judged(folder: Path, **changed: object) -> Verdict:
    paths = folder / "first.nscope", folder / "second.nscope"
    for path, options in zip(paths, ({}, changed), strict=True):
        try:
            with ns.record(path):
                training(**options)  # type: ignore[arg-type]
        except RuntimeError:
            assert "fails" in options
    with Recording.open(paths[0]) as first, Recording.open(paths[1]) as second:
        verdict, place = judge(first, second)
    assert place == ""
    return verdict


def test_the_same_twice_is_equal(tmp_path: Path) -> None:
    verdict = judged(tmp_path)
    assert verdict.outcome == "equal"
    assert verdict.text.startswith("No difference: the values of 4 steps (")


@pytest.mark.parametrize(
    ("changed", "step", "cause", "name", "words"),
    [
        ({"scale": 3.0}, 1, "program", "multiply", "has x2 = 3.0 instead of 2.0; its inputs agree"),
        ({"axis": 0}, 1, "program", "max", "has axis = 0 instead of 1; its inputs agree"),
        ({"rate": 0.2}, 1, "program", "optimizer/weight/multiply", "x2 = 0.2 instead of 0.1"),
        ({"more": True}, 1, "program", "abs", "only the second run executes abs"),
        ({"late": 1.0}, 3, "program", "add", "from step 3 on: add"),
        ({"seed": 1}, 1, "input", "x", "x (test_pair_verdict.py:24), which the program gives"),
    ],
    ids=str,
)
def test_an_edit_is_named(
    changed: dict[str, object], step: int, cause: str, name: str, words: str, tmp_path: Path
) -> None:
    verdict = judged(tmp_path, **changed)
    assert (verdict.outcome, verdict.step, verdict.cause) == ("differs", step, cause)
    assert verdict.name == name
    assert words in verdict.text
    assert verdict.text.startswith(f"The runs differ from step {step} on: ")


def test_a_shorter_run_agrees_until_it_ends(tmp_path: Path) -> None:
    verdict = judged(tmp_path, steps=3)
    assert (verdict.cause, verdict.steps) == ("end", 3)
    assert verdict.text.startswith(
        "The first run has 4 steps, the second run 3. Until then they do the same, for 3 steps ("
    )


def test_a_run_that_failed_agrees_until_then(tmp_path: Path) -> None:
    verdict = judged(tmp_path, fails=1)
    assert verdict.text.startswith("The second run failed: RuntimeError: no more data")
    assert "Until then they do the same, for 2 steps" in verdict.text
