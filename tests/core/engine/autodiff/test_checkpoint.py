"""Checkpointing: less memory is kept, and everything else is the same."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine import dispatch_mode
from nodescope.engine.building import Builder
from nodescope.errors import GradientError
from nodescope.ir.graph import TensorSpec
from tests.core.engine.events_of import observed

RNG = np.random.default_rng(0)
W, X = RNG.standard_normal((4, 4)), RNG.standard_normal((3, 4))


def gradients(wrap: Callable[[Any], Any], depth: int = 4, create_graph: bool = False) -> Any:
    """The gradients of a chain of blocks with a shared parameter, which is also used outside."""
    w = ns.parameter(W, name="w")
    x = ns.tensor(X, requires_grad=True)
    rng = ns.random.Generator(7)
    mean = ns.parameter(np.zeros(4), name="mean")

    def block(h: Any) -> Any:
        with ns.name_scope("block"):
            kept = rng.bernoulli(0.7, h.shape)
            ns.assign(mean, mean * 0.9 + h.detach().mean(axis=0) * 0.1)
            return np.tanh(h @ w + x) * kept + w.sum() * 0.1

    h = x * 1.0
    for _ in range(depth):
        h = wrap(block)(h)
    loss = (h * h).sum() + (w * w).sum()
    loss.backward(create_graph=create_graph)
    assert w.grad is not None
    assert x.grad is not None
    return [tensor.numpy() for tensor in (w.grad, x.grad, rng.state, mean, loss)]


def nested(f: Callable[..., Any]) -> Callable[..., Any]:
    inner = ns.checkpoint(f)
    return ns.checkpoint(lambda h: inner(h))


@pytest.mark.parametrize("wrap", [ns.checkpoint, nested], ids=["flat", "nested"])
@pytest.mark.parametrize("create_graph", [False, True], ids=["raw", "traced"])
def test_everything_is_bit_identical(wrap: Any, create_graph: bool) -> None:
    """Gradients, the generator's state, and a running mean that the blocks change."""
    plain = gradients(lambda f: f)
    for gradient, other in zip(gradients(wrap, create_graph=create_graph), plain, strict=True):
        np.testing.assert_array_equal(gradient, other)


@pytest.mark.parametrize("wrap", [ns.checkpoint, nested], ids=["flat", "nested"])
def test_an_observed_checkpoint_gives_the_same_and_shows_its_nodes(wrap: Any) -> None:
    plain = gradients(lambda f: f)
    with observed() as events:
        result = gradients(wrap, depth=4)
    for first, other in zip(result, plain, strict=True):
        np.testing.assert_array_equal(first, other)
    again = [node for node in events.nodes.values() if node.phase == "recompute"]
    assert {node.scope for node in again} == {"recompute/block"}
    forward = [node for node in events.nodes.values() if node.scope == "block"]
    assert [node.op for node in forward if node.op == "tanh"] == ["tanh"] * 4
    # The outer block runs again, and each time the inner one does too.
    times = 2 if wrap is nested else 1
    assert sum(node.op == "tanh" for node in again) == 4 * times
    back = {node.scope for node in events.nodes.values() if node.phase == "backward"}
    assert "backward/block" in back
    assert not any("recompute" in scope for scope in back)


def test_higher_derivatives() -> None:
    f = ns.checkpoint(lambda v: np.sin(v) * v)
    x = np.array([1.0, 2.0])
    wanted = np.diag(2 * np.cos(x) - x * np.sin(x))
    np.testing.assert_allclose(ns.hessian(lambda v: f(v).sum())(x).numpy(), wanted)
    _, tangent = ns.jvp(f, (x,), (np.ones(2),))
    np.testing.assert_allclose(tangent.numpy(), np.sin(x) + x * np.cos(x))


def test_trees_in_and_out_and_no_gradient_wanted() -> None:
    @ns.checkpoint
    def f(tree: Any, k: int = 1) -> Any:
        return {"y": tree["a"] * k, "n": 3, "i": np.argmax(tree["a"]), "same": tree["a"]}

    x = ns.tensor([1.0, 2.0], requires_grad=True)
    result = f({"a": x}, k=5)
    assert result["n"] == 3
    assert result["i"].item() == 1
    (result["y"] + result["same"]).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [6.0, 6.0]
    assert not f({"a": ns.tensor([1.0])})["y"].requires_grad
    with ns.no_grad():
        assert not f({"a": x})["y"].requires_grad


class Watched(np.ndarray):
    """An array that can be watched as it goes."""


def test_what_is_between_is_freed_after_the_forward_run() -> None:
    seen: list[Any] = []

    def block(h: Any) -> Any:
        between = np.exp(h)
        between.data = between.data.view(Watched)
        seen.append(weakref.ref(between.data))
        return np.sin(between)

    x = ns.tensor(np.ones(3), requires_grad=True)
    gc.disable()
    try:
        y = ns.checkpoint(block)(x)
        assert seen[0]() is None
        z = block(x)
        assert seen[1]() is not None
        y.sum().backward()
        assert seen[2]() is None
        del z
    finally:
        gc.enable()


def test_a_long_chain_in_pieces_needs_less_memory() -> None:
    size, pieces, length = 50_000, 8, 8

    def piece(h: Any) -> Any:
        for _ in range(length):
            h = np.sin(h)
        return h

    def peak(wrap: Callable[[Any], Any]) -> int:
        x = ns.tensor(np.ones(size), requires_grad=True)
        tracemalloc.start()
        h = x
        for _ in range(pieces):
            h = wrap(piece)(h)
        h.sum().backward()
        result = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return result

    array = size * 8
    plain, less = peak(lambda f: f), peak(ns.checkpoint)
    assert plain > pieces * length * array
    assert less < (pieces + length + 6) * array


def test_the_graph_can_be_used_twice() -> None:
    x = ns.tensor([1.0, 2.0], requires_grad=True)
    y = ns.checkpoint(lambda h: h * h * h)(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [6.0, 24.0]
    with pytest.raises(GradientError, match="already used and freed"):
        y.backward()


def test_writing_inside_happens_once() -> None:
    count = ns.tensor([0.0, 0.0])

    def f(h: Any) -> Any:
        nonlocal count
        count += 1.0
        return h * count

    x = ns.tensor([1.0, 2.0], requires_grad=True)
    y = ns.checkpoint(f)(x)
    count += 10.0
    y.sum().backward()
    assert count.tolist() == [11.0, 11.0]
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0]


def test_in_a_graph_that_is_built() -> None:
    builder = Builder()
    with dispatch_mode.building(builder):
        x = builder.placeholder(TensorSpec((3, 4), "float64"), grad=True)
        with ns.name_scope("net"):
            y = ns.checkpoint(lambda h: np.tanh(h) * np.sin(h))(x)
        y.sum().backward()
        gradient = x.grad
    assert gradient is not None
    again = [node for node in builder.nodes if node.phase == "recompute"]
    assert [node.op for node in again] == ["tanh", "sin", "multiply"]
    assert {node.scope for node in again} == {"recompute/net"}


def test_a_function_that_does_something_else_is_refused() -> None:
    sizes = iter([2, 3])
    x = ns.tensor(np.ones(3), requires_grad=True)
    y = ns.checkpoint(lambda h: h[: next(sizes)])(x)
    with pytest.raises(
        GradientError, match="different shapes or dtypes when it was rerun"
    ) as caught:
        y.sum().backward()
    assert "test_checkpoint.py:" in caught.value.source
    turns = iter([True, False])
    z = ns.checkpoint(lambda h: h * 2.0 if next(turns) else h.detach() * 2.0)(x)
    with pytest.raises(GradientError, match="a result that requires no gradient when it was rerun"):
        z.sum().backward()


def test_what_it_reads_may_be_written_to_inside_and_later() -> None:
    def run(wrap: Callable[[Any], Any]) -> Any:
        count = ns.tensor([1.0, 2.0])
        x = ns.tensor([1.0, 2.0], requires_grad=True)
        h = x * 3.0

        def f(h: Any, k: Any) -> Any:
            nonlocal count
            before = h * count * k
            count += 1.0
            return before * h

        k = ns.tensor([5.0, 7.0])
        y = wrap(f)(h, k)
        k *= 100.0
        h *= 100.0
        (y.sum() + h.sum()).backward()
        assert x.grad is not None
        return [x.grad.tolist(), count.tolist(), k.tolist(), h.tolist()]

    assert run(ns.checkpoint) == run(lambda f: f)


def test_a_parameter_that_has_changed_is_refused() -> None:
    w = ns.parameter([2.0], name="w")
    y = ns.checkpoint(lambda x: x * w * w)(ns.tensor([3.0]))
    ns.assign(w, np.array([5.0]))
    with pytest.raises(GradientError, match="the leaf 'w' has changed since <lambda> used it"):
        y.sum().backward()

    def inside(x: Any) -> Any:
        y = x * w * w
        ns.assign(w, w * 2.0)
        return y

    for wrap in (lambda f: f, ns.checkpoint):
        z = wrap(inside)(ns.tensor([3.0]))
        with pytest.raises(GradientError, match="the leaf 'w' has changed since"):
            z.sum().backward()
