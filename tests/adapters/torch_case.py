"""The programs of `cases`, in PyTorch. Tested where PyTorch is installed: make test-torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.adapters.cases import ROWS, STEPS, WEIGHTS, Case


class Layer(nn.Module):
    """A product, bent; its scope is ``Net/layer``."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.from_numpy(WEIGHTS.copy()))

    def forward(self, x: Any) -> Any:
        return torch.tanh(x @ self.w)


def _train() -> Any:
    layer = Layer()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(STEPS):
        loss = layer(torch.from_numpy(ROWS)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach().numpy()


def _loop(rounds: int) -> Any:
    x, w = torch.from_numpy(ROWS), torch.from_numpy(WEIGHTS.copy())
    for _ in range(rounds):
        x = torch.tanh(x @ w)
    return x.numpy()


def _grow(rounds: int) -> Any:
    x = row = torch.from_numpy(ROWS[:1])
    for _ in range(rounds):
        x = torch.cat([x, row])
    return x.numpy()


def _fail() -> None:
    torch.mm(torch.ones(2, 3), torch.ones(2, 3))


def _differentiate() -> Any:
    w = nn.Parameter(torch.from_numpy(WEIGHTS.copy()))
    torch.tanh(torch.from_numpy(ROWS) @ w).mean().backward()
    return w.grad.numpy()


def _write() -> Any:
    w = nn.Parameter(torch.from_numpy(WEIGHTS.copy()))
    optimizer = torch.optim.SGD([w], lr=0.1)
    (torch.from_numpy(ROWS) @ w).mean().backward()
    optimizer.step()
    return (torch.from_numpy(ROWS) @ w).detach().numpy()


def _view() -> Any:
    return torch.from_numpy(ROWS)[1].mean().numpy()


def _select() -> Any:
    x = torch.from_numpy(ROWS)
    return torch.tanh(torch.masked_select(x, x > 0)).numpy()


def _overflow() -> Any:
    return torch.exp(1e3 * torch.from_numpy(ROWS)).numpy()


TORCH = Case(
    adapter="nodescope.adapters.torch", dialect="torch",
    product="matmul", bend="tanh", mean="mean",
    train=_train, loop=_loop, grow=_grow, growing="concatenate",
    fail=_fail, raises=RuntimeError, differentiate=_differentiate,
    write=_write, written="add", view=_view, viewed="getitem",
    select=_select, selected="masked_select", opaque=None, obscured="",
    overflow=_overflow, overflowing="exp", layer="Layer", label="mm",
)  # fmt: skip
