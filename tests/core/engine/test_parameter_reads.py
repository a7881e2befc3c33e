"""Parameters that are read again, by the native core: the events and the order are Python's."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nodescope as ns
from nodescope import native
from nodescope.engine import dispatch_mode, tracer
from nodescope.record.recording import Recording
from tests.core.engine.events_of import observed
from tests.core.engine.test_native_calls import Program, check_same, ran

STEPS = 7


def named() -> list[Any]:
    names = ("a/w", "a/b", "b/w", "b/w", "b", "c/d/e")
    return [ns.parameter([1.0, float(n)], name=name) for n, name in enumerate(names)]


def other_orders() -> list[Any]:
    parameters, results = named(), []
    for number in ns.steps(range(STEPS)):
        order = parameters if number % 3 else parameters[::-1]
        results += [one * 2.0 + one for one in order]
    return results


def other_shapes() -> list[Any]:
    w, results = ns.parameter([1.0, 2.0], name="w"), []
    for number in ns.steps(range(STEPS)):
        if number in (3, 5):
            w.data = np.ones(number, np.float32 if number == 5 else np.float64)
        results.append(w + w)
    return results


def others_of_the_same_name() -> list[Any]:
    results = []
    for number in ns.steps(range(STEPS)):
        if number % 2 == 0:
            w = ns.parameter([1.0, float(number)], name="model/w")
        results.append(w * w)
    return results


def other_names() -> list[Any]:
    w, results = ns.parameter([1.0, 2.0], name="first"), []
    for number in ns.steps(range(STEPS)):
        if number == 3:
            w._name = "model/second"  # As a module names its parameters.
        results.append(w * 3.0)
    return results


def in_scopes() -> list[Any]:
    w, results = ns.parameter([1.0, 2.0], name="w"), []
    for number in ns.steps(range(STEPS)):
        with ns.name_scope(f"scope_{number % 2}"), ns.no_grad():
            results.append(w * w)
        results.append(w + 1.0)
    return results


def in_threads() -> list[Any]:
    w, results = ns.parameter([1.0, 2.0], name="model/w"), []
    for number in ns.steps(range(STEPS)):
        if number % 3:
            results.append(w * 2.0)
            continue
        thread = threading.Thread(target=lambda: results.append(w * 2.0))
        thread.start()
        thread.join()
    return results


def after_steps() -> list[Any]:
    w = ns.parameter([1.0, 2.0], name="w")
    results = [w * 2.0 for _ in ns.steps(range(STEPS))]
    results.append(w * 2.0)
    return results + [w * 2.0 for _ in ns.steps(range(3))]


def written() -> list[Any]:
    w, results = ns.parameter([1.0, 2.0], name="w"), []
    for number in ns.steps(range(STEPS)):
        results.append(w * 2.0)
        if number % 2:
            ns.assign(w, w.numpy() + 1.0)
        results.append(w * w)
    return results


PROGRAMS = [
    other_orders, other_shapes, others_of_the_same_name, other_names, in_scopes, in_threads,
    after_steps, written,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_core_reads_parameters_like_python(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_same(program, monkeypatch)


@given(st.lists(st.lists(st.integers(0, 5), max_size=8), min_size=2, max_size=6))
def test_the_core_reads_parameters_in_any_order_like_python(steps: list[list[int]]) -> None:
    def program() -> list[Any]:
        parameters, results = named(), []
        for number in ns.steps(range(len(steps))):
            results += [parameters[place] * 2.0 for place in steps[number]]
        return results

    with pytest.MonkeyPatch.context() as patch:
        assert ran(program, patch, core=True)[0] == ran(program, patch, core=False)[0]


def test_later_reads_run_in_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native.Calls is not None, "no native core"
    left: list[int] = []
    read = tracer.Tracer.read_leaf

    def counted(self: Any, tensor: Any, port: int) -> Any:
        left.append(self.step)
        return read(self, tensor, port)

    monkeypatch.setattr(tracer.Tracer, "read_leaf", counted)
    with observed() as events:
        parameters = named()
        for _ in ns.steps(range(5)):
            for one in parameters:
                one * 2.0
    assert left == [1] * len(parameters)
    assert events.ran.count("a/w") == events.ran.count("b/w_1") == 5


@pytest.mark.parametrize("level", ["timing", "summary", "values"])
def test_the_core_records_what_python_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: Any
) -> None:
    def recorded(path: Path) -> list[Any]:
        w, large = ns.parameter(np.ones(3), name="w"), ns.parameter(np.ones(20_000), name="large")
        with ns.record(path, level=level):
            for _ in ns.steps(range(5)):
                (w * 2.0).sum() + large.sum()
        with Recording.open(path) as recording:
            names = {row.node.id: row.node.name for row in recording.nodes()}
            return [
                (row.seq, names[row.node], row.step, row.flags) for row in recording.executions()
            ]

    by_core = recorded(tmp_path / "core.nscope")
    monkeypatch.setattr(native, "Calls", None)
    assert recorded(tmp_path / "python.nscope") == by_core


def test_freed_parameters_are_forgotten() -> None:
    with observed():
        observer = dispatch_mode.attending()
        for _ in ns.steps(range(5)):
            w = ns.parameter([1.0], name="w")
            w * 2.0
        for _ in ns.steps(range(3)):
            pass
        del w
        gc.collect()
        assert not observer.reads
