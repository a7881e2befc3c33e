"""Modules, initial weights and optimizers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim
from nodescope.errors import ShapeError, UsageError

RNG = np.random.default_rng


class Block(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(2, 3, rng=RNG(0))
        self.rest = [nn.Linear(3, 3, rng=RNG(1), bias=False), nn.tanh]

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for item in self.rest:
            x = item(x)
        return x


def test_parameters_are_named_by_their_path() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.block = Block()
            self.twice = self.block.first

    names = [name for name, _ in Net().named_parameters()]
    assert names == ["block/first/weight", "block/first/bias", "block/rest_0/weight"]
    assert [parameter.name for parameter in Block().parameters()] == [
        "first/weight", "first/bias", "rest_0/weight",
    ]  # fmt: skip


def test_sequential_and_linear() -> None:
    network = nn.Sequential(Block(), nn.relu)
    assert network(np.ones((5, 2), np.float32)).shape == (5, 3)
    assert next(network.named_parameters())[0] == "layer_0/first/weight"
    with pytest.raises(ShapeError, match="must be positive"):
        nn.Linear(0, 3, rng=RNG(0))
    with pytest.raises(UsageError, match="Module defines no forward"):
        nn.Module()(1)


def test_initial_weights_have_the_right_spread() -> None:
    assert nn.he(RNG(0), 400, 300).std() == pytest.approx(math.sqrt(2 / 400), rel=0.02)
    assert nn.glorot(RNG(0), 400, 300).std() == pytest.approx(math.sqrt(2 / 700), rel=0.02)


def updated(make: Any, gradients: list[float]) -> float:
    x = ns.parameter(np.array([1.0]), name="x")
    optimizer = make([x])
    for gradient in gradients:
        optimizer.zero_grad()
        (x * gradient).sum().backward()
        optimizer.step()
    return float(x[0])


def test_updates_follow_their_formulas() -> None:
    assert updated(lambda p: optim.SGD(p, 0.1), [1.0, 2.0]) == pytest.approx(0.7)
    assert updated(lambda p: optim.SGD(p, 0.1, momentum=0.5), [1.0, 2.0]) == pytest.approx(0.65)
    assert updated(lambda p: optim.SGD(p, 0.1, weight_decay=0.5), [1.0]) == pytest.approx(0.85)
    # Adam's first step has the size lr, whatever the size of the gradient.
    assert updated(lambda p: optim.Adam(p, 0.1), [1e-3]) == pytest.approx(0.9, rel=1e-5)
    assert updated(lambda p: optim.AdamW(p, 0.1, weight_decay=0.5), [3.0]) == pytest.approx(0.85)


def test_optimizers_refuse_what_they_cannot_change() -> None:
    with pytest.raises(UsageError, match="Tensor is not a parameter"):
        optim.SGD([ns.tensor(1.0)])
    with pytest.raises(UsageError, match="lr must not be negative"):
        optim.SGD([], lr=-1)


def test_assign_makes_a_new_array() -> None:
    x = ns.parameter(np.ones(2), name="x")
    before = x.data
    ns.assign(x, [5, 6])
    assert x.tolist() == [5.0, 6.0]
    assert x.dtype == np.float64
    assert before.tolist() == [1.0, 1.0]
    with pytest.raises(ShapeError, match="cannot be assigned shape"):
        ns.assign(x, np.ones(3))
    with pytest.raises(UsageError, match="only parameters"):
        ns.assign(x * 2, np.ones(2))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("bce_with_logits", "nn.binary_cross_entropy_with_logits"),
        ("LayerNrm", "nn.LayerNorm"),
        ("crossentropy", "nn.cross_entropy"),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"nodescope.nn has no '{name}'; did you mean {meant}"):
        getattr(ns.nn, name)
    assert not hasattr(ns.nn, "__wrapped__")
