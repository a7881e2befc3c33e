"""Tensors made in each step, read by the native core: the events and the order are Python's."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nodescope as ns
from nodescope.engine import tracer
from tests.core.engine.events_of import observed
from tests.core.engine.test_native_calls import Program, check_same, ran

STEPS = 6


def batch(number: int, size: int = 3) -> np.ndarray:
    return np.arange(size, dtype=np.float32) + np.float32(number)


def same_names() -> list[Any]:
    results = []
    for number in ns.steps(range(STEPS)):
        first, second = (ns.tensor(batch(number), name="x") for _ in range(2))
        results += [first * second, ns.tensor(batch(number)) + first]
    return results


def other_shapes() -> list[Any]:
    results = []
    for number in ns.steps(range(STEPS)):
        size, dtype = 2 if number == 3 else 3, np.float64 if number == 4 else np.float32
        results.append(ns.tensor(batch(number, size), name="x") + np.ones(size, dtype))
    return results


def other_counts() -> list[Any]:
    results: list[Any] = []
    for number in ns.steps(range(STEPS)):
        names = ("y", "x", "x")[: number % 4]
        results += [ns.tensor(batch(number), name=name) * 2.0 for name in names]
    return results


def in_scopes() -> list[Any]:
    results = []
    for number in ns.steps(range(STEPS)):
        x = ns.tensor(batch(number), name="a/x")
        with ns.name_scope("inner"):
            y = ns.tensor(batch(number), name="x")
            results.append(x[np.array([0, 2])] + y[np.array([number % 3, 1])])
    return results


def in_threads() -> list[Any]:
    results: list[Any] = []
    for number in ns.steps(range(STEPS)):
        thread = threading.Thread(
            target=lambda number=number: results.append(ns.tensor(batch(number), name="x") * 2.0)
        )
        thread.start()
        thread.join()
        results.append(ns.tensor(batch(number), name="x") * 3.0)
    return results


def without_steps() -> list[Any]:
    results = [ns.tensor(batch(number), name="x") * 2.0 for number in range(STEPS)]
    results += [ns.tensor(batch(number), name="x") * 2.0 for number in ns.steps(range(STEPS))]
    return results + [ns.tensor(batch(number), name="x") * 2.0 for number in range(STEPS)]


def with_gradients() -> list[Any]:
    results = []
    for number in ns.steps(range(STEPS)):
        x = ns.tensor(batch(number), name="x", requires_grad=True)
        (x[np.array([0, 1, 1])] * x).sum().backward()
        results.append(x.grad)
    return results


PROGRAMS = [
    same_names, other_shapes, other_counts, in_scopes, in_threads, without_steps, with_gradients,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_reads_are_pythons(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    check_same(program, monkeypatch)


@given(st.lists(st.lists(st.integers(0, 5), max_size=6), min_size=2, max_size=6))
def test_reads_in_any_order_are_pythons(steps: list[list[int]]) -> None:
    def program() -> list[Any]:
        results = []
        for order in ns.steps(steps):
            for place in order:
                name = ("x", "y", None)[place % 3]
                results.append(ns.tensor(batch(place, 2 + place // 3), name=name) * 2.0)
        return results

    with pytest.MonkeyPatch.context() as monkeypatch:
        by_core, _ = ran(program, monkeypatch, core=True)
        by_python, _ = ran(program, monkeypatch, core=False)
    assert by_core == by_python


def test_python_reads_a_batch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read = tracer.Tracer.read_leaf

    def counted(self: tracer.Tracer, tensor: Any, port: int) -> Any:
        reads.append(self.step)
        return read(self, tensor, port)

    monkeypatch.setattr(tracer.Tracer, "read_leaf", counted)
    with observed():
        for number in ns.steps(range(STEPS)):
            x = ns.tensor(batch(number), name="x")
            assert (x[np.array([0, 1])] * 2.0).shape == (2,)
    assert reads == [1, 1]


def test_a_name_for_each_step_does_not_fill_the_memory() -> None:
    with observed():
        for number in ns.steps(range(5000)):
            ns.tensor(batch(number), name=f"x{number}")
        attached = tracer.dispatch_mode.attending()
        assert attached is not None
        assert len(attached.reads) <= 4096
