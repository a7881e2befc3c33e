"""What a compiled function reads besides its arguments is followed wherever its code reaches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn

X = np.ones(2)


class Layer:
    scale = 1.0

    def __init__(self) -> None:
        self.factor, self.act = 2.0, np.tanh

    def __call__(self, x: Any) -> Any:
        return self.act(x * self.factor) * self.scale


DEEP = 1.0


def deep(x: Any) -> Any:
    return x * DEEP


def through(function: Any, times: int) -> Any:
    for _ in range(times):
        function = (lambda inner: lambda x: inner(x))(function)
    return function


def test_whatever_the_code_reaches_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that are called, functions far away, partial functions, sets, classes."""
    layers, chosen, settings = [Layer(), Layer()], {"tanh"}, {"k": 2.0}
    part = functools.partial(lambda x, k: x * k * settings["k"], k=3.0)

    class Net(nn.Module):
        def __init__(self) -> None:
            self.act, self.acts = np.tanh, [np.sin]

        def forward(self, x: Any) -> Any:
            return self.head(self.act(x))

        def head(self, x: Any) -> Any:
            return self.acts[0](x) * part(x)

    net, far = Net(), through(deep, 7)

    def f(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return net(far(x)) if "tanh" in chosen else x

    run = ns.compile(f)
    x = ns.tensor(np.array([0.3, 0.4]))
    changes: list[tuple[Callable[[], Any], str]] = [
        (lambda: setattr(layers[1], "factor", 3.0), "layers[1].factor changed 2.0 → 3.0"),
        (lambda: setattr(layers[0], "act", np.sin), "layers[0].act is another ufunc"),
        (lambda: setattr(layers[0], "scale", 3.0), "layers[0].scale is set"),
        (lambda: monkeypatch.setattr(Layer, "scale", 5.0), "scale changed 1.0 → 5.0"),
        (lambda: setattr(net, "act", np.cos), "attribute net.act is another ufunc"),
        (lambda: net.acts.__setitem__(0, np.cos), "item net.acts[0] is another ufunc"),
        (lambda: settings.update(k=4.0), "item settings['k'] changed 2.0 → 4.0"),
        (lambda: monkeypatch.setitem(globals(), "DEEP", 2.0), "global DEEP changed 1.0 → 2.0"),
        (lambda: chosen.clear(), "what chosen holds has changed"),
    ]
    run(x)
    for change, message in changes:
        change()
        for _ in range(2):
            np.testing.assert_array_equal(run(x).numpy(), f(x).numpy())
        assert message in run.explain().traces[-1].reason
    assert len(run.explain().traces) == len(changes) + 1


def test_a_bound_method_that_is_compiled_follows_its_instance() -> None:
    class Rows(list[float]):
        def total(self, x: Any) -> Any:
            for item in self:
                x = x + item
            return x

    rows, layer = Rows([1.0, 2.0]), Layer()
    total, call = ns.compile(rows.total), ns.compile(layer.__call__)
    assert [total(np.ones(())).item(), call(np.ones(())).item()] == [4.0, np.tanh(2.0)]
    rows[0], layer.factor = 10.0, 0.0
    assert [total(np.ones(())).item(), call(np.ones(())).item()] == [13.0, 0.0]


def test_a_keyword_argument_is_reported_as_one() -> None:
    run = ns.compile(lambda x, n, m=1: x * n * m)
    for args, kwargs in (((X, 3), {}), ((X,), {"n": 3}), ((X, 3, 1), {}), ((X, 3), {"m": 1})):
        assert run(*args, **kwargs).tolist() == [3.0, 3.0]
    assert [trace.reason for trace in run.explain().traces] == [
        "the first call", "n: given by name now", "m: newly given", "m: given by name now",
    ]  # fmt: skip


step, weight, rate, settings = 0, ns.parameter(np.ones(2), name="weight"), 1.0, Layer()
optimizer = ns.optim.SGD([weight], lr=0.1)


def _trains(x: Any) -> Any:
    loss = np.sum((weight * x) ** 2)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def _attribute(x: Any) -> Any:
    return x * settings.factor + optimizer.rate


def _locals(x: Any) -> Any:
    step = 2.0
    return x * step + sum(step for step in (1.0, 2.0)) + (lambda rate: rate)(3.0)


def _in_a_class(x: Any) -> Any:
    class Inside:
        step = 3.0
        twice = step * 2

    return x * Inside.twice


def _global_in_a_nested_function(x: Any) -> Any:
    def inner(y: Any) -> Any:
        return next(y * rate for _ in range(2))

    return inner(x)


def test_only_what_is_loaded_as_a_global_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method's or attribute's name, a local's or an argument's is no global's."""
    monkeypatch.setattr(optimizer, "rate", 2.0, raising=False)
    runs = [ns.compile(item) for item in (_trains, _attribute, _locals, _in_a_class)]
    counted = ns.compile(_global_in_a_nested_function)
    for now in range(3):
        for name in ("step", "factor", "rate", "twice"):
            monkeypatch.setitem(globals(), name, float(now))
        for run in runs:
            run(X)
        np.testing.assert_array_equal(counted(X).numpy(), X * now)
    assert [len(run.explain().traces) for run in runs] == [1] * len(runs)
    assert "global rate changed 1.0 → 2.0" in counted.explain().traces[-1].reason


def test_what_a_function_imports_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    settings_t4 = types.ModuleType("settings_t4")
    settings_t4.scale = 2.0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "settings_t4", settings_t4)
    monkeypatch.setitem(globals(), "settings_t4", settings_t4)

    def f(x: Any) -> Any:
        import settings_t4  # type: ignore[import-not-found]

        return x * settings_t4.scale

    run = ns.compile(f)
    assert run(X).tolist() == [2, 2]
    settings_t4.scale = 3.0  # type: ignore[attr-defined]
    assert run(X).tolist() == [3, 3]


class _Trainer:
    """Counts its steps, under the name of what it calls of its optimizer."""

    def __init__(self) -> None:
        self.step = 0
        self.scale = 1.0
        self.w = ns.parameter(np.ones((3, 1)))
        self.optimizer = ns.optim.SGD([self.w], lr=0.1)
        self.traced = 0

    @ns.compile
    def train(self, x):
        note(self)
        self.optimizer.zero_grad()
        loss = np.mean(np.square(x @ self.w)) * self.scale
        loss.backward()
        self.optimizer.step()
        return loss


def note(trainer: Any) -> None:
    trainer.traced += 1


def test_a_counter_named_like_an_optimizer_method_is_not_a_dependency():
    trainer, x = _Trainer(), np.ones((4, 3))
    for trainer.step in range(4):
        trainer.train(x)
    assert trainer.traced == 1
    trainer.scale = 2.0
    trainer.train(x)
    assert trainer.traced == 2


class _Renaming(_Trainer):
    @ns.compile
    def train(self, x):
        note(self)
        optimizer = self.optimizer
        again = optimizer
        again.zero_grad()
        loss = np.mean(np.square(x @ self.w)) * self.scale
        loss.backward()
        optimizer.step()
        return loss


class _Choosing(_Trainer):
    @ns.compile
    def train(self, x):
        note(self)
        optimizer = self.optimizer
        loss = np.mean(np.square(x @ self.w)) * self.scale
        if self.scale < 2:
            optimizer = self
        return loss * float(optimizer.step)


def test_an_optimizer_with_its_own_name_is_recognised():
    trainer, x = _Renaming(), np.ones((4, 3))
    for trainer.step in range(4):
        trainer.train(x)
    assert trainer.traced == 1


def test_a_name_that_is_not_always_an_optimizer_is_not_treated_as_one():
    trainer, x = _Choosing(), np.ones((4, 3))
    assert [float(trainer.train(x)) for trainer.step in range(3)] == [0.0, 9.0, 18.0]
    assert trainer.traced == 3


def test_a_counter_of_a_network_is_counted_in_each_call():
    """What the code itself adds to: a trace that is played again would leave it as it is."""

    class Counting(nn.Module):
        def __init__(self) -> None:
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return x * 2

    network = Counting()
    run = ns.compile(network)
    for _ in range(4):
        run(X)
    assert network.calls == 4
    assert run.explain().traces[-1].reason == "attribute Counting.calls changed 2 → 3"


def test_a_setting_named_like_an_optimizer_method_is_a_dependency_if_read():
    trainer, x = _Trainer(), np.ones((4, 3))
    traced: list[int] = []

    @ns.compile
    def train(x):
        traced.append(trainer.step)
        assert trainer.optimizer.step
        return np.sum(x) * trainer.step

    assert [float(train(x)) for trainer.step in range(3)] == [0.0, 12.0, 24.0]
    assert traced == [0, 1, 2]
