"""Correct reshapes, steps and gates that look wrong; see `right`."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import LABELS, TARGETS, X, mlp, scores

RNG = np.random.default_rng(12)
N, FEATURES = X.shape


def a_reshape_and_back() -> None:
    """Numbers that were (24, 6) are taken as (6, 24), and given back their shape."""
    model, optimizer = scores()
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        doubled = (ns.tensor(X).reshape(-1) * 2).reshape(N, FEATURES)
        nn.cross_entropy(model(doubled), LABELS).backward()
        optimizer.step()


def features_as_a_picture() -> None:
    """A layer's features have no order yet, so any shape is as good as another."""
    make = nn.Linear(FEATURES, 12, rng=RNG)
    weight = ns.parameter(RNG.standard_normal((3, 4, 1)).astype("f"), name="weight")
    optimizer = optim.SGD([*make.parameters(), weight], lr=0.01)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        picture = make(ns.tensor(X)).reshape(N, 4, 3).reshape(N, 3, 4)
        score = np.einsum("nab,abc->nc", picture, weight)
        nn.mse(score, TARGETS[:, None]).backward()
        optimizer.step()


def a_parameter_in_another_shape() -> None:
    weight = ns.parameter(RNG.standard_normal((1, FEATURES)).astype("f"), name="weight")
    table = ns.parameter(RNG.standard_normal((FEATURES, N)).astype("f"), name="table")
    optimizer = optim.SGD([weight, table], lr=0.01)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        x = ns.tensor(X) + table.reshape(N, FEATURES)
        nn.mse(x @ weight.reshape(FEATURES, 1), TARGETS[:, None]).backward()
        optimizer.step()


def straight_through_steps() -> None:
    below, above = nn.Linear(FEATURES, 4, rng=RNG), nn.Linear(4, 1, rng=RNG)
    optimizer = optim.SGD([*below.parameters(), *above.parameters()], lr=0.01)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        x = below(ns.tensor(X))
        nn.mse(above(x + (np.round(x) - x).detach()), TARGETS[:, None]).backward()
        optimizer.step()


def steps_beside_the_way() -> None:
    """A gate of signs: the weight is trained through the other factor."""
    model = mlp(4)
    optimizer = optim.SGD(model, lr=0.01)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        x = model(ns.tensor(X))
        nn.mse(np.sum(np.sign(x) * x, axis=1), np.abs(TARGETS)).backward()
        optimizer.step()


def rounded_inputs() -> None:
    model = mlp(1)
    optimizer = optim.SGD(model, lr=0.01)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        nn.mse(model(np.round(ns.tensor(X))), TARGETS[:, None]).backward()
        optimizer.step()


def a_gate_over_its_experts() -> None:
    gate, experts = nn.Linear(FEATURES, 3, rng=RNG), nn.Linear(FEATURES, 3, rng=RNG)
    optimizer = optim.SGD([*gate.parameters(), *experts.parameters()], lr=0.05)
    for _ in ns.steps(range(3)):
        x = ns.tensor(X)
        optimizer.zero_grad()
        powers = np.exp(gate(x))
        shares = powers / np.sum(powers, axis=1, keepdims=True)
        made = experts(x)
        nn.mse(sum(shares[:, k] * made[:, k] for k in range(3)), TARGETS).backward()
        optimizer.step()


def weights_of_examples() -> None:
    """Learned weights of the examples, relative to the others in the batch."""
    judge, model = nn.Linear(FEATURES, 2, rng=RNG), mlp(2)
    optimizer = optim.SGD([*judge.parameters(), *model.parameters()], lr=0.05)
    for _ in ns.steps(range(3)):
        x = ns.tensor(X)
        optimizer.zero_grad()
        counts = ns.softmax(judge(x), axis=0)
        errors = (model(x) - ns.tensor(TARGETS[:, None])) ** 2
        np.sum(counts * errors, axis=0).mean().backward()
        optimizer.step()


def a_shortcut_that_moves_by_two() -> None:
    """The parallel branch reads the elements that the shortcut skips."""
    branch = nn.Conv1d(1, 4, 3, stride=2, padding=1, rng=RNG)
    shortcut, head = nn.Conv1d(1, 4, 1, stride=2, rng=RNG), nn.Linear(12, 1, rng=RNG)
    layers = [*branch.parameters(), *shortcut.parameters(), *head.parameters()]
    optimizer = optim.SGD(layers, lr=0.01)
    for _ in ns.steps(range(3)):
        series = ns.tensor(X[:, None, :])
        maps = nn.relu(branch(series)) + shortcut(series)
        optimizer.minimize(nn.mse(head(nn.flatten(maps, 1)), TARGETS[:, None]))


def patches_side_by_side() -> None:
    patches, head = nn.Conv2d(1, 4, 4, stride=4, rng=RNG), nn.Linear(16, 1, rng=RNG)
    optimizer = optim.SGD([*patches.parameters(), *head.parameters()], lr=0.01)
    pictures = RNG.standard_normal((N, 1, 8, 8)).astype("f")
    for _ in ns.steps(range(3)):
        maps = patches(ns.tensor(pictures))
        optimizer.minimize(nn.mse(head(nn.flatten(maps, 1)), TARGETS[:, None]))


def a_dilated_kernel_that_moves_by_two() -> None:
    """The kernel's two positions are three apart, so it reads odd and even elements."""
    apart = nn.Conv1d(1, 4, 2, stride=2, dilation=3, rng=RNG)
    head = nn.Linear(8, 1, rng=RNG)
    optimizer = optim.SGD([*apart.parameters(), *head.parameters()], lr=0.01)
    for _ in ns.steps(range(3)):
        maps = apart(ns.tensor(X[:, None, :]))
        optimizer.minimize(nn.mse(head(nn.flatten(maps, 1)), TARGETS[:, None]))
