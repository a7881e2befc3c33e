"""Gradients through compiled functions: on the tape, of higher order, for some of the results."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import GradientError, UsageError
from nodescope.events import NodeFinished
from tests.core.engine.events_of import observed

rng = np.random.default_rng(0)
X, W, B = rng.standard_normal((4, 3)), rng.standard_normal((3, 2)), rng.standard_normal(2)


def several(x: Any, w: Any, b: Any) -> dict[str, Any]:
    with ns.name_scope("layer"):
        h = np.tanh(x @ w + b)
    return {"h": h, "loss": (h * h).mean(), "log": np.log(b - b), "stopped": h.detach() * w.sum()}


def leaves() -> list[ns.Tensor]:
    return [ns.tensor(item, requires_grad=True) for item in (X, W, B)]


def both(use: Callable[[Any], Any], f: Callable[..., Any] = several) -> list[Any]:
    return [use(f), use(ns.compile(f))]


def first_order(pick: Callable[[dict[str, Any]], Any]) -> Callable[[Any], Any]:
    def use(f: Any) -> Any:
        inputs = leaves()
        with np.errstate(all="ignore"):
            pick(f(*inputs)).backward()
        return [tensor.grad.numpy() if tensor.grad is not None else None for tensor in inputs]

    return use


@pytest.mark.parametrize(
    "pick",
    [
        lambda r: r["loss"],
        lambda r: r["h"].sum(),
        lambda r: (r["h"] * r["loss"]).sum(),
        lambda r: r["stopped"].sum(),
        lambda r: r["h"].sum() * 2.0 + r["stopped"].sum(),
    ],
)
def test_gradients_of_some_results_are_as_in_eager_mode(pick: Any) -> None:
    # log(0) has an infinite derivative: a cotangent of zeros for it would give NaN.
    eager, static = both(first_order(pick))
    np.testing.assert_equal(static, eager)
    assert np.isfinite(static[1]).all()


def test_inside_a_program_and_on_captured_parameters() -> None:
    w = ns.parameter(W, name="w")
    f = ns.compile(lambda h: np.tanh(h @ w))
    results = []
    for g in (f, f.__wrapped__):
        w.grad = None
        x = ns.tensor(X, requires_grad=True)
        (g(x * 2.0) * 3.0).sum().backward()
        g(x * 1.0).sum().backward()  # The gradient is added to the first one.
        results.append((x.grad.numpy(), w.grad.numpy()))
    np.testing.assert_equal(results[0], results[1])
    assert len(f.explain().traces) == 1


def test_transformations_outside_and_inside() -> None:
    def loss(w: Any, x: Any) -> Any:
        return (np.tanh(x @ w) ** 2).sum()

    expected = ns.grad(loss)(ns.tensor(W), X)
    inside = ns.compile(lambda w, x: ns.grad(loss)(w, x))
    outside = ns.grad(ns.compile(loss))
    np.testing.assert_array_equal(inside(ns.tensor(W), X).numpy(), expected.numpy())
    np.testing.assert_array_equal(outside(ns.tensor(W), X).numpy(), expected.numpy())
    value, grads = ns.compile(ns.value_and_grad(loss, (0, 1)))(ns.tensor(W), ns.tensor(X))
    np.testing.assert_array_equal(grads[0].numpy(), expected.numpy())
    assert value.item() == loss(ns.tensor(W), X).item()


def test_second_order() -> None:
    def f(x: Any, w: Any) -> Any:
        return (np.tanh(x @ w) ** 2).mean()

    def use(g: Any) -> Any:
        x, w = (ns.tensor(item, requires_grad=True) for item in (X, W))
        g(x, w).backward(create_graph=True)
        penalty = (w.grad * w.grad).sum()
        x.grad = w.grad = None
        penalty.backward()
        return x.grad.numpy(), w.grad.numpy()

    eager, static = both(use, f)
    np.testing.assert_equal(static, eager)


def test_second_order_stops_where_the_function_stops() -> None:
    def use(g: Any) -> Any:
        x = ns.tensor(X, requires_grad=True)
        g(x).sum().backward(create_graph=True)
        once, x.grad = x.grad, None
        once.sum().backward()
        return x.grad.numpy()

    eager, static = both(use, lambda x: x * x * x.detach())
    np.testing.assert_equal(static, eager)
    np.testing.assert_allclose(static, 2 * X)


def test_a_gradient_made_inside_can_be_differentiated_outside() -> None:
    def f(x: Any) -> Any:
        return ns.grad(lambda y: (y**3).sum())(x)

    def use(g: Any) -> Any:
        x = ns.tensor(X, requires_grad=True)
        g(x).sum().backward()
        return x.grad.numpy()

    eager, static = both(use, f)
    np.testing.assert_equal(static, eager)
    np.testing.assert_allclose(static, 6 * X)


def test_complex_gradients() -> None:
    z = X[:2, :2] + 1j * X[2:, :2]

    def use(f: Any) -> Any:
        w = ns.tensor(z, requires_grad=True)
        f(w).backward()
        return w.grad.numpy()

    eager, static = both(use, lambda w: np.abs(w * w * (1 + 2j)).sum())
    np.testing.assert_equal(static, eager)


def test_hooks_of_leaves_run_once() -> None:
    w = ns.parameter(W, name="w")
    met = []
    w.register_hook(lambda g: met.append(g.shape))
    f = ns.compile(lambda: (w * 2.0).sum())
    for _ in range(2):
        f().backward()
    assert met == [(3, 2), (3, 2)]


def test_results_without_a_gradient_have_no_history() -> None:
    w = ns.parameter(W, name="w")
    f = ns.compile(lambda x: (x @ w, x * 2.0))
    product, twice = f(X)
    assert product.requires_grad
    assert not twice.requires_grad
    with ns.no_grad():
        assert not f(X)[0].requires_grad
    assert f.explain().traces[1].reason == "gradients are not recorded"
    with pytest.raises(GradientError, match="was not computed from one that requires a gradient"):
        twice.sum().backward()


def test_a_tape_is_used_once() -> None:
    w = ns.parameter(W, name="w")
    f = ns.compile(lambda: (w * w).sum())
    loss = f()
    loss.backward(retain_graph=True)
    loss.backward()
    np.testing.assert_array_equal(w.grad.numpy(), 4 * W)
    with pytest.raises(GradientError, match="already used"):
        loss.backward()


def test_values_as_they_were_when_called() -> None:
    w = ns.parameter(W, name="w")
    x = ns.tensor(X, requires_grad=True)
    f = ns.compile(lambda x: (x @ w).sum())
    loss = f(x)
    expected = np.broadcast_to(W.sum(axis=1), X.shape)
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), expected)


def test_observed_gradients_are_nodes_as_eagerly() -> None:
    names = []
    for static in (False, True):
        w = ns.parameter(W, name="w")
        f = ns.compile(several, backend="plain", passes="none") if static else several
        with observed() as events, np.errstate(all="ignore"):
            with ns.name_scope("outer"):
                loss = f(ns.tensor(X, name="x"), w, ns.tensor(B, name="b"))["loss"]
            loss.backward()
        names.append([(e.node.name, e.node.phase) for e in events.of(NodeFinished)])
    assert names[0] == names[1]
    assert ("backward/outer/layer/multiply", "backward") in names[1]


def test_observing_begins_between_forward_and_backward() -> None:
    w = ns.parameter(W, name="w")
    loss = ns.compile(lambda: np.tanh(w).sum())()
    with observed() as events:
        loss.backward()
    assert any(node.phase == "backward" for node in events.nodes.values())
    np.testing.assert_array_equal(w.grad.numpy(), ns.grad(lambda v: np.tanh(v).sum())(W).numpy())


def test_results_are_used_up_one_by_one() -> None:
    w = ns.parameter(W, name="w")
    f = ns.compile(lambda: ((w * 2.0).sum(), (w * 3.0).sum()))
    first, other = f()
    first.backward()
    other.backward()
    np.testing.assert_array_equal(w.grad.numpy(), np.full_like(W, 5.0))
    with pytest.raises(GradientError, match="already used"):
        first.backward()


def test_a_donated_argument_that_wants_a_gradient_gets_it() -> None:
    p = ns.parameter(np.array([1.0, 2.0]), name="p")
    y = ns.compile(lambda a: (a * a).sum(), donate="a")(p)
    y.backward()
    assert p.grad.tolist() == [2.0, 4.0]
    with pytest.raises(UsageError, match="was donated"):
        _ = p + 1


def test_forward_jacobians_inside_of_compiled_functions() -> None:
    def f(x: Any) -> Any:
        return ns.scan(lambda c, row: (np.tanh(c + row), c * row), np.zeros(()), x)

    x = np.array([0.3, -0.2, 0.5])
    for transform in (ns.jacfwd, ns.jacrev):
        plain, compiled = transform(f)(x), ns.compile(transform(f))(x)
        for first, other in zip(plain, compiled, strict=True):
            np.testing.assert_allclose(other.numpy(), first.numpy(), rtol=1e-13)


def test_a_derivative_is_right_after_the_first_arguments_are_freed() -> None:
    w = ns.parameter(W, name="w")

    def f(x: Any) -> tuple[Any, Any]:
        return np.tanh(w * x), np.exp(w)

    f(ns.tensor(W))[0].sum().backward()
    expected = w.grad.numpy()
    # Memory that is freed last is allocated first, so one of the derivative's tensors gets the
    # argument's address.
    for count in range(40):
        w.grad = None
        x, later = ns.tensor(W), [ns.tensor(W) for _ in range(count)]
        h, _ = ns.compile(f)(x)
        total = h.sum()
        del x, h
        later.clear()
        total.backward()
        np.testing.assert_array_equal(w.grad.numpy(), expected)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("observing", [False, True])
@pytest.mark.parametrize("present", [(0,), (1,), (0, 1)])
def test_cotangents_for_some_results_of_an_op_of_several(
    present: tuple[int, ...], observing: bool
) -> None:
    def f(x: Any) -> tuple[Any, Any]:
        total, seen = ns.scan(lambda c, row: (np.tanh(c + row), c * row), x[0], x)
        return total, seen

    def gradients(f: Any) -> list[Any]:
        outcomes = []
        for rows in (4, 3, 5, 6, 6):
            x = ns.tensor(np.resize(X, (rows, 3)), requires_grad=True)
            results = f(x)
            sum((results[i] * results[i]).sum() for i in present).backward()
            outcomes.append(x.grad.numpy())
            first = ns.grad(lambda v: sum((f(v)[i] ** 2).sum() for i in present))
            outcomes.append(ns.grad(lambda v, first=first: first(v).sum())(x.detach()).numpy())
        return outcomes

    expected = gradients(f)
    with observed() if observing else contextlib.nullcontext():
        result = gradients(ns.compile(f))
    for gradient, expected_gradient in zip(result, expected, strict=True):
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-12)
