"""When a compiled function is traced again, and what it says of it; dynamic dimensions."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim
from nodescope.engine.static.sizes import Unfit, fit

SCALE = 1.0
SETTINGS = {"power": 2}


def last(f: Any) -> str:
    return str(f.explain().traces[-1].reason)


def check(f: Any, message: list[str]) -> None:
    assert [trace.reason for trace in f.explain().traces] == ["the first call", *message]


def test_arguments_that_differ() -> None:
    @ns.compile(dynamic=False)
    def f(x: Any, lr: Any = 0.1, tree: Any = None) -> Any:
        return x * lr

    x = np.ones((32, 4), np.float32)
    for args in ((x,), (x, 0.1), (x, 0.2), (x[:16], 0.2), (x.astype(float)[:16], 0.2),
                 (ns.tensor(x[:16]), 0.2), (ns.tensor(x[:16]), 0.2, {"a": 1})):  # fmt: skip
        f(*args)
    f(x, 0.1)
    check(
        f,
        [
            "lr: newly given",
            "argument lr: 0.1 → 0.2 (a Python number is part of the signature: pass "
            "np.float32(...) to trace it)",
            "x: shape (32, 4) → (16, 4)",
            "x: dtype float32 → float64",
            "x: a NumPy array → a tensor",
            "tree['a']: newly given",
        ],
    )


def test_globals_closures_and_settings_that_change() -> None:
    global SCALE
    w = ns.parameter(np.ones(2), name="w")
    factor, table = 3.0, {"w": w, "k": 1}

    def helper(x: Any) -> Any:
        return x ** SETTINGS["power"]

    @ns.compile
    def f(x: Any) -> Any:
        return helper(x) * w * SCALE * factor * table["k"]

    def value() -> float:
        return float(f(np.full(2, 2.0)).sum())

    try:
        assert value() == 24.0
        SCALE = 2.0
        assert value() == 48.0
        factor = 1.0
        assert value() == 16.0
        SETTINGS["power"] = 3
        assert value() == 32.0
        table["k"] = 2
        assert value() == 64.0
        w = ns.parameter(np.full(2, 2.0), name="v")
        assert value() == 128.0
        assert value() == 128.0
    finally:
        SCALE = 1.0
        SETTINGS["power"] = 2
    check(
        f,
        [
            "global SCALE changed 1.0 → 2.0",
            "closure factor changed 3.0 → 1.0",
            "item SETTINGS['power'] changed 2 → 3",
            "item table['k'] changed 1 → 2",
            "closure w is another tensor",
        ],
    )


def test_modules_that_change() -> None:
    model = nn.Sequential(nn.Linear(3, 3, rng=np.random.default_rng(0)), nn.Dropout(0.5, rng=1))
    f = ns.compile(lambda x: model(x).sum())
    x = np.ones((2, 3), np.float32)
    f(x)
    model.eval()
    assert f(x).item() == f(x).item() == model(x).sum().item()
    model.train()
    f(x)
    assert last(f) == "attribute model.training changed True → False"
    model.layer[0].weight = ns.parameter(np.zeros((3, 3)), np.float32, name="other")
    model.eval()
    assert f(x).item() == model(x).sum().item()
    assert last(f) == "attribute model.layer[0].weight is another tensor"


def test_modules_in_arguments_that_change() -> None:
    f = ns.compile(lambda model, x: model(x).sum())
    first, two = (nn.Linear(2, 2, rng=np.random.default_rng(i)) for i in range(2))
    x = np.ones((1, 2), np.float32)
    for model in (first, two, first):
        assert f(model, x).item() == model(x).sum().item()
    assert len(f.explain().traces) == 2
    first.weight = ns.parameter(np.zeros((2, 2)), np.float32, name="weight")
    assert f(first, x).item() == first(x).sum().item()
    assert last(f) == "attribute model.weight is another tensor"


class Settings:
    offset = 1.0

    def __init__(self) -> None:
        self.factor = 2.0
        self.inner = Slots()

    def applied(self, x: Any) -> Any:
        return x * self.factor + self.offset + self.power

    @property
    def power(self) -> float:
        return self.inner.exponent


class Slots:
    __slots__ = ("exponent",)

    def __init__(self) -> None:
        self.exponent = 3.0


def test_objects_are_followed_into_their_methods() -> None:
    settings = Settings()
    f = ns.compile(lambda x: settings.applied(x))
    x = np.ones(())

    def check_value(wanted: float, reason: str) -> None:
        assert f(ns.tensor(x)).item() == wanted
        assert last(f) == reason

    check_value(6.0, "the first call")
    settings.factor = 4.0
    check_value(8.0, "attribute settings.factor changed 2.0 → 4.0")
    settings.inner.exponent = 5.0
    check_value(10.0, "attribute settings.inner.exponent changed 3.0 → 5.0")
    settings.inner = Slots()
    check_value(8.0, "attribute settings.inner is another Slots")
    try:
        Settings.offset = 0.0
        check_value(7.0, "attribute settings.offset changed 1.0 → 0.0")
    finally:
        Settings.offset = 1.0


def test_what_the_function_changes_itself_is_traced_each_time() -> None:
    class Counter:
        count = 0

        def __init__(self) -> None:
            self.count = 0

    counter = Counter()

    @ns.compile
    def f(x: Any) -> Any:
        counter.count += 1
        return x * counter.count

    assert [f(np.ones(1)).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert last(f) == "attribute counter.count changed 1 → 2"


def test_gradients_that_are_there_or_not() -> None:
    w = ns.parameter(np.ones(2), name="w")

    @ns.compile
    def f(x: Any) -> None:
        (w * x).sum().backward()

    for i in range(3):
        f(np.ones(2))
        assert w.grad.numpy().tolist() == [i + 1.0] * 2
    check(f, ["w.grad was None, but is not now"])
    w.grad = None
    f(np.ones(2))
    assert w.grad.numpy().tolist() == [1.0, 1.0]
    assert len(f.explain().traces) == 2


def test_an_optimizer_with_other_settings() -> None:
    results = []
    for static in (True, False):
        w = ns.parameter(np.ones(2), name="w")
        opt = optim.SGD([w], lr=0.1, weight_decay=0.0)

        def step(w: Any = w, opt: Any = opt) -> None:
            opt.zero_grad()
            (w * w).sum().backward()
            opt.step()

        run = ns.compile(step) if static else step
        run()
        opt.weight_decay = 0.5
        run()
        opt.lr = 0.01
        run()
        results.append((w.numpy(), opt.steps))
        if static:
            check(run, ["the optimizer's settings differ from those when it was traced"])
    np.testing.assert_equal(results[0], results[1])


def test_many_traces_are_reported_once() -> None:
    f = ns.compile(lambda n: ns.tensor(1.0) * n)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(30):
            f(n)
    assert len(caught) == 1
    assert "traced 12 times, last because of: argument n: 10 → 11" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_explain_lists_what_a_graph_holds() -> None:
    w = ns.parameter(np.ones((3, 2), np.float32), name="w")
    opt = optim.Adam([w], lr=0.1)
    table = np.arange(6.0, dtype=np.float32).reshape(2, 3)

    @ns.compile
    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = ((x * table) @ w).sum()
        loss.backward()
        opt.step()
        return loss

    step(np.ones((2, 3), np.float32))
    (trace,) = step.explain().traces
    assert (trace.call, trace.calls, trace.arguments) == (1, 1, ("x: float32 (2, 3)",))
    assert [(c.nbytes, str(c.spec)) for c in trace.constants] == [(24, "float32 (2, 3)")]
    assert trace.constants[0].source.endswith(f"{step.__wrapped__.__code__.co_firstlineno + 3}")
    assert [c.name for c in trace.captured] == [
        "w", "optimizer/w/moment_1", "optimizer/w/moment_2",
    ]  # fmt: skip
    assert trace.writes == ("w", "optimizer/w/moment_1", "optimizer/w/moment_2")
    assert trace.grads == ("w",)
    assert set(trace.phases) == {"forward", "backward", "optimizer"}
    text = str(step.explain())
    for part in ("step: called once, traced once", "the first call", "24 bytes, from",
                 "writes: w, optimizer/w/moment_1", "sets .grad of: w"):  # fmt: skip
        assert part in text


# Dynamic leading dimensions


def model(x: Any, y: Any) -> Any:
    h = np.tanh(x.reshape(x.shape[0], -1) @ np.full((6, 4), 0.1))
    mean = h.sum() / x.shape[0]
    spread = np.var(h, axis=0, ddof=1).sum()
    tail = h[1 : x.shape[0] - 1] * (1.0 / x.shape[0])
    n = int(x.shape[0])
    mean = mean + h[np.arange(n), 0].sum() * (n / (n + 1)) + (h * np.zeros((n, 4))).sum()
    return mean + spread + ((h - y) ** 2).mean(), tail, x.shape[0], np.concatenate([h, h])


@pytest.mark.parametrize("dynamic", [None, True, ("x", "y")])
def test_one_trace_for_many_sizes(dynamic: Any) -> None:
    f = ns.compile(model, dynamic=dynamic)
    rng = np.random.default_rng(0)
    for n in (5, 7, 64, 3, 2, 999, 7):
        x, y = rng.standard_normal((n, 2, 3)), rng.standard_normal((n, 4))
        results = []
        for g in (f, model):
            argument = ns.tensor(x, requires_grad=True)
            loss, tail, size, twice = g(argument, y)
            (loss + tail.sum()).backward()
            first, argument.grad = argument.grad.numpy(), None
            g(argument, y)[0].backward()
            results.append((loss.numpy(), tail.numpy(), size, twice.numpy(), first,
                          argument.grad.numpy()))  # fmt: skip
        np.testing.assert_equal(results[0], results[1])
    traces = f.explain().traces
    assert len(traces) == (2 if dynamic is None else 1)
    assert traces[-1].dynamic == "the leading dimension of x, y is dynamic"
    assert f.graph(x, y).graph.values[0].spec.shape == (7, 2, 3)


def test_sizes_that_broadcast_are_traced_by_themselves() -> None:
    f = ns.compile(lambda x, y: x + y, dynamic=True)
    for n, m in ((4, 4), (6, 6), (1, 6), (0, 0), (6, 1)):
        assert f(np.ones((n, 2)), np.ones((m, 2))).shape == (max(n, m) if n and m else 0, 2)


def compares(x: Any) -> Any:
    return x * 2.0 if x.shape[0] > 1 else x


def compares_later(x: Any) -> Any:
    h = np.tanh(x) * 2.0
    return h * 2.0 if h.shape[0] * 2 == 4000 else h


def loops(x: Any) -> Any:
    return sum(x[i] for i in range(x.shape[0]))


def counts(x: Any) -> Any:
    return np.eye(x.shape[0]) @ x


def roots(x: Any) -> Any:
    return x * float(x.shape[0] ** 0.5)


def fits_one_size(x: Any) -> Any:
    return x.reshape(2, -1, 2) * np.ones((2, 2, 2))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (compares, "it is compared at .*test_compile_retracing.py:"),
        (compares_later, "it is compared at .*test_compile_retracing.py:"),
        (loops, "number of operations depends on it, as in a loop"),
        (counts, "an array made of constant .*test_compile_retracing.py:[0-9]+. depends on it"),
        (roots, "a number of multiply .*in a way that is not known"),
        (fits_one_size, "with size 3 it fails: reshape.*test_compile_retracing.py:"),
    ],
)
def test_what_is_not_dynamic_says_why_and_is_right(function: Any, reason: str) -> None:
    f = ns.compile(function, dynamic=True)
    sizes = (4, 6, 8) if function is not fits_one_size else (4,)
    for n in sizes:
        x = np.arange(2.0 * n).reshape(n, 2)
        np.testing.assert_array_equal(f(x).numpy(), function(ns.tensor(x)).numpy())
    assert len(f.explain().traces) == len(sizes)
    (note,) = f.explain().notes
    assert re.search("the leading dimension of x is not dynamic: .*" + reason, note), note


def test_training_with_a_last_batch_of_another_size() -> None:
    results = []
    for static in (False, True):
        model = nn.Sequential(nn.Linear(3, 4, rng=np.random.default_rng(0)), nn.relu)
        opt = optim.Adam(model, lr=0.1)

        def step(x: Any, y: Any, model: Any = model, opt: Any = opt) -> Any:
            opt.zero_grad()
            loss = ns.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss

        run = ns.compile(step) if static else step
        rng = np.random.default_rng(1)
        losses = [
            run(rng.standard_normal((n, 3)).astype(np.float32), rng.integers(0, 4, n)).item()
            for n in (8, 8, 5, 8, 8, 3, 7)
        ]
        results.append((losses, [p.numpy() for p in model.parameters()]))
    np.testing.assert_equal(results[0], results[1])
    assert len(run.explain().traces) == 2


@pytest.mark.parametrize(
    "rule",
    [lambda n: 3 * n - 4, lambda n: (n, [2 * n], {"a": slice(1, n)}), lambda n: 1.0 / (n - 1),
     lambda n: float(n * 2), lambda n: -0.5 / n, lambda n: 1.0 / (12 * n), lambda n: n / (n - 1),
     lambda n: n * 36 / (n * 36 - 1), lambda n: "same"],
)  # fmt: skip
def test_numbers_that_follow_from_a_size(rule: Any) -> None:
    sizes = (2, 3, 251, 1021)
    result = fit([rule(n) for n in sizes], sizes, "it")
    for n in (5, 17, 64, 100_003):
        assert (rule(sizes[0]) if result is None else result(n)) == rule(n)


@pytest.mark.parametrize("rule", [lambda n: n * n, lambda n: n // 2, lambda n: n**0.5,
                                  lambda n: n > 100, lambda n: (1,) * n])  # fmt: skip
def test_numbers_that_do_not(rule: Any) -> None:
    sizes = (2, 3, 251, 1021)
    with pytest.raises(Unfit, match="it depends on it"):
        fit([rule(n) for n in sizes], sizes, "it")
