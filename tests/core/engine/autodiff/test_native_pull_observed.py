"""Observed backward passes of the native core: the events, recordings and errors of Python's."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine import tracer
from nodescope.engine.autodiff import tape
from nodescope.errors import GradientError
from nodescope.events import Demand, GradientReached, NodeFinished, NodeStarted
from tests.core.engine.contents import content
from tests.core.engine.events_of import observed
from tests.core.engine.test_native_calls import bits, seen

Program = Callable[[], list[Any]]


def values(*shape: int, seed: int = 3, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def training() -> list[Any]:
    rng = np.random.default_rng(3)
    first, second = ns.nn.Linear(4, 3, rng=rng), ns.nn.Linear(3, 2, rng=rng)
    model = ns.nn.Sequential(first, ns.nn.relu, second)
    optimizer = ns.optim.SGD(model.parameters(), lr=0.1)
    results: list[Any] = []
    for number in ns.steps(range(5)):
        size = 6 if number < 3 else 5
        with ns.name_scope("loss"):
            inputs = ns.tensor(values(size, 4, seed=number), name="inputs")
            loss = ns.nn.cross_entropy(model(inputs), np.arange(size) % 2)
        loss.backward()
        optimizer.step()
        results += [loss, *(parameter.grad for parameter in model.parameters())]
        optimizer.zero_grad()
    return results


def accumulations() -> list[Any]:
    w, b = ns.parameter(values(3, 4), name="w"), ns.parameter(values(4), name="b")
    results: list[Any] = []
    for number in ns.steps(range(4)):
        h = np.tanh(w * b + b)
        for _ in range(1 + number % 2):
            h = h * w + h * h
        (h * 1.5).sum().backward()
        if number % 2:
            w.grad = b.grad = None
        results += [w.grad, b.grad]
    return results


def broadcasts() -> list[Any]:
    x = ns.parameter(values(4, 3), name="x")
    c = ns.parameter(values(3, dtype=np.float64), name="c")
    z = ns.parameter(np.ones((2, 1, 3), np.complex64), name="z")
    results: list[Any] = []
    for _ in ns.steps(range(4)):
        (abs((x * c + c) * z).sum() * 2.0).backward()
        results += [x.grad, c.grad, z.grad]
        x.grad = c.grad = z.grad = None
    return results


def shared() -> list[Any]:
    leaves = [ns.parameter(values(2, seed=i), name=f"p{i}") for i in range(30)]
    results: list[Any] = []
    for _ in ns.steps(range(3)):
        branches = [np.exp(x) * leaves[(7 * i) % 30] for i, x in enumerate(leaves)]
        np.concatenate(branches[:8]).sum().backward(np.float32(2), retain_graph=True)
        sum(branches[1:], branches[0]).sum().backward()
        results += [leaf.grad for leaf in leaves]
    return results


def shared_cotangents() -> list[Any]:
    x, y = ns.parameter(values(3), name="x"), ns.parameter(values(3, seed=4), name="y")
    given = ns.tensor(values(3, seed=5))
    results: list[Any] = []
    for number in ns.steps(range(4)):
        (x + y).backward(given)
        (x + x.reshape(3)).backward(given)
        if number:
            y.backward(given)
        for parameter in (x, y):
            assert parameter.grad is not None
            results += [parameter.grad, parameter.grad.numpy() is given.data]
        x.grad = None
        if number % 2:
            y.grad = None
    return results


def retained() -> list[Any]:
    w = ns.parameter(values(3), name="w")
    results: list[Any] = []
    for number in ns.steps(range(4)):
        loss = (np.exp(w) * w).sum()
        loss.backward(retain_graph=True)
        loss.backward(retain_graph=number != 2)
        if number == 2:
            with pytest.raises(GradientError):
                loss.backward()
        results.append(w.grad)
    return results


def second_derivatives() -> list[Any]:
    w = ns.parameter(values(3), name="w")
    results: list[Any] = []
    for _ in ns.steps(range(3)):
        (np.sin(w) * w).sum().backward(create_graph=True)
        first = w.grad
        w.grad = None
        assert first is not None
        (first * first).sum().backward()
        results += [first, w.grad]
        w.grad = None
        results.append(ns.grad(lambda x: (np.exp(x) * x).sum())(w))
    return results


def hooks() -> list[Any]:
    w = ns.parameter(values(4, 4), name="w")
    w.register_hook(lambda gradient: gradient * 0.5)
    results: list[Any] = []

    def look(gradient: ns.Tensor) -> None:
        results.append(gradient.numpy().tobytes())

    for number in ns.steps(range(4)):
        h = np.exp(w * 0.1) @ w
        if number != 1:
            h.register_hook(look)
            h.register_hook(lambda gradient: gradient + 1.0)
        h.retain_grad()
        np.mean(np.tanh(h) * w).backward()
        results += [w.grad, h.grad]
    return results


def several_outputs() -> list[Any]:
    w = ns.parameter(values(4, 4), name="w")
    results: list[Any] = []
    for _ in ns.steps(range(3)):
        low, high = np.linalg.eigh(w + w.T)
        left, right = np.split(w * 2.0, 2)
        (low.sum() * np.exp(left * right).sum() + high[0].sum()).backward()
        results.append(w.grad)
    return results


def normalised() -> list[Any]:
    """Rules that return all cotangents at once, outputs that are not used, and leaves that are
    written to between an operation and its gradient.
    """
    rng = np.random.default_rng(3)
    model = ns.nn.Sequential(
        ns.nn.Conv2d(2, 3, 3, padding=1, rng=rng), ns.nn.BatchNorm2d(3), ns.nn.relu,
        ns.nn.Conv2d(3, 3, 3, rng=rng), ns.nn.BatchNorm2d(3),
    )  # fmt: skip
    last = ns.nn.LayerNorm(3)
    results: list[Any] = []
    for number in ns.steps(range(4)):
        x = ns.tensor(values(4, 2, 5, 5, seed=number), name="x")
        h = last(model(x).transpose(0, 2, 3, 1))
        h = h + h * h.mean(axis=-1, keepdims=True)
        (h * h).sum().backward()
        results += [parameter.grad for parameter in (*model.parameters(), *last.parameters())]
        model.zero_grad()
    return results


def picked_twice() -> list[Any]:
    w = ns.parameter(values(3, 3), name="w")
    results: list[Any] = []
    for number in ns.steps(range(4)):
        low, high = np.linalg.eigh(w + w.T)
        loss = np.exp(low).sum() + (high[0] * low).sum() if number % 2 else low[0] * 2.0
        loss.backward(create_graph=number == 3, retain_graph=number == 2)
        if number == 2:
            (low.sum() + loss).backward()
            with pytest.raises(GradientError):
                high.sum().backward()
        results += [w.grad]
        w.grad = None
    return results


def without_tape() -> list[Any]:
    w = ns.parameter(values(3), name="w")
    results: list[Any] = []
    for _ in ns.steps(range(3)):
        with ns.no_grad():
            scale = w * 3.0
        (w * scale + (w * w).detach()).sum().backward()
        results += [w.grad, scale]
    return results


def writes() -> list[Any]:
    w = ns.parameter(values(3), name="w")
    results: list[Any] = []
    for number in ns.steps(range(4)):
        h = w * 2.0
        h[0] = float(number)
        h *= w
        y = (h * h).sum()
        if number == 2:
            with ns.no_grad():
                w += 1.0
            with pytest.raises(GradientError):
                y.backward()
        else:
            y.backward()
        results.append(w.grad)
    return results


def errors() -> list[Any]:
    @ns.custom_vjp
    def fragile(x: Any) -> Any:
        return np.exp(x)

    def forward(x: Any) -> Any:
        return np.exp(x), x

    def backward(saved: Any, ct: Any) -> Any:
        if failing:
            raise ValueError("no slope")
        return (ct * saved,)

    fragile.defvjp(forward, backward)
    w = ns.parameter(values(3), name="w")
    results: list[Any] = []
    for number in ns.steps(range(4)):
        failing = number in (1, 3)
        loss = (fragile(w * 2.0) * w).sum()
        try:
            loss.backward()
        except ValueError as error:
            results.append((str(error), getattr(error, "__notes__", [])))
        results.append(w.grad)
    return results


def wrong_gradients() -> list[Any]:
    """The rule of a power fails with a huge exponent, when warnings are errors."""
    w = ns.parameter(np.array([1e30, 2.0], np.float32), name="w")
    results: list[Any] = []
    for number in ns.steps(range(3)):
        loss = ((w * 1.0) ** 1.2).sum()
        try:
            with np.errstate(over="raise" if number == 1 else "ignore"):
                loss.backward(np.float32(1e38))
        except FloatingPointError as error:
            results.append((str(error), getattr(error, "__notes__", [])))
        results.append(w.grad)
        w.grad = None
    return results


def threads() -> list[Any]:
    w = ns.parameter(values(3), name="w")
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        with ns.name_scope(f"worker_{number}"):
            x = ns.parameter(values(3, seed=number), name=f"x{number}")
            (np.exp(x) * w.numpy()).sum().backward()
            results[number] = x.grad

    for _ in ns.steps(range(4)):
        for number in range(2):
            thread = threading.Thread(target=work, args=(number,))
            thread.start()
            thread.join()
        (w * w).sum().backward()
    return [results[0], results[1], w.grad]


def without_steps() -> list[Any]:
    w = ns.parameter(values(3, 3), name="w")
    for _ in range(6):
        x = ns.tensor(np.ones((2, 3), np.float32))
        for _ in range(3):
            x = np.tanh(x @ w)
        np.mean(x).backward()
    return [w.grad]


PROGRAMS = [
    training, accumulations, broadcasts, shared, shared_cotangents, retained, second_derivatives,
    hooks, several_outputs, normalised, picked_twice, without_tape, writes, errors,
    wrong_gradients, threads, without_steps,
]  # fmt: skip


def in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "_native_traced", None)


def pulled(program: Program, *, core: bool, starts: bool = False) -> Any:
    """Results and events, with what only concerns gradients."""
    with pytest.MonkeyPatch.context() as patch:
        if not core:
            in_python(patch)
        with observed(starts=starts) as events:
            results = program()
    places = [
        (type(event).__name__, event.node.name, event.node.scope, event.node.phase,
         event.node.forward, str(event.node.source))
        for event in events.all
        if isinstance(event, NodeFinished | NodeStarted)
    ]  # fmt: skip
    return [bits(result) for result in results], seen(events), places


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_events_and_results_are_those_of_python(program: Program) -> None:
    assert pulled(program, core=True) == pulled(program, core=False)


@pytest.mark.parametrize("program", [training, hooks, errors], ids=lambda item: item.__name__)
def test_probes_that_may_stop_see_the_same(program: Program) -> None:
    assert pulled(program, core=True, starts=True) == pulled(program, core=False, starts=True)


def test_the_core_runs_the_whole_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def loop(*_: Any, **__: Any) -> Any:
        raise AssertionError("the Python loop ran")

    monkeypatch.setattr(tape, "_pull", loop)
    with observed():
        training()
        accumulations()
        broadcasts()
        several_outputs()
        normalised()


@pytest.mark.parametrize("level", ["timing", "summary", "values"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_recordings_are_those_of_python(
    program: Program, level: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ns.record(tmp_path / "core.nscope", level=level):
        results = program()
    in_python(monkeypatch)
    with ns.record(tmp_path / "python.nscope", level=level):
        assert [bits(result) for result in program()] == [bits(result) for result in results]
    core, python = content(tmp_path / "core.nscope"), content(tmp_path / "python.nscope")
    for one, other in zip(core.pop("arrays"), python.pop("arrays"), strict=True):
        assert one == other or one is None or other is None
    for name, rows in python.items():
        assert core[name] == rows, name


def test_a_probe_of_gradients_is_told_each_time() -> None:
    def reached(core: bool) -> list[Any]:
        with pytest.MonkeyPatch.context() as patch:
            if not core:
                in_python(patch)
            with observed() as events:
                events.bus.want(events, Demand(gradients=True))
                training()
        return [event.array.data.tobytes() for event in events.of(GradientReached)]

    assert reached(core=True) == reached(core=False) != []


def test_a_hook_may_end_the_observation() -> None:
    w = ns.parameter(values(3), name="w")
    with observed() as events:
        for number in ns.steps(range(3)):
            h = w * w
            if number == 2:
                h.register_hook(lambda gradient: tracer.unobserve())
            h.sum().backward()
    assert events.all
    assert w.grad is not None
    np.testing.assert_array_equal(w.grad.numpy(), 6 * w.numpy())


def test_a_number_keeps_the_tape() -> None:
    w = ns.parameter(values(3), name="w")
    loss = (w * w).sum()
    keep: Any = 1
    loss.backward(retain_graph=keep)
    loss.backward()
    assert w.grad is not None
    np.testing.assert_array_equal(w.grad.numpy(), 4 * w.numpy())


def test_nothing_leaks() -> None:
    w = ns.parameter(values(3), name="w")

    def step() -> None:
        low, high = np.linalg.eigh(np.exp(w)[:, None] * w)
        loss = (np.exp(w * w)[1:] * w[:2] + w.sum()).mean() * low.sum() + high[0, 0]
        loss.backward()
        with pytest.raises(GradientError):
            (low * w).sum().backward()
        w.grad = None

    def counts() -> list[int]:
        return [sys.getrefcount(item) for item in (w, w.data, None, tape.TRACED, "backward")]

    with observed() as events:
        for number in ns.steps(range(120)):
            step()
            events.all.clear()
            if number == 20:
                gc.collect()
                before = counts()
        gc.collect()
        assert all(abs(new - old) < 30 for new, old in zip(counts(), before, strict=True))
