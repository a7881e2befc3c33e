"""Programs for passes: the samples' training steps, traced and lowered.

Invariant: traced and lowered graph are run on the same numbers.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from nodescope.passes.pipeline import Lowered, LoweringOptions, lower
from tests.core.passes.checking import run, same_bits

SAMPLES = str(Path(__file__).resolve().parents[3] / "samples")


def step_of(model: Any, optimizer: Any, loss_of: Any, keep: bool = True) -> Any:
    """A training step; without ``keep``, gradients are released."""

    def step(*args: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(*args)
        loss.backward()
        optimizer.step()
        if not keep:
            optimizer.zero_grad()
        return loss

    return step


def digits_mlp() -> Any:
    """The graph of a step of the sample: a loss written in NumPy, momentum."""
    sample = _sample("digits_mlp")
    model = sample.Classifier(np.random.default_rng(7))
    optimizer = optim.SGD(model, lr=0.1, momentum=0.9)
    step = step_of(model, optimizer, lambda x, y: sample.cross_entropy(model(x), y))
    return ns.compile(step).graph(ns.tensor(np.zeros((16, 64), np.float32)), np.zeros(16, np.int64))


def char_transformer() -> Any:
    """The graph of a step of the sample: attention, layer norm, AdamW."""
    sample = _sample("char_transformer")
    model = sample.Writer(11, np.random.default_rng(11))
    optimizer = optim.AdamW(model, lr=3e-3)

    def loss_of(letters: Any, following: Any) -> Any:
        return nn.cross_entropy(model(letters).reshape(-1, 11), following.reshape(-1))

    text = np.zeros((2, 32), np.int64)
    return ns.compile(step_of(model, optimizer, loss_of)).graph(ns.tensor(text), ns.tensor(text))


def layer_step(optimizer: Any = optim.SGD, *, keep: bool = False, **settings: Any) -> Any:
    """The graph of a step of one layer, with tanh and a squared error."""
    rng = np.random.default_rng(3)
    w = ns.parameter(rng.standard_normal((6, 5)).astype(np.float32), name="w")
    b = ns.parameter(np.zeros(5, np.float32), name="b")

    def loss_of(x: Any, y: Any) -> Any:
        return np.mean(np.square(np.tanh(x @ w + b) - y))

    step = step_of(None, optimizer([w, b], lr=0.1, **settings), loss_of, keep)
    return ns.compile(step).graph(np.ones((8, 6), np.float32), np.ones((8, 5), np.float32))


def lowered_program(program: Any, passes: Any = ("patterns", "fuse"), **options: Any) -> Lowered:
    """A program after passes; asserts that its results did not change."""
    result = lower(program.graph, program.constants, passes, LoweringOptions(**options))
    feeds = feeds_of(program.graph)
    wanted = run(program.graph, program.constants, feeds)
    got = run(result.graph, result.arrays, feeds)
    assert all(same_bits(a, b) for a, b in zip(wanted, got, strict=True))
    return result


def feeds_of(graph: Any, seed: int = 0) -> list[Any]:
    """Numbers for a graph's inputs: between 0.1 and 0.9, or small and whole."""
    rng = np.random.default_rng(seed)
    specs = {value.id: value.spec for value in graph.values}
    results = []
    for value in graph.inputs:
        shape, dtype = specs[value].shape, np.dtype(specs[value].dtype)
        whole = dtype.kind in "iub"
        numbers = rng.integers(0, 5, shape) if whole else rng.uniform(0.1, 0.9, shape)
        results.append(np.asarray(numbers).astype(dtype))
    return results


def kernels(result: Lowered) -> Counter[str]:
    """The number of kernels by pattern."""
    return Counter(n.attrs["pattern"] for n in result.graph.nodes if n.op == "fused")


def reasons(result: Lowered) -> list[str]:
    """Why nodes were not fused."""
    return [item.reason for stage in result.stages for item in stage.unfused]


def _sample(name: str) -> Any:
    sys.path.insert(0, SAMPLES)
    try:
        return __import__(name)
    finally:
        sys.path.remove(SAMPLES)
