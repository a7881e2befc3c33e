"""cond, while_loop, scan and map: eager, as graphs, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

import nodescope as ns
from nodescope.engine import dispatch_mode
from nodescope.engine.building import Builder
from nodescope.engine.control.body import cast_value, finished
from nodescope.engine.control.derivative import pullback
from nodescope.engine.tensor import make
from nodescope.engine.trees import flatten
from nodescope.errors import GradientError, ShapeError, TraceError, UsageError
from nodescope.ir.graph import TensorSpec
from nodescope.ops.control import run_body
from tests.core.engine.static.recorded import recorded

X = np.random.default_rng(1).standard_normal((5, 3))
H = np.random.default_rng(2).standard_normal(3)
W = ns.parameter(np.random.default_rng(3).standard_normal((3, 3)), name="w")


def check(f: Callable[..., Any], *arrays: Any) -> None:
    """Eager and recorded give the same bits."""
    eager = flatten(f(*(ns.tensor(array) for array in arrays)))[0]
    static = flatten(recorded(f, *arrays)[0])[0]
    assert len(eager) == len(static)
    for first, other in zip(eager, static, strict=True):
        assert first.dtype == other.dtype
        assert first.numpy().tobytes() == other.tobytes()


def rnn(h: Any, x: Any, **options: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = np.tanh(h @ W + x)
        return h, {"twice": h * 2, "x": x}

    return ns.scan(step, h, x, **options)


def loss(h: Any, x: Any) -> Any:
    last, rows = rnn(h, x)
    return np.sum(rows["twice"] * rows["x"]) + np.sum(last)


def test_scan_values_and_order() -> None:
    last, rows = rnn(ns.tensor(H), ns.tensor(X), reverse=True)
    h = H
    for x in X[::-1]:
        h = np.tanh(h @ W.numpy() + x)
    assert np.allclose(last.numpy(), h)
    assert np.allclose(rows["twice"].numpy()[0], h * 2)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_both_ways(reverse: bool) -> None:
    check(lambda h, x: rnn(h, x, reverse=reverse), H, X)


def test_scan_of_nothing() -> None:
    check(rnn, H, X[:0])
    last, rows = rnn(ns.tensor(H), ns.tensor(X[:0]))
    assert rows["twice"].shape == (0, 3)
    assert last.numpy().tobytes() == H.tobytes()


def test_scan_without_xs() -> None:
    check(lambda h: ns.scan(lambda c, _: (c * 2, None), h, None, length=4), H)


def test_scan_gradient() -> None:
    check(lambda h, x: ns.value_and_grad(loss, (0, 1))(h, x), H, X)


def test_scan_gradient_of_captured_parameter() -> None:
    def step(h: Any, x: Any) -> Any:
        W.grad = None
        result = loss(h, x)
        result.backward()
        return result, W.grad

    check(step, H, X)


def test_scan_second_derivative() -> None:
    def again(h: Any, x: Any) -> Any:
        return ns.grad(lambda h: np.sum(np.square(ns.grad(loss)(h, x))))(h)

    expected = again(ns.tensor(H), ns.tensor(X)).numpy()
    result, _ = recorded(again, H, X)
    assert np.allclose(result, expected, rtol=1e-12)


def test_scan_is_one_node() -> None:
    _, graph = recorded(rnn, H, X)
    assert [node.op for node in graph.nodes if not node.is_leaf] == ["scan"]


def test_scan_carries_what_its_body_assigns() -> None:
    def total(x: Any) -> Any:
        generator = ns.random.Generator(7)
        return ns.scan(lambda c, x: (c + x * generator.normal(), c), ns.tensor(0.0), x)

    check(total, X[:, 0])


def test_rules_that_use_constants() -> None:
    def f(h: Any, x: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            low = np.linalg.cholesky(np.outer(x, x) + 2.0 * np.eye(3))
            wave = np.fft.rfft(x * h)
            return np.tanh(low @ h + x), np.abs(wave) ** 2

        last, rows = ns.scan(step, h, x)
        return np.sum(last) + np.sum(rows)

    check(lambda h, x: ns.grad(f, (0, 1))(h, x), H, X)
    check(
        lambda h, x: ns.grad(lambda h: ns.cond(x[0, 0] > 9, lambda: h[0], lambda: f(h, x)))(h), H, X
    )
    twice, _ = recorded(lambda h, x: ns.hessian(lambda h: f(h, x))(h), H, X)
    assert np.allclose(twice, ns.hessian(lambda h: f(h, ns.tensor(X)))(H).numpy(), rtol=1e-10)


def test_complex_carry() -> None:
    def f(h: Any, x: Any) -> Any:
        last, _ = ns.scan(lambda c, x: (c * (1 + 0.5j) + x * 1j, None), h, x)
        return np.sum(np.abs(last) ** 2)

    check(lambda h, x: ns.grad(f, (0, 1))(h, x), H + 1j, X + 2j)


def test_map() -> None:
    check(lambda x: ns.map(lambda row: {"sum": np.sum(row)}, x), X)
    check(lambda x: ns.grad(lambda x: np.sum(ns.map(lambda row: np.tanh(row @ W), x)))(x), X)


@pytest.mark.parametrize("p", [1.0, -1.0])
def test_cond(p: float) -> None:
    def f(p: Any, x: Any) -> Any:
        return ns.cond(p > 0, lambda x: np.tanh(x) @ W, lambda x: x * 3.0, x)

    check(f, p, X)
    check(lambda p, x: ns.value_and_grad(lambda x: np.sum(f(p, x)))(x), p, X)


@pytest.mark.parametrize("p", [1.0, -1.0])
def test_cond_where_one_branch_reaches_nothing(p: float) -> None:
    def f(p: Any, x: Any) -> Any:
        return np.sum(ns.cond(p > 0, lambda x: x * 2.0, lambda x: np.ones((5, 3)), x))

    check(lambda p, x: ns.grad(lambda x: f(p, x))(x) + x, p, X)


def test_cond_runs_only_the_chosen_branch() -> None:
    def f(p: Any, x: Any) -> Any:
        # Dividing by 0 in the other branch would warn, which is an error here.
        return ns.cond(p, lambda x: 1.0 / x, lambda x: x, x)

    result, _ = recorded(f, False, np.zeros((2, 2)))
    assert not result.any()


@pytest.mark.parametrize("p", [True, False])
def test_cond_assigns(p: bool) -> None:
    state = ns.parameter(np.zeros(3), name="state")

    def f(p: Any, x: Any) -> Any:
        ns.cond(p, lambda: (ns.assign(state, x + state), None)[1], lambda: None)
        return state * 1.0

    result, _ = recorded(f, p, H)
    assert np.array_equal(result, H if p else np.zeros(3))
    assert not state.numpy().any()


def test_nested() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = ns.cond(np.sum(x) > 0, lambda: c + np.sum(x @ W), lambda: c - 1.0)
            return c, ns.while_loop(lambda v: v < 10.0, lambda v: v + 3.0, c)

        return ns.scan(step, ns.tensor(0.5), x)

    check(f, X)


def test_while_loop() -> None:
    check(lambda x: ns.while_loop(lambda c: np.sum(c) < 100, lambda c: c * 2, x), np.abs(X))
    check(lambda x: ns.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] @ W), (0, x)), X)


def test_bounded_while_loop_has_a_gradient() -> None:
    def f(x: Any) -> Any:
        return np.sum(
            ns.while_loop(lambda c: np.sum(c) < 50, lambda c: c * c + 1.0, x, max_steps=6)
        )

    check(ns.value_and_grad(f), np.abs(X))


def test_fori_loop() -> None:
    check(lambda x: ns.fori_loop(2, 5, lambda i, c: c * i, x), X)
    check(ns.grad(lambda x: np.sum(ns.fori_loop(0, 3, lambda i, c: c * c, x))), X)


def fails(error: type[Exception], words: str, f: Callable[..., Any], *arrays: Any) -> None:
    """Both refuse, at this file's line."""
    for run in (lambda: f(*(ns.tensor(array) for array in arrays)), lambda: recorded(f, *arrays)):
        with pytest.raises(error, match=words) as caught:
            run()
        assert "test_control.py:" in str(caught.value)


def test_carry_that_changes() -> None:
    fails(
        TraceError,
        r"scan: carry\['a'\] is float64 \(3,\) before and float64 \(1, 3\) after",
        lambda h, x: ns.scan(lambda c, x: ({"a": c["a"][None]}, None), {"a": h}, x),
        H,
        X,
    )
    fails(
        TraceError,
        "while_loop: the carry before and after have different structures",
        lambda h: ns.while_loop(lambda c: True, lambda c: (c,), h),
        H,
    )


def test_scan_mistakes() -> None:
    fails(ShapeError, "leading sizes differ", lambda x, h: rnn(h, x, length=3), X, H)
    fails(ShapeError, "no leading dimension", lambda x: ns.map(np.tanh, x), np.float64(1))
    fails(TraceError, "must return", lambda x: ns.scan(lambda c, x: x, 0, x), X)
    fails(UsageError, "Python integer", lambda x: ns.fori_loop(0, x, lambda i, c: c, x), 3.0)


def test_cond_mistakes() -> None:
    fails(ShapeError, "must be a scalar", lambda x: ns.cond(x > 0, np.tanh, np.sin, x), X)
    with pytest.raises(TraceError, match="one branch and float32"):
        recorded(lambda p, x: ns.cond(p, lambda: x, lambda: x.astype("float32")), True, X)


def test_unbounded_while_loop_refuses_a_gradient() -> None:
    def f(x: Any) -> Any:
        return np.sum(ns.while_loop(lambda c: np.sum(c) < 9, lambda c: c * 2.0, x))

    with pytest.raises(GradientError, match="max_steps"):
        recorded(ns.grad(f), np.ones(3))
    assert ns.grad(f)(np.ones(3)).numpy().tolist() == [4.0, 4.0, 4.0]


def test_backward_inside_a_body_is_refused() -> None:
    def f(x: Any) -> Any:
        return ns.map(lambda row: np.sum(row @ W).backward(), x)

    with pytest.raises(UsageError, match="return gradients from the body"):
        recorded(f, X)


def test_the_derivative_of_a_body_that_gives_out_a_constant_of_its_own() -> None:
    builder = Builder("static")
    with dispatch_mode.building(builder):
        x = builder.placeholder(TensorSpec((3,), "float64"), "x")
        ends = [builder.value_of(item) for item in (x * 2.0, make(np.ones(3), kind="constant"))]
        body = finished(builder, ends)
    body = msgspec.structs.replace(body, inputs=(cast_value(x.data),))
    result = pullback(body, (True,))
    assert {*result.forward.outputs} <= {value.id for value in result.forward.values}
    assert [array.tolist() for array in run_body(result.forward, [np.full(3, 4.0)])] == [
        [8.0] * 3, [1.0] * 3
    ]  # fmt: skip
