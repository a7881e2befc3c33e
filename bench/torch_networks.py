"""Networks in plain PyTorch, whose training steps the benchmarks measure.

Invariant: this module is imported only where PyTorch is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        rows, length, width = x.shape
        q, k, v = (
            part.view(rows, length, self.heads, -1).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(rows, length, width))


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = _Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class _Gpt2(nn.Module):
    def __init__(self, words: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(length, width)
        self.h = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, words: Any) -> Any:
        x = self.wte(words) + self.wpe(torch.arange(words.shape[1]))
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.t()


class _Residual(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            conv = nn.Conv2d(before, after, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(after))

    def forward(self, x: Any) -> Any:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


def resnet18_model() -> nn.Module:
    parts: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    before = 64
    for after, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        parts += [_Residual(before, after, stride), _Residual(after, after, 1)]
        before = after
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def _step(model: nn.Module, loss: Callable[[], Any]) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def gpt2_model() -> nn.Module:
    """Two layers, width 64, at most 64 words of a vocabulary of 256."""
    return _Gpt2(256, 64, 64, 4, 2)


class Training(NamedTuple):
    """A network, and a step that trains it.

    Attributes:
        model, inputs: The network, and its inputs.
        step: Runs a training step.
    """

    model: nn.Module
    inputs: Any
    step: Callable[[], None]


def gpt2() -> Training:
    """Two layers, width 64, 8 rows of 64 words."""
    model, words = gpt2_model(), torch.randint(0, 256, (8, 64))

    def loss() -> Any:
        return F.cross_entropy(model(words).flatten(0, 1), words.flatten())

    return Training(model, words, _step(model, loss))


def resnet18() -> Training:
    """ResNet-18 for pictures of 32 x 32, 4 at a time."""
    model, x, y = resnet18_model(), torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))
    return Training(model, x, _step(model, lambda: F.cross_entropy(model(x), y)))


def mlp() -> Training:
    """Three layers, width 64, 32 rows."""
    model = nn.Sequential(
        nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    x, y = torch.randn(32, 32), torch.randint(0, 10, (32,))
    return Training(model, x, _step(model, lambda: F.cross_entropy(model(x), y)))


NETWORKS: Final = {"gpt2 tiny": gpt2, "resnet18": resnet18, "mlp": mlp}
