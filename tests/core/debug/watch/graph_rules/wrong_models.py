"""Models that are wrong; see `wrong`."""

from __future__ import annotations

from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import CLASSES, LABELS, TARGETS, X, scores

_rng = np.random.default_rng(11)


# ---------------------------------------------------------------- shared_layer


def one_layer_in_three_places() -> None:
    layer = nn.Linear(6, 6, rng=_rng)
    model = nn.Sequential(layer, np.tanh, layer, np.tanh, layer, nn.Linear(6, CLASSES, rng=_rng))
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        logits = model(ns.tensor(X))  # hit: shared_layer
        nn.cross_entropy(logits, LABELS).backward()
        optimizer.step()


def a_list_times_three() -> None:
    layers = [nn.Linear(6, 6, rng=_rng)] * 3
    head = nn.Linear(6, CLASSES, rng=_rng)
    optimizer = optim.SGD([*layers[0].parameters(), *head.parameters()], lr=0.05)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        h = ns.tensor(X)
        for layer in layers:
            h = np.tanh(layer(h))  # hit: shared_layer
        nn.cross_entropy(head(h), LABELS).backward()
        optimizer.step()


class _Block(nn.Module):
    def __init__(self, size: int) -> None:
        self.inner = nn.Linear(size, size, rng=_rng)

    def forward(self, x: Any) -> Any:
        return x + np.tanh(self.inner(x))  # hit: shared_layer in one_block_in_a_compiled_tower


class _Tower(nn.Module):
    def __init__(self, depth: int) -> None:
        self.blocks = [_Block(6)] * depth
        self.head = nn.Linear(6, CLASSES, rng=_rng)

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def one_block_in_a_compiled_tower() -> None:
    model = _Tower(4)
    optimizer = optim.SGD(model, lr=0.05)

    @ns.compile
    def step(x: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    for _ in ns.steps(range(3)):
        step(ns.tensor(X), ns.tensor(LABELS))


# ---------------------------------------------------------------- unused_result


def activation_is_not_assigned() -> None:
    first, second = nn.Linear(6, 8, rng=_rng), nn.Linear(8, CLASSES, rng=_rng)
    optimizer = optim.SGD([*first.parameters(), *second.parameters()], lr=0.05)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        h = first(ns.tensor(X))
        nn.relu(h)  # hit: unused_result
        nn.cross_entropy(second(h), LABELS).backward()
        optimizer.step()


def penalty_is_not_added() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        penalty = 0.01 * np.sum(np.square(model.parameters()[0]))  # hit: unused_result  # noqa: F841
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()


def hidden_layer_is_overwritten() -> None:
    first, second = nn.Linear(6, 6, rng=_rng), nn.Linear(6, CLASSES, rng=_rng)
    optimizer = optim.SGD([*first.parameters(), *second.parameters()], lr=0.05)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        x = ns.tensor(X)
        h = np.tanh(first(x))  # hit: unused_result
        h = second(x)
        nn.cross_entropy(h, LABELS).backward()
        optimizer.step()


# ---------------------------------------------------------------- no_gradient_path


def a_detach_is_left_between_two_layers() -> None:
    first, second = nn.Linear(6, 8, rng=_rng), nn.Linear(8, CLASSES, rng=_rng)
    optimizer = optim.SGD([*first.parameters(), *second.parameters()], lr=0.05)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        h = np.tanh(first(ns.tensor(X)))
        seen = h.detach()  # hit: no_gradient_path
        logits = second(seen)
        nn.cross_entropy(logits, LABELS).backward()
        optimizer.step()


def codes_are_rebuilt_from_arrays() -> None:
    first, second = nn.Linear(6, 8, rng=_rng), nn.Linear(8, CLASSES, rng=_rng)
    optimizer = optim.SGD([*first.parameters(), *second.parameters()], lr=0.05)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        h = np.tanh(first(ns.tensor(X))).numpy()
        codes = ns.tensor(h * 2)  # hit: no_gradient_path
        logits = second(codes)
        nn.cross_entropy(logits, LABELS).backward()
        optimizer.step()


def rounded_on_the_way() -> None:
    first, second = nn.Linear(6, 8, rng=_rng), nn.Linear(8, CLASSES, rng=_rng)
    optimizer = optim.SGD([*first.parameters(), *second.parameters()], lr=0.05)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        h = first(ns.tensor(X))
        steps = np.greater(h, 0)  # hit: no_gradient_path
        logits = second(steps.astype(np.float32))
        nn.cross_entropy(logits, LABELS).backward()
        optimizer.step()


# ---------------------------------------------------------------- norm_over_batch


def _layer_norm(x: Any) -> Any:
    centred = x - np.mean(x, axis=0)  # hit: norm_over_batch in layer_norm_over_rows
    return centred / np.sqrt(np.mean(np.square(centred), axis=0) + 1e-5)


class _Normalise(nn.Module):
    def forward(self, x: Any) -> Any:
        centred = x - np.mean(x, axis=0, keepdims=True)  # hit: norm_over_batch in single_rows
        return centred / np.sqrt(np.mean(np.square(centred), axis=0, keepdims=True) + 1e-5)


def layer_norm_over_rows() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(2)):
        optimizer.zero_grad()
        h = _layer_norm(ns.tensor(X))
        nn.cross_entropy(model(h), LABELS).backward()
        optimizer.step()


def single_rows() -> None:
    model, optimizer = scores(1)
    norm = _Normalise()
    for _ in ns.steps(range(2)):
        optimizer.zero_grad()
        nn.mse_loss(model(norm(ns.tensor(X)))[:, 0], TARGETS).backward()
        optimizer.step()
    with ns.no_grad():
        [model(norm(ns.tensor(X[row : row + 1]))).item() for row in range(4)]
