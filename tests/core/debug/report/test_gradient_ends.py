"""Why a parameter is never trained: where its gradient ends."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim
from nodescope.debug.report.gradient_ends import gradient_end
from nodescope.record.recording import Recording


def _detach(h: Any) -> Any:
    return h.detach()


def _numpy(h: Any) -> Any:
    return ns.tensor(h.numpy() * 2)


def _whole(h: Any) -> Any:
    return (h * 8).astype(int).astype(float)


def _train(path: Path, cut: Callable[[Any], Any]) -> None:
    x = np.linspace(-1, 1, 12).reshape(6, 2)
    with ns.record(path, level="values"):
        below = ns.parameter(np.ones((2, 3)), name="below")
        above = ns.parameter(np.ones((3, 1)), name="above")
        optimizer = optim.SGD([below, above], lr=0.1)
        for _ in ns.steps(range(3)):
            h = np.tanh(ns.tensor(x) @ below)
            optimizer.minimize(nn.mse(cut(h) @ above, x[:, :1]))


@pytest.mark.parametrize(
    ("cut", "by"), [(_detach, "detach"), (_numpy, "numpy"), (_whole, "astype")]
)
def test_a_cut_is_reported_with_its_line(
    cut: Callable[[Any], Any], by: str, tmp_path: Path
) -> None:
    _train(tmp_path / "run.nscope", cut)
    line = inspect.getsourcelines(cut)[1] + 1
    with Recording.open(tmp_path / "run.nscope") as recording:
        nodes = [row.node for row in recording.nodes() if row.node.outputs]
        names = {node.name: node.outputs[0] for node in nodes}
        told = gradient_end(recording, names["below"])
        assert f"its gradient ends at {by} (test_gradient_ends.py:{line})" in told
        assert gradient_end(recording, names["above"]) == ""
        assert gradient_end(recording, names["tanh"]) == ""


def test_what_is_trained_has_no_end(tmp_path: Path) -> None:
    _train(tmp_path / "run.nscope", lambda h: h)
    with Recording.open(tmp_path / "run.nscope") as recording:
        values = [row.node.outputs[0] for row in recording.nodes() if row.node.outputs]
        assert {gradient_end(recording, value) for value in values} == {""}
