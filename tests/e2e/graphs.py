"""The graphs with reference pictures: small and large, flat and nested, and unusual ones.

Invariant: the same graph on every machine; each function writes a file for `nodescope open`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import numpy as np

import nodescope as ns
from nodescope import nn, optim


def _trained(path: Path, model: nn.Module, x: np.ndarray, classes: int) -> Path:
    """One training step of a classifier."""
    optimizer = optim.AdamW(model, lr=1e-3)
    rows = x.size if x.dtype == np.int64 else x.shape[0]
    labels = np.zeros(rows, dtype=np.int64)
    with ns.record(path, level="timing"):
        for _ in ns.steps(range(1)):
            optimizer.zero_grad()
            scores = model(ns.tensor(x, name="x"))
            with ns.name_scope("loss"):
                loss = nn.cross_entropy(scores.reshape(-1, classes), labels)
            loss.backward()
            optimizer.step()
    return path


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


class _Mlp(nn.Module):
    def __init__(self) -> None:
        self.hidden_1 = nn.Linear(64, 32, rng=_rng())
        self.hidden_2 = nn.Linear(32, 32, rng=_rng())
        self.output = nn.Linear(32, 10, rng=_rng())

    def forward(self, x: ns.Tensor) -> ns.Tensor:
        result: ns.Tensor = self.output(nn.relu(self.hidden_2(nn.relu(self.hidden_1(x)))))
        return result


class _Cnn(nn.Module):
    def __init__(self) -> None:
        self.conv_1 = nn.Conv2d(1, 4, 3, padding=1, rng=_rng())
        self.norm = nn.BatchNorm2d(4)
        self.conv_2 = nn.Conv2d(4, 8, 3, padding=1, rng=_rng())
        self.output = nn.Linear(8 * 4, 10, rng=_rng())

    def forward(self, x: ns.Tensor) -> ns.Tensor:
        x = nn.max_pool2d(nn.relu(self.norm(self.conv_1(x))), 2)
        x = nn.max_pool2d(nn.relu(self.conv_2(x)), 2)
        result: ns.Tensor = self.output(x.reshape(x.shape[0], -1))
        return result


class _Writer(nn.Module):
    def __init__(self, layers: int) -> None:
        self.letters = nn.Embedding(32, 16, rng=_rng())
        self.positions = nn.Embedding(8, 16, rng=_rng())
        self.block = [nn.TransformerBlock(16, 4, rng=_rng(), causal=True) for _ in range(layers)]
        self.norm = nn.LayerNorm(16)
        self.output = nn.Linear(16, 32, rng=_rng())

    def forward(self, text: ns.Tensor) -> ns.Tensor:
        x = self.letters(text) + self.positions(np.arange(text.shape[1]))
        for block in self.block:
            x = block(x)
        result: ns.Tensor = self.output(self.norm(x))
        return result


class _Unrolled(nn.Module):
    def __init__(self) -> None:
        self.cell = nn.LSTMCell(2, 8, rng=_rng())
        self.output = nn.Linear(8, 2, rng=_rng())

    def forward(self, sequence: ns.Tensor) -> ns.Tensor:
        state = None
        for time in range(sequence.shape[1]):
            with ns.name_scope(f"time_{time}"):
                state = self.cell(sequence[:, time], state)
        assert state is not None
        result: ns.Tensor = self.output(state[0])
        return result


def mlp(folder: Path) -> Path:
    """A training step of three layers."""
    return _trained(folder / "mlp.nscope", _Mlp(), np.zeros((4, 64)), 10)


def cnn(folder: Path) -> Path:
    """A training step of two convolutions with batch norm."""
    return _trained(folder / "cnn.nscope", _Cnn(), np.ones((2, 1, 8, 8)), 10)


def transformer_4(folder: Path) -> Path:
    """A training step of four blocks."""
    text = np.zeros((1, 8), dtype=np.int64)
    return _trained(folder / "transformer_4.nscope", _Writer(4), text, 32)


def transformer_48(folder: Path) -> Path:
    """A training step of forty-eight blocks."""
    text = np.zeros((1, 8), dtype=np.int64)
    return _trained(folder / "transformer_48.nscope", _Writer(48), text, 32)


def lstm_100(folder: Path) -> Path:
    """A training step of a recurrent network over a hundred time steps."""
    return _trained(folder / "lstm_100.nscope", _Unrolled(), np.ones((1, 100, 2)), 2)


def unet(folder: Path) -> Path:
    """A U-Net: four levels down and up again, with a skip on each level."""
    file = _File()

    def twice(scope: str, x: int) -> int:
        for name in ("conv_1", "conv_2"):
            weight = file.add("weight", "Parameter", scope=f"{scope}/{name}")
            x = file.add("conv", "Conv", x, weight, scope=f"{scope}/{name}")
            x = file.add("relu", "Relu", x, scope=f"{scope}/{name}")
        return x

    x = file.add("image", "Placeholder")
    skips = []
    for level in range(4):
        x = twice(f"down_{level}", x)
        skips.append(x)
        x = file.add("pool", "MaxPool", x, scope=f"down_{level}")
    x = twice("bottom", x)
    for level in reversed(range(4)):
        x = file.add("upsample", "Resize", x, scope=f"up_{level}")
        x = file.add("concat", "Concat", x, skips[level], scope=f"up_{level}")
        x = twice(f"up_{level}", x)
    file.add("mask", "Sigmoid", file.add("head", "Conv", x))
    return file.write(folder / "unet.json")


def resnet_50(folder: Path) -> Path:
    """The structure of ResNet-50, without scopes, as exported to ONNX."""
    file = _File()
    number = 0

    def convolution(x: int, *, relu: bool = True) -> int:
        nonlocal number
        weight = file.add(f"conv{number}_weight", "Parameter")
        x = file.add(f"conv{number}", "Conv", x, weight)
        x = file.add(f"norm{number}", "BatchNormalization", x)
        number += 1
        return file.add(f"relu{number}", "Relu", x) if relu else x

    x = convolution(file.add("image", "Placeholder"))
    x = file.add("pool", "MaxPool", x)
    for blocks in (3, 4, 6, 3):
        for block in range(blocks):
            inner = convolution(convolution(convolution(x)), relu=False)
            skip = convolution(x, relu=False) if block == 0 else x
            x = file.add(f"out{number}", "Relu", file.add(f"add{number}", "Add", inner, skip))
    x = file.add("flatten", "Flatten", file.add("mean", "GlobalAveragePool", x))
    file.add("scores", "Gemm", x, file.add("dense_weight", "Parameter"))
    return file.write(folder / "resnet_50.json")


def one_node(folder: Path) -> Path:
    """A single operation."""
    path = folder / "one_node.nscope"
    with ns.record(path, level="timing"):
        np.tanh(ns.tensor(np.ones(3), name="x"))
    return path


def two_nodes(folder: Path) -> Path:
    """Two operations."""
    path = folder / "two_nodes.nscope"
    with ns.record(path, level="timing"):
        np.exp(np.tanh(ns.tensor(np.ones(3), name="x")))
    return path


def no_node(folder: Path) -> Path:
    """A run without any node."""
    path = folder / "no_node.nscope"
    with ns.record(path, level="timing"):
        pass
    return path


def flat_10k(folder: Path) -> Path:
    """Ten thousand operations without a scope: a residual network of 770 blocks."""
    file = _File()
    x = file.add("input", "Placeholder")
    for block in range(770):
        inner = x
        for part in range(3):
            number = 3 * block + part
            weight = file.add(f"conv{number}_weight", "Parameter")
            inner = file.add(f"conv{number}", "Conv", inner, weight)
            inner = file.add(f"norm{number}", "BatchNormalization", inner)
            if part < 2:
                inner = file.add(f"relu{number}", "Relu", inner)
        x = file.add(f"out{block}", "Relu", file.add(f"add{block}", "Add", inner, x))
    return file.write(folder / "flat_10k.json")


def nested_100k(folder: Path) -> Path:
    """A hundred thousand operations in scopes: a transformer of 2,600 layers in stages."""
    file = _File()
    x = file.add("tokens", "Placeholder", scope="inputs")
    for layer in range(2600):
        scope = f"model/stage_{layer // 24:03d}/layer_{layer:04d}"
        x = _layer(file, scope, x)
    file.add("logits", "MatMul", x, scope="model/head")
    return file.write(folder / "nested_100k.json")


def _layer(file: _File, scope: str, x: int) -> int:
    def linear(name: str, x: int) -> int:
        weight = file.add("weight", "Parameter", scope=f"{scope}/{name}")
        bias = file.add("bias", "Parameter", scope=f"{scope}/{name}")
        product = file.add("matmul", "MatMul", x, weight, scope=f"{scope}/{name}")
        return file.add("add", "Add", product, bias, scope=f"{scope}/{name}")

    def norm(name: str, x: int) -> int:
        inside = f"{scope}/{name}"
        mean = file.add("mean", "ReduceMean", x, scope=inside)
        centred = file.add("centre", "Sub", x, mean, scope=inside)
        variance = file.add("rsqrt", "Rsqrt", centred, scope=inside)
        scale = file.add("scale", "Parameter", scope=inside)
        scaled = file.add("normalise", "Mul", centred, variance, scope=inside)
        return file.add("affine", "Mul", scaled, scale, scope=inside)

    normed = norm("norm_1", x)
    query, key, value = (linear(f"attention/{name}", normed) for name in ("query", "key", "value"))
    scores = file.add("scores", "MatMul", query, key, scope=f"{scope}/attention")
    weights = file.add("softmax", "Softmax", scores, scope=f"{scope}/attention")
    mixed = file.add("mix", "MatMul", weights, value, scope=f"{scope}/attention")
    x = file.add("residual_1", "Add", x, linear("attention/output", mixed), scope=scope)
    inner = file.add("gelu", "Gelu", linear("mlp/up", norm("norm_2", x)), scope=f"{scope}/mlp")
    return file.add("residual_2", "Add", x, linear("mlp/down", inner), scope=scope)


def wide(folder: Path) -> Path:
    """One value that four hundred operations read, and their sum."""
    file = _File()
    source = file.add("source", "Placeholder")
    file.add("sum", "Sum", *(file.add(f"slice_{k}", "Slice", source) for k in range(400)))
    return file.write(folder / "wide.json")


def deep(folder: Path) -> Path:
    """A chain of two thousand operations."""
    file = _File()
    x = file.add("start", "Placeholder")
    for k in range(2000):
        x = file.add(f"step_{k}", ("Tanh", "Exp", "Log", "Neg")[k % 4], x)
    return file.write(folder / "deep.json")


def names(folder: Path) -> Path:
    """Names in Chinese, Arabic and emoji, and of a thousand characters."""
    file = _File()
    x = file.add("输入图像", "Placeholder")
    for scope in ("注意力机制", "شبكة عصبية", "🚀🔥 rocket", "w" * 1000):
        for name in ("矩阵乘法", "ضرب المصفوفات", "🧮", "x" * 1000):
            x = file.add(name, "MatMul", x, scope=scope)
    return file.write(folder / "names.json")


class _File:
    """A graph in Model Explorer's format."""

    def __init__(self) -> None:
        self._nodes: list[dict[str, object]] = []

    def add(self, name: str, op: str, *inputs: int, scope: str = "") -> int:
        self._nodes.append(
            {
                "id": str(len(self._nodes)),
                "label": name,
                "namespace": scope,
                "attrs": [
                    {"key": "op", "value": op},
                    {"key": "role", "value": _ROLES.get(op, "op")},
                ],
                "incomingEdges": [
                    {"sourceNodeId": str(source), "sourceNodeOutputId": "0"} for source in inputs
                ],
                "outputsMetadata": [
                    {"id": "0", "attrs": [{"key": "tensor_shape", "value": "float32[8,64]"}]}
                ],
            }
        )
        return len(self._nodes) - 1

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps([{"id": path.stem, "nodes": self._nodes}]))
        return path


_ROLES: Final = {"Parameter": "parameter", "Placeholder": "input"}

GRAPHS: Final[Iterable[Callable[[Path], Path]]] = (
    mlp, cnn, transformer_4, transformer_48, lstm_100, unet, resnet_50, no_node, one_node,
    two_nodes, flat_10k, nested_100k, wide, deep, names,
)  # fmt: skip
