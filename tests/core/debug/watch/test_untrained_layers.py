"""Layers that no optimizer updates: which were forgotten, and which are frozen on purpose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.test_run_check import checked, hits

RNG = np.random.default_rng(12)
X = RNG.standard_normal((48, 6)).astype("f")
Y = (X[:, :1] - X[:, 1:2]).astype("f")


def _linear(inputs: int, outputs: int, bias: float = 0.0) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, rng=np.random.default_rng(inputs + outputs))
    if bias:
        layer.bias = ns.parameter(np.full(outputs, bias, "f"), name="bias")
    return layer


def _train(weights: list[Any], loss: Callable[[Any], Any], steps: int = 40) -> None:
    optimizer = optim.Adam(weights, lr=0.03)
    for _ in ns.steps(range(steps)):
        optimizer.zero_grad()
        loss(ns.tensor(X)).backward()
        optimizer.step()


def a_second_head_is_forgotten() -> None:
    body, price, days = _linear(6, 8), _linear(8, 1), _linear(8, 1)
    weights = [*body.parameters(), *price.parameters()]
    _train(weights, lambda x: nn.mse(price(h := np.tanh(body(x))), Y) + nn.mse(days(h), Y * 3), 12)


def the_only_head_is_forgotten() -> None:
    body, head = _linear(6, 8), _linear(8, 1)
    _train([*body.parameters()], lambda x: nn.mse(head(np.tanh(body(x))), Y), 12)


def a_probe() -> None:
    body, head = _linear(6, 32), _linear(32, 1)
    _train([*head.parameters()], lambda x: nn.mse(head(nn.relu(body(x))), Y), 40)


def a_decoder_that_was_trained_before() -> None:
    body, decoder = _linear(6, 8), _linear(8, 1, 0.3)
    _train([*body.parameters()], lambda x: nn.mse(decoder(np.tanh(body(x))), Y), 50)


def an_offset_through_a_network() -> None:
    net = nn.Sequential(_linear(6, 8), np.tanh, _linear(8, 1))
    offset = ns.parameter(np.zeros(6, "f"), name="offset")
    _train([offset], lambda x: nn.mse(net(x + offset), Y))


def low_rank_beside_a_layer() -> None:
    base = _linear(6, 1)
    down = ns.parameter(RNG.standard_normal((6, 2)).astype("f"), name="down")
    up = ns.parameter(np.zeros((2, 1), "f"), name="up")
    _train([down, up], lambda x: nn.mse(base(x) + x @ down @ up, Y), 50)


@pytest.mark.parametrize("program", [a_second_head_is_forgotten, the_only_head_is_forgotten])
def test_a_last_layer_that_was_never_trained_is_forgotten(
    program: Callable[[], None], tmp_path: Path
) -> None:
    report = checked(program, tmp_path / "run.nscope", "weight_frozen")
    assert list(hits(report)) == ["weight_frozen"]
    (verdict,) = report.having("hit")
    assert {hit.node for hit in verdict.found} <= {"weight", "bias", "weight_1", "bias_1",
                                                   "weight_2", "bias_2"}  # fmt: skip
    assert "it belongs to the last layer, which keeps its initial values" in verdict.found[0].text


@pytest.mark.parametrize(
    "program",
    [
        a_probe, a_decoder_that_was_trained_before, an_offset_through_a_network,
        low_rank_beside_a_layer,
    ],
)  # fmt: skip
def test_layers_frozen_on_purpose_are_not_reported(
    program: Callable[[], None], tmp_path: Path
) -> None:
    assert hits(checked(program, tmp_path / "run.nscope", "weight_frozen")) == {}


def a_test_after_training() -> None:
    model = _linear(6, 1)
    _train([*model.parameters()], lambda x: nn.mse(model(x), Y), 30)
    with ns.no_grad():
        nn.mse(model(ns.tensor(X[:7])), Y[:7]).item()


def test_a_loss_that_nothing_is_trained_by_does_not_need_more_steps(tmp_path: Path) -> None:
    report = checked(a_test_after_training, tmp_path / "run.nscope", "loss_diverging; loss_flat")
    assert [verdict.caveat for verdict in report.verdicts] == ["", ""]


def test_a_short_training_needs_more_steps(tmp_path: Path) -> None:
    def short() -> None:
        model = _linear(6, 1)
        _train([*model.parameters()], lambda x: nn.mse(model(x), Y), 2)

    report = checked(short, tmp_path / "run.nscope", "loss_diverging")
    assert "needs 4 steps, had 2" in report.verdicts[0].caveat


def _once(model: Any) -> None:
    with ns.no_grad():
        answers = model(ns.tensor(X)).numpy()
    assert len(answers) == len(X)


def _many_times(model: Any) -> None:
    with ns.no_grad():
        answers = [model(ns.tensor(X)).numpy() for _ in range(5)]
    assert len(answers) == 5


def _in_parts(model: Any) -> None:
    with ns.no_grad():
        answers = [model(ns.tensor(X[first : first + 16])).numpy() for first in range(0, 48, 16)]
    assert len(answers) == 3


@pytest.mark.parametrize(
    ("evaluate", "is_hit"), [(_once, True), (_many_times, False), (_in_parts, True)]
)
def test_many_draws_of_the_same_inputs_are_meant(
    evaluate: Callable[[Any], None], is_hit: bool, tmp_path: Path
) -> None:
    def program() -> None:
        model = nn.Sequential(nn.Dropout(0.5, rng=ns.random.Generator(0)), _linear(6, 1))
        _train([*model.parameters()], lambda x: nn.mse(model(x), Y), 8)
        evaluate(model)

    report = checked(program, tmp_path / "run.nscope", "dropout_in_evaluation")
    assert bool(hits(report)) == is_hit
