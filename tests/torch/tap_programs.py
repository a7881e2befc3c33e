"""Small programs for both taps. Each returns tensors, the same in every run."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def _stepped(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Any, steps: int = 2) -> Any:
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    return [*model.parameters(), *model.buffers()]


def mlp() -> Any:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))
    x = torch.randn(5, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return _stepped(model, optimizer, lambda: model(x).square().mean(), 3)


def convolution() -> Any:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64, 3),
    )  # fmt: skip
    x, y = torch.randn(2, 3, 8, 8), torch.tensor([0, 1])
    optimizer = torch.optim.AdamW(model.parameters())
    return _stepped(model, optimizer, lambda: F.cross_entropy(model(x), y))


class _Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.out = nn.Linear(16, 10)

    def forward(self, words: Any) -> Any:
        return self.out(self.layer(self.words(words)))


def attention() -> Any:
    model, words = _Language(), torch.randint(0, 10, (2, 5))
    optimizer = torch.optim.Adam(model.parameters())

    def loss() -> Any:
        return F.cross_entropy(model(words).flatten(0, 1), words.flatten())

    return _stepped(model, optimizer, loss)


def autocast() -> Any:
    model, words = _Language(), torch.randint(0, 10, (2, 5))
    optimizer = torch.optim.Adam(model.parameters())

    def loss() -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return F.cross_entropy(model(words).flatten(0, 1), words.flatten())

    return _stepped(model, optimizer, loss)


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, x: Any) -> Any:
        return checkpoint(self.inner, x, use_reentrant=False)


def checkpointed() -> Any:
    model = nn.Sequential(_Block(), nn.Linear(4, 1))
    x = torch.randn(5, 4)
    return _stepped(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda: model(x).mean())


def without_gradients() -> Any:
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(3, 4)
    with torch.no_grad():
        return [model(x) * 2]


def inferred() -> Any:
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(3, 4)
    with torch.inference_mode():
        return [model(x) * 2]


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2 + 1

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 2


def own_function() -> Any:
    w = nn.Parameter(torch.randn(3, 3))
    for _ in range(2):
        _Doubled.apply(torch.tanh(w)).sum().backward()
    return [w.grad]


def views_and_writes() -> Any:
    x = torch.zeros(4, 4)
    x[1] = 3
    x[:, 2].add_(1)
    y = x.t().reshape(-1)
    y[3:7] *= 2
    torch.add(x, 1, out=x)
    a, b = x.split(2)
    return [x, y, a @ b.t(), x.long(), torch.cat([a, b]).to(torch.float64)]


def written_view() -> Any:
    """A view of what gradients flow to is written to: autograd makes nodes for the rest."""
    w = nn.Parameter(torch.randn(2, 2, 2))
    for _ in range(2):
        flat = F.dropout((w * 2).flatten(1), 0.5, inplace=True)
        (flat * 3).sum().backward()
    return [w.grad]


def written_views() -> Any:
    """Views are written to one after another, a view of a view, too."""
    w = nn.Parameter(torch.randn(2, 2, 2))
    for _ in range(2):
        flat = F.dropout((w * 2).flatten(1).mul_(3), 0.5, inplace=True)
        flat[0].mul_(2)
        flat.sum().backward()
    return [w.grad]


def transformed() -> Any:
    w = torch.randn(3, 3)

    def loss(weights: Any, row: Any) -> Any:
        return torch.tanh(row @ weights).sum()

    x = torch.randn(5, 3)
    return [torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(w, x)]


class _Numbers(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, at: int) -> Any:
        return torch.full((3,), float(at)) * 2


def loaded() -> Any:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in torch.utils.data.DataLoader(_Numbers(), batch_size=2, num_workers=2):
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
    return list(model.parameters())


def threads() -> Any:
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        w = nn.Parameter(torch.full((3, 3), float(number)))
        (w @ w).tanh().sum().backward()
        results[number] = w.grad

    workers = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [results[number] for number in range(3)]


def resized() -> Any:
    x = torch.arange(3.0)
    y = x + 1
    x.untyped_storage().resize_(0)
    return [y.resize_(2) * 2]


def _bent(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).relu() + 1


def scripted() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        function = torch.jit.script(_bent)
    w = nn.Parameter(torch.randn(3))
    for _ in range(4):
        function(w).sum().backward()
    return [w.grad]


PROGRAMS = (
    mlp, convolution, attention, autocast, checkpointed, without_gradients, own_function,
    views_and_writes, written_view, transformed, loaded, resized,
)  # fmt: skip
