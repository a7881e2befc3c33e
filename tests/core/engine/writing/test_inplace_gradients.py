"""Gradients through writes, and writes to leaves: right, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import GradientError

A = np.arange(12.0).reshape(3, 4)


def same(result: Any, expected: Any) -> None:
    """Equal to the last bit, dtype and shape included."""
    assert isinstance(result, ns.Tensor)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    assert result.tolist() == expected.tolist()


def _gradient(program: Any) -> Any:
    w = ns.parameter(A / 7 + 0.3, name="w")
    program(w).backward()
    return w.grad.numpy() if w.grad is not None else None


def _agree(written: Any, functional: Any) -> None:
    np.testing.assert_array_equal(_gradient(written), _gradient(functional))


def test_a_value_that_was_overwritten_keeps_its_gradient() -> None:
    def written(w: Any) -> Any:
        h = w * 2
        squares = h * h
        h += 1
        h *= squares
        return h.sum()

    def functional(w: Any) -> Any:
        h = w * 2
        squares = h * h
        return ((h + 1) * squares).sum()

    _agree(written, functional)


def test_gradients_through_views() -> None:
    def written(w: Any) -> Any:
        h = w * 2
        row = h[1]
        row *= row
        h[0] = row * h[2]
        np.add.at(row, [0, 0], w[0, 0])
        return (h * h).sum()

    def functional(w: Any) -> Any:
        h = w * 2
        row = h[1] * h[1]
        first = row * h[2]
        row = row + np.stack([2 * w[0, 0], 0 * w[0, 0], 0 * w[0, 0], 0 * w[0, 0]])
        return (first * first).sum() + (row * row).sum() + (h[2] * h[2]).sum()

    np.testing.assert_allclose(_gradient(written), _gradient(functional), rtol=1e-13)


def test_a_buffer_that_is_filled() -> None:
    def written(w: Any) -> Any:
        states = ns.tensor(np.zeros((4, 4)))
        for i in range(3):
            states[i + 1] = np.tanh(states[i] + w[i])
        return (states * states).sum()

    def functional(w: Any) -> Any:
        states = [ns.tensor(np.zeros(4))]
        for i in range(3):
            states.append(np.tanh(states[-1] + w[i]))
        stacked = np.stack(states)
        return (stacked * stacked).sum()

    np.testing.assert_allclose(_gradient(written), _gradient(functional), rtol=1e-13)


def test_backward_through_a_written_tensor_itself() -> None:
    w = ns.parameter(A, name="w")
    x = w * 3
    x[0] = 0
    loss = x.sum()
    loss += (w * w).sum()
    loss.backward()
    expected = 3 + 2 * A
    expected[0] = 2 * A[0]
    same(w.grad, expected)
    with pytest.raises(GradientError, match="already used"):
        loss.backward()


def test_second_derivatives_through_writes() -> None:
    def f(x: Any) -> Any:
        y = x * x
        y *= x
        return y.sum()

    x = np.array([1.0, 2.0])
    twice = ns.grad(lambda x: ns.grad(f)(x).sum())
    np.testing.assert_allclose(twice(x).numpy(), 6 * x)


def test_gradients_do_not_share() -> None:
    x, y = ns.parameter(A, name="x"), ns.parameter(A, name="y")
    (x + y.reshape(4, 3).reshape(3, 4)).sum().backward()
    x.grad *= 0.5  # type: ignore[operator]
    same(x.grad, np.full_like(A, 0.5))
    same(y.grad, np.ones_like(A))
    first, two = ns.grad(lambda a, b: (a + b).sum(), argnums=(0, 1))(A, A)
    first[0] = 7
    same(two, np.ones_like(A))


def test_a_function_that_writes_to_its_argument_is_differentiated() -> None:
    w = ns.parameter(A, name="w")

    def f(x: Any) -> Any:
        y = x * x
        x += 1
        return (y * x).sum()

    h = w * 1
    gradient = ns.grad(f)(h)
    np.testing.assert_allclose(gradient.numpy(), 3 * A * A + 2 * A)


# Leaves


def test_leaves_are_refused_under_a_tape() -> None:
    w = ns.parameter(A, name="w")
    with pytest.raises(GradientError, match=r"x \+= y would write to the leaf 'w'"):
        w += 1
    row = w[0]
    with pytest.raises(GradientError, match="shares memory with a leaf"):
        row += 1
    with pytest.raises(GradientError, match=r"x\[i\] = y would write to the leaf 'w'"):
        w[0] += 1
    with pytest.raises(GradientError, match=r"np\.exp with out= would write to the leaf"):
        np.exp(w, out=w)
    same(w, A)


def test_leaves_are_written_without_a_tape() -> None:
    w = ns.parameter(A, name="w")
    for _ in range(2):
        w.grad = None
        (w * w).sum().backward()
        row = w[1]
        with ns.no_grad():
            w -= 0.25 * w.grad
            w[0] = 0
    expected = A * 0.25
    expected[0] = 0
    same(w, expected)
    same(row, expected[1])
    assert type(w) is ns.Tensor
    assert w.requires_grad


def test_a_leaf_that_changed_is_not_pulled_through() -> None:
    def change_by_assign(w: Any) -> None:
        ns.assign(w, A)

    def change_by_step(w: Any) -> None:
        w.grad = ns.tensor(np.ones_like(A))
        ns.optim.SGD([w], lr=0.1).step()

    def change_in_place(w: Any) -> None:
        with ns.no_grad():
            w *= 2

    for change in (change_by_assign, change_by_step, change_in_place):
        w = ns.parameter(A, name="w")
        plus = (w + 1).reshape(-1)
        squares = w * w
        change(w)
        w.grad = None
        plus.backward(np.ones(12))  # The gradient of the sum does not need the elements of w.
        same(w.grad, np.ones_like(A))
        with pytest.raises(GradientError, match="'w' has changed since multiply used it"):
            squares.sum().backward()
        (w * w).sum().backward()


def test_assign_copies() -> None:
    w, v = ns.parameter(A, name="w"), ns.tensor(A)
    ns.assign(w, v)
    v += 1
    same(w, A)


def test_what_would_lose_its_gradient_is_not_written_to() -> None:
    w = ns.parameter(np.ones(3), name="w")
    x = w * 2
    with ns.no_grad(), pytest.raises(GradientError, match="nothing is recorded here"):
        x[0] = 5.0
    alias = x.detach()
    with pytest.raises(GradientError, match="detached from a tensor that requires a gradient"):
        alias[0] = 5.0
    with pytest.raises(GradientError, match=r"x\.detach\(\)\.copy\(\)"):
        alias += 1
    copy = x.detach().copy()
    copy += 1
    np.sum(x * x).backward()
    assert w.grad.numpy().tolist() == [8.0, 8.0, 8.0]
