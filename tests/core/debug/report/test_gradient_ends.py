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
from nodescope.debug.replay.execution_index import ExecutionIndex
from nodescope.debug.report.gradient_ends import gradient_asked, gradient_end
from nodescope.debug.why.target import parse_target
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


def test_a_trained_parameter_has_no_gradient_end(tmp_path: Path) -> None:
    _train(tmp_path / "run.nscope", lambda h: h)
    with Recording.open(tmp_path / "run.nscope") as recording:
        values = [row.node.outputs[0] for row in recording.nodes() if row.node.outputs]
        assert {gradient_end(recording, value) for value in values} == {""}


def _explicit(h: Any) -> Any:
    with ns.no_grad():
        return h * 2


@pytest.mark.parametrize(
    ("cut", "by"),
    [(_detach, "detach"), (_numpy, "numpy"), (_whole, "astype"), (_explicit, "no_grad")],
)
@pytest.mark.parametrize("name", ["below", "tanh"])
def test_a_missing_gradient_is_explained_by_its_cut(
    cut: Callable[[Any], Any], by: str, name: str, tmp_path: Path
) -> None:
    _train(tmp_path / "run.nscope", cut)
    line = inspect.getsourcelines(cut)[1] + 1 + (cut is _explicit)
    with Recording.open(tmp_path / "run.nscope") as recording:
        lack = gradient_asked(ExecutionIndex(recording), parse_target(f"{name}.grad")).lack
        assert lack.startswith(f"{name} has no gradient: ")
        assert f"its gradient ends at {by} (test_gradient_ends.py:{line})" in lack


def test_a_gradient_is_found_by_the_name_of_its_value(tmp_path: Path) -> None:
    _train(tmp_path / "run.nscope", lambda h: h)
    with Recording.open(tmp_path / "run.nscope") as recording:
        book = ExecutionIndex(recording)
        target, *words = gradient_asked(book, parse_target("below.grad[0, 1]@2"))
        assert words == ["", ""]
        assert (target.index, target.step) == ((0, 1), 2)
        assert target.name.startswith("backward/")
        data = next(name for name in book.values.values() if name.startswith("tensor"))
        assert "computed from data alone" in gradient_asked(book, parse_target(f"{data}.grad")).lack
        unknown = parse_target("nothing.grad")
        assert gradient_asked(book, unknown) == (unknown, "", "")


def _rounded(h: Any) -> Any:
    return np.round(h) + h // 0.5


def test_a_zero_gradient_is_explained_by_a_step_function(tmp_path: Path) -> None:
    _train(tmp_path / "run.nscope", _rounded)
    line = inspect.getsourcelines(_rounded)[1] + 1
    with Recording.open(tmp_path / "run.nscope") as recording:
        book = ExecutionIndex(recording)
        places = {row.node.name: row.node.outputs[0] for row in recording.nodes()}
        words = f"is 0 at round (test_gradient_ends.py:{line}): round is a step function"
        assert words in gradient_end(recording, places["below"])
        assert words in gradient_asked(book, parse_target("below.grad")).flat
        assert words in gradient_asked(book, parse_target("tanh.grad")).flat
        assert not gradient_asked(book, parse_target("above.grad")).flat
        assert not gradient_end(recording, places["above"])
