"""Reverse mode at its limits: long programs, threads, shared arrays, errors inside of rules."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.run import apply
from nodescope.errors import DtypeError, GradientError
from nodescope.ops.op import Op
from tests.core.engine.events_of import observed


def leaf(*values: float, dtype: Any = np.float64) -> ns.Tensor:
    return ns.tensor(values, dtype, requires_grad=True)


def chain(x: Any, length: int) -> Any:
    for _ in range(length):
        x = x + 1.0
    return x


@pytest.mark.deep
def test_a_very_long_tape_is_freed_without_recursion() -> None:
    y = chain(leaf(1.0), 200_000)
    del y
    kept = [chain(leaf(1.0), 20_000) for _ in range(2)]
    kept[0].sum().backward()
    kept[1].sum().backward(retain_graph=True)
    del kept


def test_a_very_long_program_is_traced_and_transformed_without_recursion() -> None:
    result = ns.grad(lambda x: chain(x, 20_000).sum())(np.ones(1))
    assert result.tolist() == [1.0]
    w = ns.parameter(np.ones(1), name="w")
    again = ns.grad(lambda x: (chain(x, 20_000) * w).sum())(np.ones(1))
    again.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [1.0]


def test_threads_pull_their_own_graphs_at_once() -> None:
    shared = np.linspace(0.1, 1.0, 50)
    results: dict[int, Any] = {}
    start = threading.Barrier(4)

    def work(number: int) -> None:
        x = ns.tensor(shared * number, requires_grad=True)
        start.wait(60)
        for _ in range(30):
            h = x
            for _ in range(20):
                h = np.sin(h) * x
            h.sum().backward(create_graph=number % 2 == 0)
        results[number] = x.grad

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number in range(1, 5):

        def alone(x: Any) -> Any:
            h = x
            for _ in range(20):
                h = np.sin(h) * x
            return h.sum()

        wanted = 30 * ns.grad(alone)(shared * number)
        np.testing.assert_allclose(results[number].numpy(), wanted.numpy(), rtol=1e-12)


def test_a_gradient_is_not_an_array_of_the_users() -> None:
    cotangent = np.array([1.0, 2.0])
    x = leaf(1.0, 1.0)
    (x + 0.0).backward(cotangent)
    cotangent[:] = 100.0
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 2.0]


def test_leaves_that_share_a_cotangent_add_up_apart() -> None:
    x, y = leaf(1.0), leaf(1.0)
    for _ in range(3):
        (x + y).sum().backward()
    (x * 2.0).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad.tolist(), y.grad.tolist()) == ([5.0], [3.0])


@pytest.mark.parametrize("traced", [False, True])
def test_cotangents_that_are_not_contiguous(traced: bool) -> None:
    x = ns.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    ct = np.arange(12.0).reshape(3, 4)[::-1, ::-2]
    (x.T * 1.0).backward(ct, create_graph=traced)
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), ct.T)
    (x[:, ::-1] * x[::-1]).sum().backward()
    np.testing.assert_array_equal(
        x.grad.numpy(), ct.T + x.numpy()[::-1, ::-1][::-1][::-1] + x.numpy()[::-1, ::-1]
    )


def test_indices_that_repeat_add_up() -> None:
    x = leaf(1.0, 2.0, 3.0)
    at = np.array([0, 0, 2, -1])
    (x[at] * np.array([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [11.0, 0.0, 1100.0]


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "gelu", "silu"])
def test_second_derivatives_are_those_of_differences(name: str) -> None:
    f = getattr(ns, name)
    weights = np.array([0.3, -1.0, 2.0])

    def total(x: Any) -> Any:
        out = f(x)
        return (out * weights).sum() if out.ndim else out

    x = np.array([0.5, -0.2, 1.0])
    result = ns.hessian(total)(x).numpy()
    step = 1e-5
    rows = [
        (ns.grad(total)(x + step * first).numpy() - ns.grad(total)(x - step * first).numpy())
        / (2 * step)
        for first in np.eye(3)
    ]
    np.testing.assert_allclose(result, rows, atol=1e-8)


def test_retain_and_create_graph() -> None:
    x = leaf(2.0)
    y = (x * x * x).sum()
    y.backward(create_graph=True)
    first = x.grad
    assert first is not None
    x.grad = None
    first.sum().backward(retain_graph=True)
    assert x.grad is not None
    assert x.grad.tolist() == [12.0]
    first.sum().backward()
    assert x.grad.tolist() == [24.0]
    with pytest.raises(GradientError, match="already used and freed"):
        first.sum().backward()


def test_grad_in_float16_and_mixed_dtypes_keeps_the_leafs_dtype() -> None:
    x, y = leaf(1.0, dtype=np.float16), leaf(2.0, dtype=np.float32)
    for _ in range(2):
        (x * y * np.float64(3.0)).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad.dtype, y.grad.dtype) == (np.float16, np.float32)
    assert (x.grad.tolist(), y.grad.tolist()) == ([12.0], [6.0])


def test_a_complex_gradient_for_a_real_tensor_is_refused() -> None:
    x = leaf(1.0)
    with pytest.raises(DtypeError, match="a complex128 gradient for a float64 tensor"):
        (x * x).backward([1j])


BROKEN = Op(
    name="broken",
    family="elementwise",
    infer=lambda specs, attrs: specs[0],  # type: ignore[arg-type, return-value]
    impl=lambda x: x * 1.0,
    vjp=(lambda F, ct, out, x: F.matmul(ct, F.reshape(x, shape=(7,))),),
)


def test_errors_in_rules_say_where() -> None:
    x = leaf(1.0, 2.0)
    y = apply(BROKEN, (x * 1.0,), {}).sum()
    with pytest.raises(ValueError) as caught:
        y.backward(retain_graph=True)
    assert caught.value.__notes__ == ["nodescope: in the gradient of broken(float64 (2,))"]
    with observed() as events:
        y = apply(BROKEN, (x * 1.0,), {}).sum()
        with pytest.raises(ValueError) as caught:
            y.backward()
    number = events.nodes["broken"].id
    note = f"nodescope: in the gradient of broken(float64 (2,)), node {number}"
    assert caught.value.__notes__ == [note]


def test_functions_that_write_to_their_argument() -> None:
    def f(x: Any) -> Any:
        x *= 3.0
        return (x * x * x).sum()

    def g(x: Any) -> Any:
        return f(x * 1.0)

    x = np.array([2.0])
    assert ns.grad(g)(x).tolist() == [27.0 * 3 * 4.0]
    # The inner function's argument is a computed tensor, so the function may write to it.
    inner = ns.grad(lambda x: ns.grad(f)(x * 1.0).sum())
    assert inner(x).tolist() == [27.0 * 6 * 2.0]
    assert ns.jvp(g, (x,), (np.ones(1),))[1].item() == 27.0 * 3 * 4.0
    assert ns.jacobian(lambda x: ns.jacobian(f)(x * 1.0))(x).tolist() == [[27.0 * 6 * 2.0]]


def test_an_array_that_is_overwritten_later_changes_nothing() -> None:
    factor = np.array([2.0, 3.0])
    w = ns.parameter(np.ones(2), name="w")
    loss = np.sum(w * factor) + np.sum(np.multiply(factor, w))
    factor[:] = 100.0
    loss.backward()
    assert w.grad.numpy().tolist() == [4.0, 6.0]

    f = ns.compile(lambda x: x + factor)
    assert f(ns.tensor(1.0)).tolist() == [101.0, 101.0]
    factor[:] = 0.0
    assert f(ns.tensor(1.0)).tolist() == [101.0, 101.0]  # An array is a constant of the graph.
