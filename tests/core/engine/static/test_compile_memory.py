"""Compiled functions: memory ownership of results and state.

Invariant: as with the plain function, writing to one tensor changes no other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from tests.core.engine.events_of import observed


@pytest.mark.parametrize("observing", [False, True])
@pytest.mark.parametrize("backend", ["numpy", "plain"])
def test_state_has_memory_of_its_own(backend: str, observing: bool) -> None:
    def run(compiled: Callable[[Any], Any]) -> list[Any]:
        a, b, c = (ns.parameter(np.full(3, float(n)), name=name) for n, name in enumerate("abc", 1))

        @compiled
        def step(x: Any) -> tuple[Any, Any]:
            y = x * 2.0
            with ns.no_grad():
                ns.assign(a, y)
                ns.assign(b, x)
                ns.assign(c, a)
            return y, np.exp(x)

        results = []
        for _ in range(2):
            x = ns.tensor(np.arange(3.0))
            y, z = step(x)
            with ns.no_grad():
                for i, item in enumerate((a, b, c, y, z)):
                    item[i % 3] = 10.0 * i
            results += [array.tolist() for array in (x, y, z, a, b, c)]
        return results

    expected = run(lambda f: f)
    with observed() if observing else contextlib.nullcontext():
        assert run(ns.compile(backend=backend)) == expected


def test_tensors_that_the_function_makes_are_made_on_each_call() -> None:
    @ns.compile
    def f(x: Any) -> tuple[Any, Any, Any]:
        return ns.zeros((2,)), ns.tensor([1.0, 2.0]), x * 1.0

    for _ in range(3):
        zeros, numbers, _ = f(ns.tensor(np.ones(2)))
        assert (zeros.tolist(), numbers.tolist()) == ([0.0, 0.0], [1.0, 2.0])
        zeros[0] = numbers[0] = 9.0


@pytest.mark.parametrize("backend", ["numpy", "plain", "c"])
@pytest.mark.parametrize("how", ["cond", "while_loop", "scan"])
def test_state_that_comes_through_a_loop_has_memory_of_its_own(how: str, backend: str) -> None:
    p = ns.parameter(np.zeros(3), name="p")

    @ns.compile(backend=backend)
    def step(x: Any, flag: Any) -> Any:
        if how == "cond":
            y = ns.cond(flag, lambda a: a * 2.0, lambda a: a, x)
        elif how == "while_loop":
            y = ns.while_loop(lambda c: np.sum(c) < 0, lambda c: c + 1.0, x)
        else:
            y = ns.scan(lambda c, _: (c, None), x, None, length=2)[0]
        ns.assign(p, y)
        return np.sum(y)

    for _ in range(2):
        x = ns.tensor(np.ones(3))
        step(x, ns.tensor(np.array(False)))
        x[0] = 7.0
        assert p.numpy().tolist() == [1.0, 1.0, 1.0]
