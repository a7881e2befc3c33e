"""What checkpoints compute again is the phase ``recompute``, in its scope of the forward pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.adapters.driving import debugged
from tests.torch.observing import edges_of, nodes_of, observed
from tests.torch.taps import TAPS


class Net(nn.Module):
    """A part between a layer and a loss is computed again: a layer, dropout, and functions."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.first, self.inner, self.drop = nn.Linear(4, 4), nn.Linear(4, 4), nn.Dropout(0.2)

    def part(self, x: Any) -> Any:
        return F.softmax(self.drop(self.inner(x)).relu() + 1, -1)

    def forward(self, x: Any) -> Any:
        return checkpoint(self.part, self.first(x), use_reentrant=self.reentrant).square().sum()


def training(reentrant: bool) -> Callable[[], list[Any]]:
    """A program that trains `Net` for two steps."""

    def train() -> list[Any]:
        torch.manual_seed(0)
        model = Net(reentrant)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.randn(2, 4)).backward()
            optimizer.step()
        return [parameter.tolist() for parameter in model.parameters()]

    return train


@pytest.mark.parametrize("tap", TAPS)
@pytest.mark.parametrize("reentrant", [False, True])
def test_layers_and_functions_are_computed_again(
    tap: str, reentrant: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    program = training(reentrant)
    plain = program()
    with observed(tmp_path / "run.nscope", program, "values") as (result, recording):
        assert result == plain
        nodes, edges = nodes_of(recording), edges_of(recording)
    again = {node.name for node in nodes.values() if node.phase == "recompute"}
    assert {
        "recompute/Net/inner/addmm", "recompute/Net/relu", "recompute/Net/add",
        "recompute/Net/softmax", "recompute/Net/drop/mul",
    } <= again  # fmt: skip
    assert {name.split("/")[0] for name in again} == {"recompute"}
    backward = [node for node in nodes.values() if node.phase == "backward"]
    assert all(node.forward and not node.name.startswith("backward/backward") for node in backward)
    assert edges["backward/Net/softmax_backward"][1] == "recompute/Net/softmax"
    assert edges["backward/Net/threshold_backward"][1] == "recompute/Net/relu"
    assert not [node for node in nodes.values() if node.op == "tensor"]


def test_parts_of_a_sequence_are_computed_again(tmp_path: Path) -> None:
    def program() -> list[Any]:
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(4)))
        x = torch.randn(2, 4, requires_grad=True)
        checkpoint_sequential(model, 2, x, use_reentrant=False).sum().backward()
        return [parameter.grad.tolist() for parameter in model.parameters()]

    plain = program()
    with observed(tmp_path / "run.nscope", program, "values") as (result, recording):
        assert result == plain
        edges = edges_of(recording)
    assert edges["recompute/Sequential_1/0/addmm"][1] == "recompute/Sequential/1/relu"


@pytest.mark.parametrize("tap", TAPS)
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_breakpoint_stops_in_a_recomputation(
    tap: str, reentrant: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    program = training(reentrant)
    plain = program()
    with debugged(tmp_path / "run.nscope", program, "op:relu [recompute]") as stopped:
        stop = stopped.stop()
        assert stop is not None
        assert stop.node_name == "recompute/Net/relu"
    assert stopped.result == plain


@pytest.mark.parametrize("reentrant", [False, True])
def test_pytorch_is_as_it_was_afterwards(reentrant: bool, tmp_path: Path) -> None:
    from torch.utils import checkpoint as module

    kinds = (module.CheckpointFunction, module._CheckpointFrame, module._recomputation_hook)
    before = [dict(kind.__dict__) for kind in kinds]
    with observed(tmp_path / "run.nscope", training(reentrant)):
        assert [dict(kind.__dict__) for kind in kinds] == before
    training(reentrant)()
