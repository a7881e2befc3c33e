"""Writing to tensors while a graph is built: as without, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import TraceError

A = np.arange(12.0).reshape(3, 4) / 7


def _computed(x: Any) -> Any:
    y = x * 2
    y += 1
    y[0] = x[1]
    y[:, 1] *= x[:, 2]
    return y


def _made_inside(x: Any) -> Any:
    states = ns.tensor(np.zeros((4, 4)))
    for i in range(3):
        states[i + 1] = np.tanh(states[i] + x[i])
    return states


def _like(x: Any) -> Any:
    total = np.zeros_like(x)
    total += x
    np.add(total, x, out=total)
    np.add.at(total, [0, 0], x[0])
    np.copyto(total, total * 1.5)
    return total


def _view_is_gone(x: Any) -> Any:
    y = x * 1
    kept = y[0] * 2
    y[0] = kept
    return y


def _differentiated_inside(x: Any) -> Any:
    def f(a: Any) -> Any:
        b = a * a
        c = b * 1
        b[0] = 0
        b *= a
        return (b * c).sum()

    return ns.grad(f)(x)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "program", [_computed, _made_inside, _like, _view_is_gone, _differentiated_inside]
)
def test_compiled_functions_may_write(program: Any) -> None:
    compiled = ns.compile(program)
    for shift in (0.0, 1.0):
        x = ns.tensor(A + shift)
        np.testing.assert_array_equal(compiled(x).numpy(), program(x).numpy())
        np.testing.assert_array_equal(x.numpy(), A + shift)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("program", [_computed, _made_inside, _like, _view_is_gone])
def test_gradients_through_compiled_functions_that_write(program: Any) -> None:
    first, two = ns.parameter(A, name="w"), ns.parameter(A, name="w")
    (program(first) * A.sum()).sum().backward()
    (ns.compile(program)(two) * A.sum()).sum().backward()
    np.testing.assert_allclose(two.grad.numpy(), first.grad.numpy(), rtol=1e-14)  # type: ignore[union-attr]


def test_parameters_are_state() -> None:
    def step(w: Any, x: Any) -> Any:
        loss = ((w * x) ** 2).sum()
        w.grad = None
        loss.backward()
        with ns.no_grad():
            w -= 0.1 * w.grad
        return loss

    eager, static = ns.parameter(A, name="w"), ns.parameter(A, name="w")
    compiled = ns.compile(lambda x: step(static, x))
    for _ in range(3):
        expected = step(eager, ns.tensor(A + 1))
        result = compiled(ns.tensor(A + 1))
        np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-12)
        np.testing.assert_allclose(static.numpy(), eager.numpy(), rtol=1e-12)


OUTSIDE = ns.tensor(A)
FIXED = ns.constant(A)


def _argument(x: Any) -> Any:
    x += 1
    return x


def _outside(x: Any) -> Any:
    OUTSIDE[0] = x[0]
    return x


def _constant(x: Any) -> Any:
    fixed = FIXED
    fixed += x
    return x


def _seen_in_an_order_that_the_run_shows(x: Any) -> Any:
    y = x * 2
    flat = y.reshape(-1)
    flat[3] = 1
    return y


def _seen_by_its_argument(x: Any) -> Any:
    row = x[0]
    row += 1
    return x


def _in_a_body(x: Any) -> Any:
    y = x * 2

    def write(a: Any) -> Any:
        y[0] = 1
        return a

    return ns.cond(x.sum() > 0, write, lambda a: a, x)


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (_argument, "an argument of the graph"),
        (_outside, "from outside of the graph"),
        (_constant, "from outside of the graph"),
        (_seen_in_an_order_that_the_run_shows, "shares memory with another"),
        (_seen_by_its_argument, "shares memory with another"),
        (_in_a_body, "the graph around this body"),
    ],
)
def test_what_a_graph_could_not_do_is_refused(program: Any, says: str) -> None:
    with pytest.raises(TraceError, match=says) as caught:
        ns.compile(program)(ns.tensor(A))
    assert "test_inplace_static.py" in caught.value.source
    np.testing.assert_array_equal(OUTSIDE.numpy(), A)
    np.testing.assert_array_equal(FIXED.numpy(), A)
    assert type(OUTSIDE) is ns.Tensor


def test_graphs_built_by_hand() -> None:
    graph = ns.Graph()
    with graph.as_default():
        x = ns.placeholder(np.float64, shape=(3, 4), name="x")
        y = x * 2
        y[0] = y[1] + 1
        y[0] = 7.0
        y += x
        with pytest.raises(TraceError, match="argument of the graph"):
            x += 1
    result, first = ns.Session(graph).run([y, "multiply:0"], {x: A})
    np.testing.assert_array_equal(first, A * 2)  # A name means the value of its node.
    expected = A * 2
    expected[0] = 7
    np.testing.assert_array_equal(result, expected + A)


def test_a_write_keeps_the_layout_so_that_what_follows_has_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((2, 6)) + 1j * rng.standard_normal((2, 6))).astype(np.complex64).T

    def f(x: Any) -> Any:
        y = x * 1.0
        y[:, :1] = y[:, :1] * 3
        return y, np.einsum("ij,kj->ik", y, y), y @ y.T

    eager, static = f(ns.tensor(x)), ns.compile(f)(ns.tensor(x))
    assert static[0].data.strides == eager[0].data.strides
    np.testing.assert_equal(
        [tensor.numpy() for tensor in static], [tensor.numpy() for tensor in eager]
    )


def test_augmented_items_in_a_graph_that_is_built_by_hand() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        y[:, :2] *= 3.0
        y[0] += x[1]
        y[np.array([0, 2]), 1] -= 1.0
        return y

    with ns.Graph().as_default() as graph:
        x = ns.placeholder(np.float64, A.shape, name="x")
        y = f(x)
        view = y[0]
        view += 1.0
    expected = f(ns.tensor(A)).numpy().copy()
    expected[0] += 1
    np.testing.assert_array_equal(ns.Session(graph).run(y, {x: A}), expected)


def _by_a_view(x: Any) -> Any:
    y = np.copy(x)
    y[1:][0] = 5.0
    v = y[1:]
    v *= 2
    return y, v


def _of_a_view(x: Any) -> Any:
    y = x * 2
    row = y[0]
    y += 1
    return row * 1, y


def _two_views(x: Any) -> Any:
    y = x.copy()
    turned, column, flat = y.T[::-1], y[:, 1], y.reshape(-1)
    turned[0] = x.sum()
    column += 1
    flat[5:7] *= 3
    y[2] = -column[0]
    return y, turned, column, flat


def _a_copy_is_none(x: Any) -> Any:
    y = x.copy()
    flat = y.T.reshape(-1)
    flat[3] = 9.0
    return y, flat


def _views_of_what_was_made_inside(x: Any) -> Any:
    y = ns.tensor(np.zeros((4, 4)))
    v = y[1:]
    v[:] = x
    v[0, :2] += 1
    return y, v


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "program",
    [_by_a_view, _of_a_view, _two_views, _a_copy_is_none, _views_of_what_was_made_inside],
)
def test_views_are_written_in_graphs_as_in_memory(program: Any) -> None:
    eager, static = ns.parameter(A, name="w"), ns.parameter(A, name="w")
    expected, result = program(eager), ns.compile(lambda: program(static))()
    for first, two in zip(expected, result, strict=True):
        np.testing.assert_array_equal(two.numpy(), first.numpy())
    for results in (expected, result):
        sum(np.sum(np.sin(result) * A.sum()) for result in results).backward()
    np.testing.assert_array_equal(static.grad.numpy(), eager.grad.numpy())  # type: ignore[union-attr]


def test_functions_that_give_copies_do_so_of_whatever_is_traced() -> None:
    outside, weight = ns.tensor(A), ns.parameter(A, name="w")

    def f(x: Any) -> Any:
        y = np.tile(x, 1)
        y[0] = 1.0
        return y, np.tile(x, 2), np.repeat(x, 2, axis=0), *np.meshgrid(x[0], x[1])

    for source in (outside, weight):
        run = ns.compile(lambda s=source: f(ns.stop_gradient(s)))
        for first, two in zip(f(ns.tensor(A)), run(), strict=True):
            np.testing.assert_array_equal(two.numpy(), first.numpy())
    np.testing.assert_array_equal(outside.numpy(), A)
