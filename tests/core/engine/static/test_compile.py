"""Compiled functions: arguments and results, state, methods, modes, refusals, threads."""

from __future__ import annotations

import dataclasses
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim
from nodescope.errors import BoundsError, DomainError, UsageError
from tests.core.engine.events_of import observed

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Batch:
    x: Any
    name: str


def ones(*shape: int) -> ns.Tensor:
    return ns.tensor(np.ones(shape, np.float32))


# Arguments and results


def test_containers_go_in_and_come_out() -> None:
    calls = []

    @ns.compile
    def f(batch: Batch, params: dict[str, Any], *rest: Any, scale: Any = 1.0) -> Any:
        calls.append(1)
        h = batch.x @ params["w"][0] * scale
        return {
            "pair": Pair(h, [h.sum(), None, rest[0]]), "name": batch.name, "batch": batch,
            "one": (h,), "number": 3,
        }  # fmt: skip

    x, w, other = ones(2, 3), np.full((3, 2), 0.5), np.float32(2.0)
    for _ in range(2):
        result = f(Batch(x, "b"), {"w": [w]}, other, scale=2.0)
        assert isinstance(result["pair"], Pair)
        assert isinstance(result["batch"], Batch)
        np.testing.assert_array_equal(result["pair"].left.numpy(), np.full((2, 2), 3.0))
        assert result["pair"].right[0].item() == 12.0
        assert result["pair"].right[1] is None
        assert result["pair"].right[2] is other
        assert result["batch"].x is x
        assert (result["name"], result["number"]) == ("b", 3)
        assert result["one"][0] is result["pair"].left
    assert len(calls) == 1


def test_what_comes_back_as_it_went_in_is_the_same_object() -> None:
    w, c = ns.parameter(np.ones(2), name="w"), ns.constant(np.ones(3))
    f = ns.compile(lambda x, y: (x, y, w, c, x, x * 1.0))
    x, y = ones(2), np.ones(2)
    result = f(x, y)
    assert result[0] is x
    assert result[4] is x
    assert result[1] is y
    assert result[2] is w
    assert result[3] is c
    assert result[5] is not x


def test_the_same_tensor_twice_is_another_signature() -> None:
    w, v = (ns.parameter(np.full(2, i), name=n) for i, n in ((1.0, "w"), (5.0, "v")))

    @ns.compile
    def swap(a: Any, b: Any) -> Any:
        ns.assign(a, b * 2.0)
        return a + b

    assert swap(w, v).numpy().tolist() == [15.0, 15.0]
    assert swap(w, w).numpy().tolist() == [40.0, 40.0]
    assert w.numpy().tolist() == [20.0, 20.0]


def test_numbers_of_numpy_are_traced_and_those_of_python_are_not() -> None:
    calls = []

    @ns.compile
    def f(x: Any, a: Any) -> Any:
        calls.append(a)
        return x * a

    for item in (np.float32(1), np.float32(2), np.float32(3)):
        assert f(ones(1), item).item() == item
    assert len(calls) == 1
    for item in (1.0, 2.0, 2.0, -0.0, 0.0, 1, True):
        np.testing.assert_array_equal(f(ones(1), item).numpy(), (ones(1) * item).numpy())
    assert len(calls) == 7


def test_results_that_depend_on_nothing() -> None:
    f = ns.compile(lambda: (ns.tensor([1.0, 2.0]), np.arange(3), "done", ns.tensor(1.0) + 1.0))
    first, second = f(), f()
    assert first[0] is not second[0]
    assert first[0].numpy().tolist() == [1.0, 2.0]
    first[1][0] = 9
    assert second[1].tolist() == f()[1].tolist() == [0, 1, 2]
    assert first[3].item() == 2.0


def test_static_argnames() -> None:
    @ns.compile(static_argnames=("axes", "how"))
    def f(x: Any, axes: Any, how: str = "sum") -> Any:
        return getattr(np, how)(x, axis=axes)

    assert f(ones(2, 3), (0, 1)).item() == 6
    assert f(ones(2, 3), axes=1, how="mean").shape == (2,)
    with pytest.raises(UsageError, match="static argument 'axes' is a list, which"):
        f(ones(2, 3), [0])
    with pytest.raises(UsageError, match="static argument 'axes' is an array"):
        f(ones(2, 3), np.zeros(2))
    with pytest.raises(UsageError, match=r"no argument 'axis'.*it has x, axes, how"):
        ns.compile(f.__wrapped__, static_argnames="axis")


# State


def test_captured_tensors_are_read_on_each_call() -> None:
    w = ns.parameter(np.ones(2), name="w")
    x = ns.tensor(np.ones(2))
    f = ns.compile(lambda: (w * 2.0, w.detach() + x))
    assert f()[1].numpy().tolist() == [2.0, 2.0]
    ns.assign(w, np.full(2, 5.0))
    x += 1.0
    assert f()[0].numpy().tolist() == [10.0, 10.0]
    assert f()[1].numpy().tolist() == [7.0, 7.0]
    x += 1.0
    assert f()[1].numpy().tolist() == [8.0, 8.0]


def test_assigned_state_is_written_back() -> None:
    count = ns.parameter(np.zeros(()), name="count")
    rng = ns.random.Generator(3)

    @ns.compile
    def f() -> Any:
        ns.assign(count, count + 1.0)
        return rng.normal(size=2), count * 10.0

    plain = ns.random.Generator(3)
    for i in range(3):
        draw, tens = f()
        np.testing.assert_array_equal(draw.numpy(), plain.normal(size=2).numpy())
        assert tens.item() == 10.0 * (i + 1)
    assert count.item() == 3.0


def test_a_generator_made_inside_restarts_on_each_call() -> None:
    f = ns.compile(lambda: ns.random.Generator(1).normal(size=3))
    np.testing.assert_array_equal(f().numpy(), f().numpy())
    np.testing.assert_array_equal(f().numpy(), ns.random.Generator(1).normal(size=3).numpy())


def test_parameters_in_arguments_are_state() -> None:
    @ns.compile
    def step(params: dict[str, Any], x: Any) -> Any:
        loss = ((x @ params["w"]) ** 2).sum()
        loss.backward()
        ns.assign(params["w"], params["w"] - 0.1 * params["w"].grad)
        return loss

    results = []
    for run in (step, step.__wrapped__):
        params = {"w": ns.parameter(np.ones((3, 2)), name="w")}
        for _ in range(3):
            loss = run(params, np.ones((1, 3)))
        results.append((loss.item(), params["w"].numpy(), params["w"].grad.numpy()))
    np.testing.assert_equal(results[0], results[1])
    assert len(step.explain().traces) == 2  # One without an earlier gradient, one with it.
    assert "params['w'].grad" in step.explain().traces[1].reason or "grad" in str(step.explain())


def test_an_exception_leaves_everything_as_it_was() -> None:
    w = ns.parameter(np.full(2, 2.0), name="w")
    opt = optim.Adam([w], lr=0.1)

    @ns.compile
    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        opt.step()
        return ns.random.bernoulli(ns.random.key(0), x.sum() * 0.1 + w.sum() * 0.0)

    step(np.ones(2))
    before = (w.numpy().copy(), w.grad.numpy().copy(), opt.steps)
    assert opt.steps == 1
    with pytest.raises(DomainError) as raised:
        step(np.full(2, 100.0))
    assert Path(raised.value.source.rpartition(":")[0]).name == "test_compile.py"
    np.testing.assert_equal((w.numpy(), w.grad.numpy(), opt.steps), before)
    with observed(), pytest.raises(DomainError):
        step(np.full(2, 100.0))
    np.testing.assert_equal((w.numpy(), w.grad.numpy(), opt.steps), before)


def test_gradients_that_were_set_do_not_share_memory() -> None:
    a, b = (ns.parameter(np.ones(2), name=n) for n in "ab")

    @ns.compile
    def f() -> None:
        (a + b).sum().backward()

    f()
    assert not np.shares_memory(a.grad.data, b.grad.data)


def test_donated_arguments_are_let_go() -> None:
    @ns.compile(donate=("params",))
    def f(params: Any, x: Any) -> Any:
        return {name: param - x for name, param in params.items()}

    params = {"w": ns.tensor(np.ones(1000))}
    reference = weakref.ref(params["w"].data)
    kept = params["w"]
    params = f(params, 1.0)
    gc.collect()
    assert reference() is None
    for use in (lambda: kept + 1.0, lambda: kept.numpy(), lambda: f({"w": kept}, 1.0),
                lambda: np.exp(kept)):  # fmt: skip
        with pytest.raises(
            UsageError, match=r"donated to f, which released its array.*test_compile"
        ):
            use()
    assert f(params, 1.0)["w"].numpy().max() == -1.0


@pytest.mark.parametrize("backend", ["plain", "numpy", "auto"])
def test_an_index_outside_is_reported_where_arguments_are_donated(backend: str) -> None:
    @ns.compile(donate="x", backend=backend)
    def picked(x: Any, i: Any) -> Any:
        return (x * 2.0)[i] + x[0]

    assert picked(ones(3), ns.tensor(np.array([1]))).tolist() == [3.0]
    with pytest.raises(
        BoundsError, match=r"^picked: .*, in getitem at .*test_compile\.py:\d+ \("
    ) as raised:
        picked(ones(3), ns.tensor(np.array([7])))
    assert "donate" in raised.value.hint


# Methods, modes, nesting


class Scaler:
    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.calls = 0

    @ns.compile
    def scaled(self, x: Any) -> Any:
        """Times the factor."""
        return x * self.factor


def test_methods_have_traces_of_their_own() -> None:
    first, two = Scaler(2.0), Scaler(3.0)
    assert first.scaled(ones(1)).item() == 2.0
    assert two.scaled(ones(1)).item() == 3.0
    first.factor = 5.0
    assert first.scaled(ones(1)).item() == 5.0
    assert [t.reason for t in first.scaled.explain().traces] == [
        "the first call", "attribute self.factor changed 2.0 → 5.0",
    ]  # fmt: skip
    assert len(two.scaled.explain().traces) == 1
    assert Scaler.scaled.__doc__ == "Times the factor."
    reference = weakref.ref(first)
    del first
    gc.collect()
    assert reference() is None


def test_modules_and_lambdas_compile() -> None:
    model = nn.Linear(3, 2, rng=np.random.default_rng(0))
    f = ns.compile(model)
    np.testing.assert_array_equal(f(ones(1, 3)).numpy(), model(ones(1, 3)).numpy())
    assert ns.compile(f) is f
    assert ns.compile(lambda x: x + 1, name="more").name == "more"
    with pytest.raises(UsageError, match="compile: int is not a function"):
        ns.compile(3)


def test_compiled_functions_inline_in_each_other() -> None:
    inner = ns.compile(lambda x: np.tanh(x) * 2.0)
    outer = ns.compile(lambda x: inner(x).sum())
    assert outer(ones(2)).item() == inner(ones(2)).sum().item()
    assert [node.op for node in outer.graph(ones(2)).nodes] == [
        "placeholder", "tanh", "multiply", "sum",
    ]  # fmt: skip


def test_modes() -> None:
    traced = []

    @ns.compile
    def f(x: Any) -> Any:
        traced.append(x.data)
        return x + 1.0

    with ns.disable_compile():
        assert ns.get_mode() == "eager"
        f(ones(1))
        assert isinstance(traced[-1], np.ndarray)
    assert ns.get_mode() == "compiled"
    f(ones(1))
    assert not isinstance(traced[-1], np.ndarray)
    with pytest.raises(UsageError, match="unknown mode 'fast'"):
        ns.set_mode("fast")  # type: ignore[arg-type]


def test_the_mode_of_a_program_from_its_environment() -> None:
    code = "import nodescope as ns; print(ns.get_mode())"
    for wanted, expected in (("eager", "eager"), ("", "compiled")):
        environment = {**os.environ, "NODESCOPE_MODE": wanted}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        assert done.stdout.split() == [expected]


def test_threads_share_traces() -> None:
    calls = []

    @ns.compile
    def f(x: Any, n: int) -> Any:
        calls.append(n)
        return (x * n).sum()

    results: dict[int, list[float]] = {}
    start = threading.Barrier(8)

    def work(i: int) -> None:
        start.wait()
        results[i] = [f(np.full(3, i), n).item() for n in (1, 2, 3) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(calls) == [1, 2, 3]
    assert results == {i: [3.0 * i * n for n in (1, 2, 3) for _ in range(20)] for i in range(8)}


def test_an_argument_that_is_captured_too() -> None:
    x = ns.tensor(np.array([1.0, 2.0]), requires_grad=True)
    y = ns.tensor(np.array([5.0, 6.0]), requires_grad=True)

    def through(a: Any) -> Any:
        return (a * a * x).sum()

    def inside(a: Any) -> None:
        (a * a * x).sum().backward()

    for function in (through, inside):
        f = ns.compile(function)
        for argument, both in ((y, False), (x, True), (x, True), (y, False)):
            results = []
            for g in (f, function):
                x.grad = y.grad = None
                result = g(argument)
                if result is not None:
                    result.backward()
                results.append([None if t.grad is None else t.grad.numpy() for t in (x, y)])
            np.testing.assert_equal(results[0], results[1])
            if both:
                np.testing.assert_array_equal(results[0][0], 3 * np.array([1.0, 4.0]))
        assert len(f.explain().traces) == 2


def test_two_steps_of_an_optimizer_in_one_call() -> None:
    results = []
    for static in (False, True):
        w = ns.parameter(np.ones(3), name="w")
        opt = optim.Adam([w], lr=0.1)

        def twice(x: Any, w: Any = w, opt: Any = opt) -> None:
            for _ in range(2):
                opt.zero_grad()
                ((w - x) ** 2).sum().backward()
                opt.step()

        run = ns.compile(twice) if static else twice
        for i in range(3):
            run(np.full(3, float(i)))
        results.append((w.numpy(), opt.steps))
    assert results[1][1] == 6
    np.testing.assert_equal(results[1], results[0])


def test_writes_to_values_of_the_function() -> None:
    def f(x: Any) -> Any:
        h = x * 2.0
        h[0] = x.sum()
        h += 1.0
        return h, ns.grad(lambda v: (v * v).sum())(h)

    result, expected = ns.compile(f)(ones(3)), f(ones(3))
    for first, other in zip(result, expected, strict=True):
        np.testing.assert_array_equal(first.numpy(), other.numpy())


def test_assign_add_and_sub() -> None:
    outcomes = []
    for static in (False, True):
        w = ns.parameter(np.array([1.0, 2.0]), np.float32, name="w")
        count = ns.parameter(np.zeros(()), name="count")

        def step(x: Any, w: Any = w, count: Any = count) -> Any:
            with ns.GradientTape() as tape:
                loss = ((w * x) ** 2).sum()
            gradient = tape.gradient(loss, w)
            ns.assign_sub(w, 0.01 * gradient)
            ns.assign_add(w, np.float64([0.5, 0.25]))
            ns.assign_add(count, 1.0)
            return loss, gradient

        run = ns.compile(step) if static else step
        results = [run(ns.tensor(np.array([3.0, 4.0], np.float32))) for _ in range(3)]
        assert count.item() == 3.0
        outcomes.append([tensor.numpy() for pair in results for tensor in pair] + [w.numpy()])
    np.testing.assert_equal(outcomes[1], outcomes[0])


def test_a_tensor_made_of_a_traced_one_is_a_copy_without_history() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        y *= 3
        copied = ns.tensor(y)
        narrow = ns.tensor(x, np.float32)
        wanted_copy = ns.tensor(x, requires_grad=True)
        gradient = ns.grad(lambda a: (a * copied).sum())(wanted_copy)
        return (y * copied).sum(), copied, narrow, gradient

    results = []
    for run in (f, ns.compile(f)):
        x = ns.tensor(np.array([1.0, 2.0]), requires_grad=True)
        total, *rest = run(x)
        total.backward()
        assert not any(tensor.requires_grad for tensor in rest[:2])
        results.append([total.numpy(), *(tensor.numpy() for tensor in rest), x.grad.numpy()])
    np.testing.assert_equal(results[1], results[0])
    with ns.Graph().as_default() as graph:
        argument = ns.placeholder(np.float64, (2,), name="x")
        copied = ns.tensor(argument * 2)
    assert ns.Session(graph).run(copied, {argument: np.ones(2)}).tolist() == [2.0, 2.0]
