"""The networks of the samples, trained for a few steps, in this process or on Ray."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nodescope as ns
from nodescope import nn, optim

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
LETTERS = 40


def sample(name: str) -> Any:
    """The module of a sample."""
    if str(SAMPLES) not in sys.path:
        sys.path.insert(0, str(SAMPLES))
    known = sys.modules.get(name)
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(name, SAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Network(NamedTuple):
    """A network and its data.

    Attributes:
        model: The network.
        loss: Maps its result and the labels to the loss.
        batches: Inputs and labels.
    """

    model: Any
    loss: Callable[[ns.Tensor, ns.Tensor], ns.Tensor]
    batches: Sequence[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]


def cnn(steps: int = 3) -> Network:
    """The network of ``digits_cnn.py``."""
    rng = np.random.default_rng(7)
    model = sample("digits_cnn").Classifier(rng)
    batches = [
        (rng.standard_normal((32, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, 32))
        for _ in range(steps)
    ]
    return Network(model, nn.cross_entropy, batches)


def transformer(steps: int = 3) -> Network:
    """The network of ``char_transformer.py``."""
    rng = np.random.default_rng(7)
    model = sample("char_transformer").Writer(LETTERS, rng)
    batches = [
        (rng.integers(0, LETTERS, (4, 32)), rng.integers(0, LETTERS, (4, 32))) for _ in range(steps)
    ]

    def loss(logits: ns.Tensor, labels: ns.Tensor) -> ns.Tensor:
        return nn.cross_entropy(logits.reshape(-1, LETTERS), labels.reshape(-1))

    return Network(model, loss, batches)


def trained(network: Network, **options: Any) -> dict[str, bytes]:
    """Losses, weights and buffers after a few steps of a compiled function, as bytes."""
    model = network.model
    optimizer = optim.Adam(model, lr=2e-3)

    @ns.compile(**options)
    def step(x: ns.Tensor, labels: ns.Tensor) -> ns.Tensor:
        optimizer.zero_grad()
        loss = network.loss(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(ns.tensor(x), ns.tensor(y)).numpy().tobytes()
              for x, y in ns.steps(network.batches)]  # fmt: skip
    state = {name: array.tobytes() for name, array in state_of(model).items()}
    return {"losses": b"".join(losses), **state}


def state_of(model: Any) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a model."""
    return {name: np.asarray(value.numpy()) for name, value in model.named_parameters()}


def computed(network: Network, **options: Any) -> list[bytes]:
    """The network's results, and the gradients of a backward pass outside the function."""
    model = network.model
    model.eval()

    @ns.compile(**options)
    def forward(x: ns.Tensor) -> ns.Tensor:
        result: ns.Tensor = model(x)
        return result

    results = []
    for x, labels in network.batches:
        logits = forward(ns.tensor(x))
        results.append(logits.numpy().tobytes())
        for parameter in model.parameters():
            parameter.grad = None
        network.loss(logits, ns.tensor(labels)).backward()
        results += [parameter.grad.numpy().tobytes() for parameter in model.parameters()]
    return results
