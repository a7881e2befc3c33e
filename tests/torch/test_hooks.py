"""Hooks of the program: what they compute is seen, in the module whose hooks they are."""

from __future__ import annotations

import copy
import io
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.torch.observing import edges_of, nodes_of, observed
from tests.torch.taps import TAPS


class Net(nn.Module):
    """Two layers, with an activation between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.last = nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1)

    def forward(self, x: Any) -> Any:
        return self.last(self.act(self.first(x)))


def train(model: nn.Module) -> None:
    """Train a model for two steps on the same batch."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.randn(4, 3)
    for _ in range(2):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def forward_hooks() -> list[Any]:
    """Hooks that change what goes in and out, and one that only looks."""
    torch.manual_seed(0)
    model, norms = Net(), []
    model.first.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    model.first.register_forward_hook(lambda module, args, y: norms.append(y.detach().norm()))
    model.act.register_forward_hook(lambda module, args, y: y + 1)
    model.register_forward_hook(lambda module, args, y: y.sin())
    train(model)
    assert [len(module._forward_hooks) for module in model.modules()] == [1, 1, 1, 0]
    return [*(p.tolist() for p in model.parameters()), *map(float, norms)]


def backward_hooks() -> list[Any]:
    """Full backward hooks, before and after, and a tensor's."""
    torch.manual_seed(0)
    model, norms = Net(), []
    model.act.register_full_backward_hook(lambda module, given, got: (given[0] * 2,))
    model.first.register_full_backward_hook(lambda module, given, got: norms.append(got[0].norm()))
    model.last.register_full_backward_pre_hook(lambda module, got: (got[0].clamp(-1, 1),))
    model.last.weight.register_hook(lambda gradient: gradient * 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # PyTorch warns of inputs without gradients.
        train(model)
    return [*(p.tolist() for p in model.parameters()), *map(float, norms)]


@pytest.mark.parametrize("tap", TAPS)
def test_what_forward_hooks_compute_belongs_to_the_call_of_their_module(
    tap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    plain = forward_hooks()
    with observed(tmp_path / "run.nscope", forward_hooks, "values") as (result, recording):
        assert result == plain
        edges = edges_of(recording)
    assert edges["Net/first/addmm"][1] == "Net/first/mul"
    assert edges["Net/first/linalg_vector_norm"] == ["Net/first/detach"]
    assert edges["Net/act/add"] == ["Net/act/tanh"]
    assert edges["Net/last/addmm"][1] == "Net/act/add"
    assert edges["pow"] == ["Net/sin"]
    assert edges["backward/Net/act/tanh_backward"] == ["backward/Net/last/mm", "Net/act/tanh"]


@pytest.mark.parametrize("tap", TAPS)
def test_what_backward_hooks_compute_is_part_of_the_backward_pass(
    tap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    plain = backward_hooks()
    with observed(tmp_path / "run.nscope", backward_hooks, "values") as (result, recording):
        assert result == plain
        edges, nodes = edges_of(recording), nodes_of(recording)
    clamped = next(node for node in nodes.values() if node.native == "aten::clamp")
    assert clamped.phase == "backward"
    assert edges["backward/Net/last/mm"][0] == clamped.name
    assert edges["backward/Net/act/mul"] == ["backward/Net/act/tanh_backward"]
    assert edges["backward/Net/first/mm"][0] == "backward/Net/first/t"
    assert edges["backward/Net/first/t"] == ["backward/Net/act/mul"]
    updated = edges["optimizer/Net/last/weight/add_"]
    assert edges[updated[1]] == ["backward/Net/last/mm_1"]  # The tensor's hook ran.
    assert not [node for node in nodes.values() if node.op == "tensor"]


def test_a_hook_that_raises_ends_the_call(tmp_path: Path) -> None:
    def refuse(module: nn.Module, args: Any, y: Any) -> None:
        raise ValueError("refused")

    def program() -> float:
        model = Net()
        handle = model.act.register_forward_hook(refuse)
        with pytest.raises(ValueError, match="refused"):
            model(torch.ones(2, 3))
        handle.remove()
        assert not any(module._forward_hooks for module in model.modules())
        model(torch.ones(2, 3))
        return float(torch.ones(2).cos().sum())

    with observed(tmp_path / "run.nscope", program) as (_, recording):
        nodes = nodes_of(recording)
    assert {"Net_1/last/addmm", "cos"} <= set(nodes)


def test_a_module_is_copied_and_saved_in_its_own_hook(tmp_path: Path) -> None:
    copies: list[Any] = []

    def keep(module: nn.Module, args: Any, y: Any) -> None:
        handle.remove()
        copies.append(copy.deepcopy(module))
        torch.save(module, io.BytesIO())

    model = Net()
    handle = model.act.register_forward_hook(keep)
    with observed(tmp_path / "run.nscope", lambda: model(torch.ones(2, 3)).tolist()) as (_, run):
        assert "Net/last/addmm" in nodes_of(run)
    assert not model.act._forward_hooks
    assert copies[0](torch.ones(2)).tolist() == torch.ones(2).tanh().tolist()


def test_parameters_that_are_made_in_the_first_call_have_their_names(tmp_path: Path) -> None:
    def program() -> None:
        train(nn.Sequential(nn.LazyLinear(3), nn.Linear(3, 1)))

    with observed(tmp_path / "run.nscope", program) as (_, recording):
        edges = edges_of(recording)
    assert edges["Sequential/0/addmm"] == ["Sequential/0/bias", "randn", "Sequential/0/t"]
    assert edges["optimizer/Sequential/0/weight/add_"][0] == "Sequential/0/weight"
