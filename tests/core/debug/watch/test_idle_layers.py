"""Layers that do nothing: the last one, and one that is called several times; where it ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import LABELS, TARGETS, X, mlp
from tests.core.debug.watch.graph_rules.running import judge


def _dead_last_relu() -> None:
    body, last = mlp(8), nn.Linear(8, 2, rng=np.random.default_rng(1))
    ns.assign(last.bias, np.full(2, -30.0, "f"))
    optimizer = optim.SGD([*body.parameters(), *last.parameters()], lr=0.1)
    for _ in ns.steps(range(12)):
        scores = nn.relu(last(body(ns.tensor(X))))
        optimizer.minimize(nn.cross_entropy(scores, LABELS % 2))


def _critic_of_two_kinds() -> None:
    """Its units are active for what is on one side only, and it is asked for each side apart."""
    rng = np.random.default_rng(2)
    first, last = nn.Linear(2, 8, rng=rng), nn.Linear(8, 1, rng=rng)
    ns.assign(first.weight, np.ones(first.weight.shape, "f"))
    optimizer = optim.SGD([*first.parameters(), *last.parameters()], lr=1e-3)
    for _ in ns.steps(range(12)):
        near, far = (rng.normal(at, 0.3, (64, 2)).astype("f") for at in (4.0, -4.0))
        liked = np.mean(last(nn.relu(first(ns.tensor(near)))))
        optimizer.minimize(np.mean(last(nn.relu(first(ns.tensor(far))))) - liked)


def _relu_that_fits() -> None:
    """One unit, of which some examples are zero."""
    body, last = mlp(8), nn.Linear(8, 1, rng=np.random.default_rng(1))
    optimizer = optim.Adam([*body.parameters(), *last.parameters()], lr=0.02)
    for _ in ns.steps(range(12)):
        told = nn.relu(last(body(ns.tensor(X))) + 0.5)
        optimizer.minimize(nn.mse(told, np.maximum(TARGETS, 0)[:, None]))


def test_a_relu_after_the_last_layer_is_named(tmp_path: Path) -> None:
    judged = judge(_dead_last_relu, tmp_path / "run.nscope", ["dead_layer", "gradient_lost"])
    texts = {hit.rule: hit.text for hit, _ in judged.hits}
    assert "2 of 2 units are dead" in texts["dead_layer"]
    assert "it ends at relu (line " in texts["gradient_lost"]


def test_a_layer_is_alive_if_one_of_its_calls_is(tmp_path: Path) -> None:
    for number, program in enumerate((_critic_of_two_kinds, _relu_that_fits)):
        judged = judge(program, tmp_path / f"{number}.nscope", ["dead_layer"])
        assert [hit.text for hit, _ in judged.hits] == []
