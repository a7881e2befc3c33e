"""What a training program needs besides layers: nested modules, saved optimizers, clipping."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim
from nodescope.errors import ShapeError, UsageError


class Nested(nn.Module):
    """Modules in a list of lists and in a dict."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.blocks = [[nn.Linear(2, 2, rng=rng), nn.tanh], [nn.Linear(2, 2, rng=rng), nn.relu]]
        self.heads = {"left": nn.Linear(2, 1, rng=rng), "right": nn.Linear(2, 1, rng=rng)}

    def forward(self, x: Any) -> Any:
        for linear, function in self.blocks:
            x = function(linear(x))
        return self.heads["left"](x) + self.heads["right"](x)


def test_modules_are_found_in_lists_of_lists_and_in_dicts() -> None:
    model = Nested(np.random.default_rng(0))
    names = [name for name, _ in model.named_parameters()]
    assert names == [
        f"{item}/{part}"
        for item in ("blocks_0_0", "blocks_1_0", "heads_left", "heads_right")
        for part in ("weight", "bias")
    ]
    assert model.heads["left"].weight.name == "heads_left/weight"
    np.sum(model(np.ones((1, 2), np.float32))).backward()
    assert all(parameter.grad is not None for parameter in model.heads["right"].parameters())
    assert not any(module.training for module in model.eval().modules())


def test_sequential_is_a_sequence() -> None:
    model = nn.Sequential(nn.Linear(2, 3, rng=np.random.default_rng(0)), nn.relu)
    first, second = model
    assert len(model) == 2
    assert first is model[0]
    assert second is model[-1] is nn.relu


def trained(model: nn.Module, optimizer: optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        np.sum(np.square(model(np.ones((1, 2), np.float32)) - 3)).backward()
        optimizer.step()


@pytest.mark.parametrize(
    "make",
    [
        lambda model: optim.SGD(model, lr=0.01),
        lambda model: optim.SGD(model, lr=0.01, momentum=0.9),
        lambda model: optim.AdamW(model, lr=0.01),
    ],
)
def test_training_continues_from_a_saved_state(make: Any) -> None:
    model = Nested(np.random.default_rng(0))
    optimizer = make(model)
    trained(model, optimizer, 3)
    file, weights = io.BytesIO(), model.state_dict()
    np.savez(file, **optimizer.state_dict())
    trained(model, optimizer, 3)

    file.seek(0)
    other = Nested(np.random.default_rng(1))
    other.load_state_dict(weights)
    resumed = make(other)
    resumed.load_state_dict(np.load(file))
    trained(other, resumed, 3)
    for name, value in model.state_dict().items():
        assert np.array_equal(other.state_dict()[name], value)


def test_an_optimizer_refuses_another_ones_state() -> None:
    model = Nested(np.random.default_rng(0))
    adam = optim.Adam(model)
    with pytest.raises(UsageError, match="blocks_0_0/weight/moment_1"):
        adam.load_state_dict(optim.SGD(model).state_dict())
    state = adam.state_dict()
    state["heads_left/bias/moment_2"] = np.zeros(3)
    with pytest.raises(ShapeError, match=r"heads_left/bias/moment_2 is \(1,\), not \(3,\)"):
        adam.load_state_dict(state)


def clipped(limit: float) -> tuple[Any, Any]:
    a, b = ns.parameter([3.0], name="a"), ns.parameter([[4.0]], name="b")
    unused = ns.parameter([1.0], name="unused")

    @ns.compile
    def step() -> Any:
        np.sum(np.square(a) / 2 + np.square(b) / 2).backward()
        return optim.clip_grad_norm([a, b, unused], limit)

    norm = step()
    assert unused.grad is None
    return norm.item(), [a.grad.item(), b.grad.item()]


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_clipping_scales_all_gradients_together(mode: Any) -> None:
    ns.set_mode(mode)
    try:
        norm, gradients = clipped(1.0)
        assert norm == 5.0
        assert np.allclose(gradients, [0.6, 0.8])
        assert clipped(10.0) == (5.0, [3.0, 4.0])
    finally:
        ns.set_mode("compiled")


def test_clipping_needs_gradients() -> None:
    with pytest.raises(UsageError, match="no parameter has a gradient"):
        optim.clip_grad_norm([ns.parameter([1.0], name="a")], 1.0)
