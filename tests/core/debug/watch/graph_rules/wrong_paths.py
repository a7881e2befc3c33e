"""Wrong axes, step functions without a slope, and skipped inputs; see `wrong`."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import LABELS, TARGETS, X, scores

RNG = np.random.default_rng(11)
N, FEATURES = X.shape

# ---------------------------------------------------------------- reshaped_axes


def reshaped_where_a_transpose_is_meant() -> None:
    model, optimizer = scores()
    raw = ns.tensor(np.ascontiguousarray(X.T), name="raw")
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        rows = raw.reshape(N, FEATURES)  # hit: reshaped_axes
        nn.cross_entropy(model(rows), LABELS).backward()
        optimizer.step()


def time_first_by_a_reshape() -> None:
    series = RNG.standard_normal((5, 8, FEATURES)).astype("f")
    model, optimizer = scores()
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        first = np.reshape(ns.tensor(series), (8, 5, FEATURES))  # hit: reshaped_axes
        nn.cross_entropy(model(first.mean(axis=1)), LABELS[:8]).backward()
        optimizer.step()


# ---------------------------------------------------------------- zero_slope


def two_steps_side_by_side() -> None:
    """Neither alone cuts the weight off."""
    weight = ns.parameter(np.full((FEATURES, 1), 0.3), name="weight")
    above = ns.parameter(np.ones((1, 1)), name="above")
    optimizer = optim.SGD([weight, above], lr=0.01)
    for _ in ns.steps(range(3)):
        whole = np.round(ns.tensor(X) @ weight)  # hit: zero_slope
        parts = np.floor(ns.tensor(X) @ weight * 4)
        optimizer.minimize(nn.mse(whole @ above + parts, TARGETS[:, None]))


def signs_on_the_way() -> None:
    below, above = nn.Linear(FEATURES, 4, rng=RNG), nn.Linear(4, 1, rng=RNG)
    optimizer = optim.SGD([*below.parameters(), *above.parameters()], lr=0.01)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        signs = np.sign(below(ns.tensor(X)))  # hit: zero_slope
        nn.mse(above(signs), TARGETS[:, None]).backward()
        optimizer.step()


def levels_on_the_way() -> None:
    weight = ns.parameter(np.ones((FEATURES, 1), "f"), name="weight")
    scale = ns.parameter(np.ones(1, "f"), name="scale")
    optimizer = optim.SGD([weight, scale], lr=0.01)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        levels = np.floor(ns.tensor(X) @ weight * 8)  # hit: zero_slope
        nn.mse(levels * scale, TARGETS[:, None]).backward()
        optimizer.step()


# ---------------------------------------------------------------- attention_over_batch


def a_gate_by_columns() -> None:
    gate, one, other = (nn.Linear(FEATURES, size, rng=RNG) for size in (2, 1, 1))
    modules = (gate, one, other)
    optimizer = optim.SGD(
        [parameter for part in modules for parameter in part.parameters()], lr=0.05
    )
    for _ in ns.steps(range(3)):
        x = ns.tensor(X)
        optimizer.zero_grad()
        shares = ns.softmax(gate(x), axis=0)  # hit: attention_over_batch
        nn.mse(shares[:, :1] * one(x) + shares[:, 1:] * other(x), TARGETS[:, None]).backward()
        optimizer.step()


def a_softmax_written_out() -> None:
    gate, experts = nn.Linear(FEATURES, 3, rng=RNG), nn.Linear(FEATURES, 3, rng=RNG)
    optimizer = optim.SGD([*gate.parameters(), *experts.parameters()], lr=0.05)
    for _ in ns.steps(range(3)):
        x = ns.tensor(X)
        optimizer.zero_grad()
        powers = np.exp(gate(x))
        shares = powers / np.sum(powers, axis=0)  # hit: attention_over_batch
        nn.mse(np.einsum("be,be->b", shares, experts(x)), TARGETS).backward()
        optimizer.step()


# ---------------------------------------------------------------- inputs_skipped


def a_kernel_of_one_that_moves_by_two() -> None:
    narrow, head = nn.Conv1d(1, 4, 1, stride=2, rng=RNG), nn.Linear(12, 1, rng=RNG)
    optimizer = optim.SGD([*narrow.parameters(), *head.parameters()], lr=0.01)
    for _ in ns.steps(range(3)):
        maps = narrow(ns.tensor(X[:, None, :]))  # hit: inputs_skipped
        optimizer.minimize(nn.mse(head(nn.flatten(maps, 1)), TARGETS[:, None]))


def kernels_that_lie_apart_in_pictures() -> None:
    wide, head = nn.Conv2d(1, 2, 2, stride=4, rng=RNG), nn.Linear(8, 1, rng=RNG)
    optimizer = optim.SGD([*wide.parameters(), *head.parameters()], lr=0.01)
    pictures = RNG.standard_normal((N, 1, 8, 8)).astype("f")
    for _ in ns.steps(range(3)):
        maps = wide(ns.tensor(pictures))  # hit: inputs_skipped
        optimizer.minimize(nn.mse(head(nn.flatten(maps, 1)), TARGETS[:, None]))
