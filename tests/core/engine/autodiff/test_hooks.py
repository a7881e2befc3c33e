"""Hooks on gradients, and gradients of computed tensors that are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import GradientError, ShapeError
from tests.core.engine.events_of import observed


def leaf(*values: float) -> ns.Tensor:
    return ns.tensor(values, requires_grad=True)


def listed(tensor: ns.Tensor | None) -> Any:
    assert tensor is not None
    return tensor.tolist()


@pytest.fixture(params=["alone", "observed"])
def looking(request: pytest.FixtureRequest) -> Any:
    if request.param == "alone":
        yield None
    else:
        with observed() as events:
            yield events


def test_a_hook_sees_the_whole_gradient_once(looking: Any) -> None:
    x = leaf(1.0, 2.0)
    h = x * 3.0
    seen: list[Any] = []
    h.register_hook(lambda g: seen.append(g.tolist()))
    (h * h + h).sum().backward()
    assert seen == [[7.0, 13.0]]
    assert listed(x.grad) == [21.0, 39.0]


def test_a_hook_registered_after_use_replaces_what_flows_on(looking: Any) -> None:
    x = leaf(1.0, 2.0)
    h = x * 3.0
    y = (h * h).sum()
    h.register_hook(lambda g: g * 10.0)
    h.register_hook(lambda g: g + 1.0)  # Hooks run in the order in which they were registered.
    y.backward()
    assert listed(x.grad) == [3.0 * 61.0, 3.0 * 121.0]


def test_hooks_of_leaves(looking: Any) -> None:
    x = leaf(1.0, 2.0)
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    x.register_hook(lambda g: -g)
    for _ in range(2):
        (x * x + x).sum().backward()
    assert seen == [[3.0, 5.0]] * 2
    assert listed(x.grad) == [-6.0, -10.0]
    assert listed(ns.grad(lambda v: (v * x).sum())(np.ones(2))) == [1.0, 2.0]


def test_handles_remove() -> None:
    x = leaf(1.0)
    h = x * 2.0
    seen: list[Any] = []
    handle = h.register_hook(seen.append)
    with h.register_hook(lambda g: g * 5.0):
        h.sum().backward(retain_graph=True)
    handle.remove()
    handle.remove()
    h.sum().backward()
    assert len(seen) == 1
    assert listed(x.grad) == [12.0]


def test_kept_gradients_add_up_after_all_hooks(looking: Any) -> None:
    x = leaf(1.0, 2.0)
    h = x * 3.0
    h.retain_grad()
    h.retain_grad()
    x.retain_grad()
    h.register_hook(lambda g: g * 2.0)
    y = h.sum()
    y.backward(retain_graph=True)
    assert listed(h.grad) == [2.0, 2.0]
    y.backward()
    assert listed(h.grad) == [4.0, 4.0]
    assert listed(x.grad) == [12.0, 12.0]


def test_a_root_and_a_source_have_hooks_too() -> None:
    x = leaf(2.0)
    y = x * x
    y.register_hook(lambda g: g * 3.0)
    y.backward(np.ones(1))
    assert listed(x.grad) == [12.0]
    with ns.GradientTape() as tape:
        h = x * x
        z = h * h
    h.register_hook(lambda g: g * 10.0)
    by_h, by_x = tape.gradient(z, [h, x])
    assert (listed(by_h), listed(by_x)) == ([80.0], [320.0])


def test_a_hooks_operations_are_nodes_of_the_backward_pass() -> None:
    with observed() as events:
        x = leaf(1.0, 2.0)
        with ns.name_scope("layer"):
            h = x * 3.0
        h.register_hook(lambda g: np.sin(g))
        (h * h).sum().backward()
    node = events.nodes["backward/layer/sin"]
    assert (node.phase, node.forward) == ("backward", events.nodes["layer/multiply"].id)


def test_hooks_can_be_differentiated_through() -> None:
    x = leaf(3.0)
    h = x * 1.0
    h.register_hook(lambda g: g * x)  # d(h^2)/dh is 2 h; the hook multiplies it by x.
    (h * h).sum().backward(create_graph=True)
    slope = x.grad
    assert listed(slope) == [18.0]
    x.grad = None
    assert slope is not None
    slope.sum().backward()
    # The first gradient is 2 h x. Its derivative by x is 2 h, plus 2 x through h, which the hook
    # multiplies by x.
    assert listed(x.grad) == [6.0 + 6.0 * 3.0]


def test_complex_gradients_are_the_users() -> None:
    z = ns.tensor([1.0 + 2.0j], requires_grad=True)
    h = z * 1.0
    seen: list[Any] = []
    h.register_hook(lambda g: seen.append(g.tolist()))
    (np.abs(h) ** 2).sum().backward()
    assert seen == [[2.0 + 4.0j]]
    assert z.grad is not None
    np.testing.assert_allclose(z.grad.numpy(), [2.0 + 4.0j])


def test_refusals() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(GradientError, match="register_hook: no gradient flows to this tensor"):
        ns.tensor([1.0]).register_hook(print)
    with pytest.raises(GradientError, match="retain_grad: no gradient flows"):
        (x.detach() * 2.0).retain_grad()
    with pytest.raises(GradientError, match="a int is not callable"):
        x.register_hook(3)  # type: ignore[arg-type]
    h = x * 2.0
    with h.register_hook(lambda g: g.sum()):
        with pytest.raises(ShapeError, match=r"a hook returned a gradient of shape \(\)") as caught:
            h.sum().backward(retain_graph=True)
        assert "test_hooks.py" in caught.value.source
    h.register_hook(lambda g: "no")
    with pytest.raises(GradientError, match="must return a gradient or None, not str"):
        h.sum().backward()


def test_a_gradient_has_the_shape_and_dtype_of_its_tensor() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(ValueError, match="not a gradient of a tensor"):
        x.grad = ns.tensor(1.0)
    with pytest.raises(TypeError, match="not a gradient of a tensor"):
        x.grad = ns.tensor([1.0, 2.0], np.float32)
    x.grad = ns.tensor([1.0, 2.0])
    x.sum().backward()
    assert listed(x.grad) == [2.0, 3.0]
