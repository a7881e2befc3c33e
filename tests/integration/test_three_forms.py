"""The same model eagerly, as a static graph, and as an explicitly built graph: the same bits.

One model and one training program in three forms: plain Python with `backward` and an optimizer's
`step`; the same under `nodescope.compile`; and an `nodescope.Graph` with `gradients` and `minimize`
that a `Session` runs. Losses, outputs, gradients of every parameter and the weights after each step
are compared bit by bit, not within a tolerance: the same kernels run in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim

STEPS, BATCH, CLASSES = 6, 8, 3
FORMS = ("eager", "compiled", "by hand")


class Net(nn.Module):
    def __init__(self, rng: np.random.Generator) -> None:
        self.hidden = nn.Linear(6, 16, rng=rng)
        self.out = nn.Linear(16, CLASSES, rng=rng)

    def forward(self, x: Any) -> Any:
        return self.out(np.tanh(self.hidden(x)))


class ConvNet(nn.Module):
    """A network with state between steps: running statistics of batch norm, dropout's generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.conv = nn.Conv2d(1, 4, 3, rng=rng, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.3, rng=7)
        self.out = nn.Linear(4 * 3 * 3, CLASSES, rng=rng)

    def forward(self, x: Any) -> Any:
        h = self.pool(nn.relu(self.norm(self.conv(x))))
        return self.out(self.drop(h.reshape(BATCH, -1)))


class Lstm(nn.Module):
    """An LSTM with a Python loop, which a graph unrolls."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.cell = nn.LSTMCell(5, 8, rng=rng)
        self.out = nn.Linear(8, CLASSES, rng=rng)

    def forward(self, x: Any) -> Any:
        h = c = np.zeros((BATCH, 8), np.float32)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return self.out(h)


class ScannedLstm(Lstm):
    """An LSTM whose loop is a scan node."""

    def forward(self, x: Any) -> Any:
        zeros = np.zeros((BATCH, 8), np.float32)

        def step(state: Any, column: Any) -> Any:
            state = self.cell(column, state)
            return state, state[0]

        (h, _), seen = ns.scan(step, (zeros, zeros), np.swapaxes(x, 0, 1))
        return self.out(h + seen.mean(axis=0))


class Transformer(nn.Module):
    def __init__(self, rng: np.random.Generator) -> None:
        self.block = nn.TransformerBlock(8, 2, rng=rng, causal=True, dropout=0.1)
        self.out = nn.Linear(8, CLASSES, rng=rng)

    def forward(self, x: Any) -> Any:
        return self.out(self.block(x).mean(axis=1))


Model = Callable[[np.random.Generator], nn.Module]
MODELS: dict[str, tuple[Model, tuple[int, ...]]] = {
    "mlp": (Net, (6,)),
    "cnn": (ConvNet, (1, 6, 6)),
    "lstm": (Lstm, (4, 5)),
    "scanned lstm": (ScannedLstm, (4, 5)),
    "transformer": (Transformer, (5, 8)),
}
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "momentum": lambda parameters: optim.SGD(parameters, lr=0.05, momentum=0.9),
    "adam": lambda parameters: optim.Adam(parameters, lr=0.01),
}


@dataclass
class Trained:
    """A program's results: per step, and the final weights and running statistics."""

    losses: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    grads: list[dict[str, Any]] = field(default_factory=list)
    weights: list[dict[str, Any]] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)

    def bits(self) -> dict[str, Any]:
        return {name: _bits(value) for name, value in vars(self).items()}


def _bits(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _bits(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_bits(item) for item in value]
    return str(value.dtype), value.shape, value.tobytes()


def batches(shape: tuple[int, ...]) -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng(1)
    for _ in range(STEPS):
        x = rng.standard_normal((BATCH, *shape)).astype(np.float32)
        yield x, rng.integers(0, CLASSES, BATCH)


def in_python(name: str, optimizer: str, *, compiled: bool) -> Trained:
    make, shape = MODELS[name]
    model = make(np.random.default_rng(0))
    updates = OPTIMIZERS[optimizer](model)

    def step(x: Any, labels: Any) -> Any:
        updates.zero_grad()
        logits = model(x)
        loss = ns.cross_entropy(logits, labels)
        loss.backward()
        updates.step()
        return loss, logits

    run = ns.compile(step) if compiled else step
    result = Trained()
    for x, labels in batches(shape):
        loss, logits = run(ns.tensor(x), ns.tensor(labels))
        result.losses.append(loss.numpy())
        result.outputs.append(logits.numpy())
        result.grads.append({path: p.grad.numpy().copy() for path, p in model.named_parameters()})
        result.weights.append({path: p.numpy().copy() for path, p in model.named_parameters()})
    result.state = model.state_dict()
    if compiled:
        assert len(run.explain().traces) == 1
    return result


def by_hand(name: str, optimizer: str) -> Trained:
    make, shape = MODELS[name]
    with ns.Graph().as_default() as graph:
        model = make(np.random.default_rng(0))
        paths, parameters = zip(*model.named_parameters(), strict=True)
        x = ns.placeholder(np.float32, (BATCH, *shape), name="x")
        labels = ns.placeholder(np.int64, (BATCH,), name="labels")
        logits = model(x)
        loss = ns.cross_entropy(logits, labels)
        gradients = ns.gradients(loss, parameters)
        # As in TensorFlow 1, running statistics are updated only if the training step depends on
        # them.
        with ns.control_dependencies(graph.get_collection(ns.GraphKeys.UPDATE_OPS)):
            train = OPTIMIZERS[optimizer](parameters).minimize(loss)
        start = ns.global_variables_initializer()
        graph.finalize()
    session = ns.Session(graph)
    session.run(start)
    result = Trained()
    for images, digits in batches(shape):
        fetched = session.run(
            {"loss": loss, "logits": logits, "grads": gradients, "train": train},
            {x: images, labels: digits},
        )
        assert fetched["train"] is None
        result.losses.append(fetched["loss"])
        result.outputs.append(fetched["logits"])
        result.grads.append(dict(zip(paths, fetched["grads"], strict=True)))
        weights = session.run(list(parameters))
        result.weights.append(dict(zip(paths, weights, strict=True)))
    result.state = model.state_dict()
    return result


def trained(form: str, name: str, optimizer: str) -> Trained:
    if form == "by hand":
        return by_hand(name, optimizer)
    return in_python(name, optimizer, compiled=form == "compiled")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_three_forms_give_the_same_bits(name: str, optimizer: str) -> None:
    eager, compiled, hand = (trained(form, name, optimizer) for form in FORMS)
    assert np.isfinite(eager.losses).all()
    # The network learns: every loss is different.
    assert len({loss.tobytes() for loss in eager.losses}) == STEPS
    assert all(np.any(grad) for grads in eager.grads for grad in grads.values())
    assert compiled.bits() == eager.bits()
    assert hand.bits() == eager.bits()
