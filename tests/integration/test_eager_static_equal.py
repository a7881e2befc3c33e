"""The same models eagerly and as static graphs: bit-identical, and the same on the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim
from nodescope.events import GradientComputed, NodeFinished
from tests.core.engine.events_of import Events, observed

STEPS = 20


class Net(nn.Module):
    def __init__(self, rng: np.random.Generator) -> None:
        self.hidden = nn.Linear(6, 16, rng=rng)
        self.out = nn.Linear(16, 3, rng=rng)

    def forward(self, x: Any) -> Any:
        return self.out(nn.relu(self.hidden(x)))


class ConvNet(nn.Module):
    def __init__(self, rng: np.random.Generator) -> None:
        self.conv = nn.Conv2d(1, 4, 3, rng=rng, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.3, rng=7)
        self.out = nn.Linear(4 * 3 * 3, 3, rng=rng)

    def forward(self, x: Any) -> Any:
        h = self.pool(nn.relu(self.norm(self.conv(x))))
        return self.out(self.drop(h.reshape(h.shape[0], -1)))


class Recurrent(nn.Module):
    def __init__(self, rng: np.random.Generator) -> None:
        self.cell = nn.LSTMCell(5, 8, rng=rng)
        self.out = nn.Linear(8, 3, rng=rng)

    def forward(self, x: Any) -> Any:
        state = (np.zeros((x.shape[0], 8), np.float32), np.zeros((x.shape[0], 8), np.float32))
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
        return self.out(state[0])


class Transformer(nn.Module):
    def __init__(self, rng: np.random.Generator) -> None:
        self.block = nn.TransformerBlock(8, 2, rng=rng)
        self.out = nn.Linear(8, 3, rng=rng)

    def forward(self, x: Any) -> Any:
        return self.out(self.block(x).mean(axis=1))


MODELS: dict[str, tuple[Callable[[np.random.Generator], nn.Module], tuple[int, ...]]] = {
    "mlp": (Net, (6,)),
    "cnn": (ConvNet, (1, 6, 6)),
    "lstm": (Recurrent, (4, 5)),
    "transformer": (Transformer, (5, 8)),
}
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda parameters: optim.SGD(parameters, lr=0.05, momentum=0.9),
    "adam": lambda parameters: optim.Adam(parameters, lr=0.01),
    "adamw": lambda parameters: optim.AdamW(parameters, lr=0.01, weight_decay=0.1),
}


def trained(
    name: str, optimizer: str, *, static: bool, steps: int = STEPS, **how: Any
) -> dict[str, Any]:
    make, shape = MODELS[name]
    rng = np.random.default_rng(0)
    model = make(rng)
    updates = OPTIMIZERS[optimizer](model)
    batches = [
        (rng.standard_normal((8, *shape)).astype(np.float32), rng.integers(0, 3, 8))
        for _ in range(steps)
    ]

    def step(x: Any, labels: Any) -> Any:
        updates.zero_grad()
        logits = model(x)
        with ns.name_scope("loss"):
            loss = ns.cross_entropy(logits, labels)
        loss.backward()
        updates.step()
        return loss, logits

    run = ns.compile(step, **how) if static else step
    losses, outputs = [], []
    for x, labels in ns.steps(batches):
        updates.lr *= 0.98  # The rate is read on each call.
        loss, logits = run(ns.tensor(x, name="x"), ns.tensor(labels, name="labels"))
        losses.append(loss.item())
        outputs.append(logits.numpy())
    results = {
        "losses": losses,
        "outputs": outputs,
        "weights": {path: p.numpy() for path, p in model.named_parameters()},
        "grads": {path: p.grad.numpy() for path, p in model.named_parameters()},
    }
    if static:
        results["traces"] = len(run.explain().traces)
    return results


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_training_is_bit_equal(name: str, optimizer: str) -> None:
    eager = trained(name, optimizer, static=False)
    static = trained(name, optimizer, static=True)
    assert static.pop("traces") == 1
    assert eager["losses"] == static["losses"]
    np.testing.assert_equal(static, eager)
    assert eager["losses"][0] != eager["losses"][-1]


@pytest.mark.parametrize("name", MODELS)
def test_gradients_through_a_compiled_model_are_bit_equal(name: str) -> None:
    make, shape = MODELS[name]
    results = []
    for static in (False, True):
        rng = np.random.default_rng(1)
        model = make(rng)
        x = ns.tensor(
            rng.standard_normal((4, *shape)).astype(np.float32), name="x", requires_grad=True
        )
        run = ns.compile(model) if static else model
        for _ in range(2):  # The second gradient is added to the first.
            (run(x) ** 2).sum().backward()
        grads = {path: p.grad.numpy() for path, p in model.named_parameters()}
        results.append((grads, x.grad.numpy()))
    np.testing.assert_equal(results[1], results[0])
    assert all(np.any(item) for item in results[0][0].values())


def seen(events: Events) -> list[tuple[Any, ...]]:
    """What a page shows of a run: executions with their nodes, and values."""
    return [
        (
            node.node.name, node.node.op, node.node.phase, node.node.scope,
            [array.tobytes() for array in node.outputs], node.step,
        )
        for node in events.of(NodeFinished)
    ]  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_an_observed_static_run_looks_as_the_eager_one(name: str) -> None:
    runs = []
    for static in (False, True):
        with observed() as events:
            how = {"backend": "plain", "passes": "none"} if static else {}
            result = trained(name, "adam", static=static, steps=3, **how)
        result.pop("traces", None)
        runs.append((events, result))
    (eager, expected), (static_events, result) = runs
    np.testing.assert_equal(result, expected)
    assert seen(static_events) == seen(eager)
    for key, node in eager.nodes.items():
        other = static_events.nodes[key]
        assert (other.forward is None) == (node.forward is None), key
        if node.forward is not None:
            names = [{n.id: n.name for n in e.nodes.values()} for e in (eager, static_events)]
            assert names[1][other.forward] == names[0][node.forward]
        if not node.is_leaf:
            assert other.source == node.source, key
    pairs = [len(events.of(GradientComputed)) for events in (eager, static_events)]
    assert pairs[0] == pairs[1]


def test_observing_changes_nothing() -> None:
    plain = trained("mlp", "adam", static=True)
    with observed():
        watched = trained("mlp", "adam", static=True)
    np.testing.assert_equal(watched, plain)


def test_the_switch_of_a_program() -> None:
    ns.set_mode("eager")
    try:
        assert ns.get_mode() == "eager"
        eager = trained("mlp", "sgd", static=True)
    finally:
        ns.set_mode("compiled")
    assert eager.pop("traces") == 0
    static = trained("mlp", "sgd", static=True)
    assert static.pop("traces") == 1
    np.testing.assert_equal(static, eager)
