"""Compiled scans under observation: the nodes and gradients of eager execution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from tests.core.engine.events_of import observed

X = np.random.default_rng(3).standard_normal((4, 3))


def plain(w: Any) -> Callable[[Any], Any]:
    def loss(x: Any) -> Any:
        last, rows = ns.scan(lambda c, r: (np.tanh(c * w + r), np.exp(c * r)), np.zeros(3), x)
        return rows.sum() + last.sum()

    return loss


def nested(w: Any) -> Callable[[Any], Any]:
    def inner(c: Any, r: Any) -> Any:
        last, _ = ns.scan(lambda d, s: (np.tanh(d * w) + s, d * 1.0), c, r)
        return last * r[0], np.sin(last)

    def loss(x: Any) -> Any:
        last, rows = ns.scan(inner, np.zeros(3), np.stack([x, x], axis=1))
        return rows.sum() + last.sum()

    return loss


def backwards(w: Any) -> Callable[[Any], Any]:
    def loss(x: Any) -> Any:
        return ns.scan(lambda c, r: (np.tanh(c * w + r), c), np.zeros(3), x, reverse=True)[1].sum()

    return loss


@pytest.mark.parametrize("program", [plain, nested, backwards])
def test_nodes_and_gradients_are_those_of_eager_execution(program: Any) -> None:
    w = ns.parameter(np.full(3, 0.5), name="w")
    eager = program(w)
    compiled = ns.compile(eager, backend="plain", passes="none")
    for x in (X, X[:2], X):
        seen = []
        for function in (eager, compiled):
            w.grad = None
            with observed() as events:
                function(ns.tensor(x)).backward()
            assert w.grad is not None
            seen.append((events.ran, w.grad.numpy().tobytes()))
        assert seen[0] == seen[1]
        assert "scan/stack" in seen[0][0]


@pytest.mark.parametrize("program", [plain, nested])
def test_second_derivatives_use_what_was_kept(program: Any) -> None:
    def squared(function: Any, w: Any) -> Any:
        def f(x: Any) -> Any:
            return (ns.grad(function)(x) ** 2).sum()

        return ns.grad(f)(ns.tensor(X)).numpy()

    w = ns.parameter(np.full(3, 0.5), name="w")
    expected = squared(program(w), w)
    compiled = ns.compile(program(w))
    np.testing.assert_allclose(squared(compiled, w), expected, rtol=1e-12)
    with observed():
        np.testing.assert_allclose(squared(compiled, w), expected, rtol=1e-12)
