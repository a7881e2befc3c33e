"""The recording of a check keeps weights and losses of every step, or says that it does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim
from nodescope.api import Run
from nodescope.cli.check_reports import words
from nodescope.debug.watch.run_check import RunCheck
from nodescope.record.recording import Recording

STEPS = 30
X = np.random.default_rng(0).standard_normal((64, 20))


@pytest.mark.parametrize(
    ("budget", "weights", "said"),
    [
        (8 << 20, STEPS, ""),
        (200_000, STEPS, ""),
        (20_000, STEPS // 2, "kept: weight is whole in "),
    ],
)
def test_weights_and_losses_are_whole_in_every_step(
    budget: int, weights: int, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.nscope"
    run = Run(path, level="values", budget_bytes=budget, waits=True)
    checking = RunCheck(
        run.bus, [], recommended=True, seq_source=run.recorder.thread_seq,
        keep_values=run.recorder.writer.keep_values,
    )  # fmt: skip
    run.start()
    weight = ns.parameter(np.zeros((20, 4)), name="weight")  # 640 bytes.
    optimizer = optim.SGD([weight], lr=0.01)
    for _ in ns.steps(range(STEPS)):
        optimizer.minimize(nn.mse(ns.tensor(X) @ weight, X[:, :4]))
    run.finish()
    with Recording.open(path) as recording:
        values = {row.node.op: row.node.outputs[0] for row in recording.nodes() if row.node.outputs}
        kept, ran = recording.kept_of([values["parameter"]])[0]
        assert ran >= STEPS
        assert kept >= weights if not said else 2 <= kept < weights
        losses, computed = recording.kept_of([values["mse"]])[0]
        # Without room, the first loss may be dropped before the backward pass identifies it as a
        # loss.
        assert computed == STEPS
        assert losses >= STEPS - bool(said)
        report = checking.report(recording)
    lines = [line for line in words(report).splitlines() if line.startswith("kept:")]
    assert len(lines) == bool(said)
    assert not said or lines[0].startswith(said)
