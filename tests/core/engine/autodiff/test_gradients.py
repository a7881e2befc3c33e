"""Reverse mode: backward, grad, value_and_grad, and what they refuse."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import GradientError, ShapeError


def w(*values: float, dtype: Any = np.float64) -> ns.Tensor:
    return ns.parameter(np.array(values), dtype, name="w")


def test_gradients_add_up_over_uses_and_calls() -> None:
    x = w(1.0, 2.0)
    (x * x + x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 5.0]
    (x * 2).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]
    x.grad = None
    assert x.grad is None


def test_gradient_has_the_dtype_and_shape_of_its_primal() -> None:
    x = ns.parameter(np.ones((3, 1)), np.float32, name="x")
    (x * ns.tensor(np.ones((2, 3, 4)))).sum().backward()
    assert x.grad is not None
    assert (x.grad.dtype, x.grad.shape) == (np.float32, (3, 1))
    assert x.grad.tolist() == [[8.0]] * 3


def test_relu_by_maximum_is_flat_at_zero() -> None:
    x = w(-1.0, 0.0, 1.0)
    np.maximum(x, 0).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.0, 1.0]


def test_a_given_gradient() -> None:
    x = w(1.0, 2.0)
    (x * x).backward([1.0, 10.0])
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 40.0]


def test_refusals() -> None:
    x = w(1.0, 2.0)
    with pytest.raises(GradientError, match="needs an initial gradient"):
        (x * x).backward()
    with pytest.raises(ShapeError, match="does not have the tensor's shape"):
        (x * x).backward(np.ones(3))
    with pytest.raises(GradientError, match="not computed from one that requires a gradient"):
        ns.tensor([1.0]).sum().backward()
    with pytest.raises(
        GradientError, match="cannot differentiate with respect to an argument of int64"
    ):
        ns.grad(lambda n: n * 1.0)(3)
    with pytest.raises(GradientError, match="must return a scalar tensor, not shape"):
        ns.grad(lambda v: v)(np.ones(2))
    with pytest.raises(GradientError, match="no argument 1"):
        ns.grad(lambda v: v.sum(), 1)(np.ones(2))


def test_a_used_tape_is_refused() -> None:
    x = w(1.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(GradientError, match="already used and freed"):
        y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0]


def test_no_grad_and_detach() -> None:
    x = w(2.0)
    with ns.no_grad():
        assert not (x * x).requires_grad
    assert (x * x).requires_grad
    (x.detach() * x + ns.stop_gradient(x)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0]


def test_no_grad_belongs_to_its_thread() -> None:
    x = w(2.0)
    results: list[bool] = []
    with ns.no_grad():
        thread = threading.Thread(target=lambda: results.append((x * x).requires_grad))
        thread.start()
        thread.join(60)
    assert results == [True]


def test_trees_and_aux() -> None:
    def f(params: Any, scale: float) -> Any:
        total = (params["a"] * params["b"][0]).sum() * scale
        return total, "aux"

    params = {"a": np.array([1.0, 2.0]), "b": (np.array([3.0, 4.0]),)}
    (value, aux), grads = ns.value_and_grad(f, has_aux=True)(params, 2.0)
    assert (value.item(), aux) == (22.0, "aux")
    assert grads["a"].tolist() == [6.0, 8.0]
    assert grads["b"][0].tolist() == [2.0, 4.0]
    assert ns.grad(f, has_aux=True)(params, 2.0)[1] == "aux"
    by_scale = ns.grad(lambda p, s: f(p, s)[0], (0, 1))(params, 2.0)
    assert by_scale[1].item() == 11.0


def test_an_unused_argument_has_gradient_zero() -> None:
    grads = ns.grad(lambda a, b: a.sum(), (0, 1))(np.ones(2), np.ones(3))
    assert grads[1].tolist() == [0.0] * 3
    assert ns.grad(lambda a: ns.tensor(1.0))(np.ones(2)).tolist() == [0.0] * 2


def test_derivatives_nest() -> None:
    cube = lambda x: x * x * x  # noqa: E731 (a formula)
    first, second = ns.grad(cube), ns.grad(ns.grad(cube))
    third = ns.grad(second)
    assert (first(2.0).item(), second(2.0).item(), third(2.0).item()) == (12.0, 12.0, 6.0)


def test_a_gradient_penalty_reaches_the_closure() -> None:
    x = w(3.0)
    slope = ns.grad(lambda v: (v * v * x).sum())(np.array([2.0]))
    (slope * slope).sum().backward()  # The loss is (2 v w)^2, so the gradient is 8 v^2 w.
    assert x.grad is not None
    assert x.grad.tolist() == [96.0]


def test_inner_derivatives_do_not_disturb_outer_ones() -> None:
    def f(x: Any) -> Any:
        return x * ns.grad(lambda y: x * y * y)(x)  # x * 2 x x.

    assert ns.grad(f)(2.0).item() == pytest.approx(24.0)


def test_a_long_program_neither_recurses_nor_leaks() -> None:
    x = w(1.0)
    y = x
    for _ in range(50_000):
        y = y + 1.0
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0]
    for _ in range(50_000):
        y = y * 1.0
    del y


def test_what_is_dropped_is_freed_without_backward() -> None:
    class Watched(np.ndarray):
        pass

    x = w(1.0)
    y = x * 2.0
    y.data = y.data.view(Watched)
    reference = weakref.ref(y.data)
    z = y + x
    gc.disable()
    try:
        del y
        assert reference() is not None
        del z
        assert reference() is None
    finally:
        gc.enable()


def test_sums_of_many_uses_touch_nothing_that_is_shared() -> None:
    cotangent = np.array([1.0, 2.0], np.float32)
    x, y = (ns.parameter(np.ones(2, np.float32), name=name) for name in "xy")
    # In x + x and y + y, every use gets the given cotangent array itself.
    total = ((x + y) + (x + y)) + ((x + x) + y)
    total.backward(cotangent, retain_graph=True)
    first = x.grad
    assert first is not None
    total.backward(cotangent)
    assert x.grad is not None
    assert y.grad is not None
    np.testing.assert_array_equal(cotangent, [1.0, 2.0])
    np.testing.assert_array_equal(first.numpy(), [4.0, 8.0])
    np.testing.assert_array_equal(x.grad.numpy(), [8.0, 16.0])
    np.testing.assert_array_equal(y.grad.numpy(), [6.0, 12.0])


def test_sums_of_scalars_add_up() -> None:
    x = ns.parameter(np.float64(3.0), name="x")
    (x * x * x + x + x + x).backward()
    assert x.grad is not None
    assert x.grad.item() == 30.0
