"""custom_vjp in JAX's form, custom_gradient in TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine import dispatch_mode
from nodescope.engine.building import Builder
from nodescope.errors import DtypeError, GradientError, ShapeError, UsageError
from nodescope.ir.graph import TensorSpec
from tests.core.engine.events_of import observed


@ns.custom_vjp
def scaled(x: Any, y: Any) -> Any:
    """A product whose gradient by x is ten times too large."""
    return x * y


scaled.defvjp(
    lambda x, y: (x * y, (x, y)),
    lambda residuals, ct: (10.0 * ct * residuals[1], ct * residuals[0]),
)


@ns.custom_vjp
def clipped(x: Any, limit: Any) -> Any:
    return x * 1.0


@clipped.defvjp
def clip_the_gradient(ct: Any, x: Any, limit: Any) -> Any:
    return np.clip(ct, -limit, limit), None


def test_the_gradient_is_the_given_one() -> None:
    by_x, by_y = ns.grad(scaled, (0, 1))(2.0, 3.0)
    assert (by_x.item(), by_y.item()) == (30.0, 2.0)
    x = ns.tensor([1.0, 2.0], requires_grad=True)
    scaled(x, np.array([3.0, 4.0])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [30.0, 40.0]
    assert scaled(2.0, 3.0) == 6.0  # Without a gradient it is the plain function.
    assert scaled.__name__ == "scaled"


def test_the_simple_form() -> None:
    result = ns.grad(lambda x: (clipped(x, 0.5) * np.array([3.0, 0.1])).sum())(np.ones(2))
    assert result.tolist() == [0.5, 0.1]
    result = ns.grad(lambda x: (clipped(limit=0.5, x=x) * 3.0).sum())(np.ones(2))
    assert result.tolist() == [0.5, 0.5]


def test_higher_derivatives_differentiate_both_functions() -> None:
    # The given d/dx is 10 y: its derivative by y is 10, and by x it is 0.
    assert ns.grad(ns.grad(scaled), 1)(2.0, 3.0).item() == 10.0
    assert ns.grad(ns.grad(scaled))(2.0, 3.0).item() == 0.0
    _, tangent = ns.jvp(scaled, (2.0, 3.0), (1.0, 0.0))
    assert tangent.item() == 30.0

    @ns.custom_gradient
    def cube(x: Any) -> Any:
        square = x * x
        # The value kept for the gradient depends on x.
        return square * x, lambda up: up * square * 3.0

    assert ns.grad(cube)(2.0).item() == 12.0
    assert ns.grad(ns.grad(cube))(2.0).item() == 12.0


def test_trees_and_arguments_that_are_no_numbers() -> None:
    def forward(f: Any, tree: Any, k: int) -> Any:
        return {"y": f(tree["a"]) + k, "n": 3}, tree["a"]

    def backward(f: Any, k: int, a: Any, ct: Any) -> Any:
        assert (f, k) == (np.sin, 2)
        return ({"a": ct["y"] * 7.0, "b": ct["y"]},)

    custom = ns.custom_vjp(lambda f, tree, k: {"y": f(tree["a"]), "n": 3}, nondiff_argnums=(0, 2))
    custom.defvjp(forward, backward)
    result = ns.grad(lambda t: custom(np.sin, t, 2)["y"].sum())({"a": np.ones(2), "b": np.ones(2)})
    assert result["a"].tolist() == [7.0, 7.0]
    assert result["b"].tolist() == [1.0, 1.0]


def test_several_outputs_wait_for_each_other() -> None:
    calls: list[Any] = []

    @ns.custom_gradient
    def both(x: Any) -> Any:
        def gradient(first: Any, two: Any) -> Any:
            calls.append((first.tolist(), two.tolist()))
            return first + two

        return (x * 2.0, x * 3.0), gradient

    def use(x: Any) -> Any:
        first, two = both(x)
        return (first * first).sum() + 5.0 * two.sum()

    assert ns.grad(use)(np.array([1.0])).tolist() == [9.0]
    assert calls == [([4.0], [5.0])]
    assert ns.grad(lambda x: both(x)[1].sum())(np.array([1.0])).tolist() == [1.0]


def test_a_step_function_can_pass_gradients_straight_through() -> None:
    @ns.custom_gradient
    def rounded(x: Any) -> Any:
        return np.rint(x), lambda up: up

    assert ns.grad(lambda x: (rounded(x) * 3.0).sum())(np.array([0.4, 1.6])).tolist() == [3.0, 3.0]


def test_complex_cotangents_are_the_users() -> None:
    @ns.custom_vjp
    def square(z: Any) -> Any:
        return z * z

    square.defvjp(lambda z: (z * z, z), lambda z, ct: (ct * np.conjugate(2.0 * z),))
    z = np.array([1 + 2j, 3 - 1j])
    plain = ns.grad(lambda z: (np.abs(z * z) ** 2).sum())(z)
    np.testing.assert_allclose(
        ns.grad(lambda z: (np.abs(square(z)) ** 2).sum())(z).numpy(), plain.numpy()
    )


def test_observed_both_functions_are_nodes_in_their_scopes() -> None:
    with observed() as events:
        x = ns.parameter(np.ones(2), name="x")
        with ns.name_scope("layer"):
            y = scaled(x, np.ones(2))
        y.sum().backward()
    assert events.nodes["layer/multiply"].phase == "forward"
    inside = [node for node in events.nodes.values() if node.scope == "backward/layer"]
    inner = [node for node in inside if node.op == "multiply"]
    assert len(inner) == 3
    assert {node.phase for node in inner} == {"backward"}
    assert {node.forward for node in inner} == {events.nodes["layer/multiply"].id}
    assert x.grad is not None
    assert x.grad.tolist() == [10.0, 10.0]


def test_in_a_graph_that_is_built() -> None:
    builder = Builder()
    with dispatch_mode.building(builder):
        x = builder.placeholder(TensorSpec((2,), "float64"), grad=True)
        with ns.name_scope("layer"):
            y = scaled(x, ns.constant(np.ones(2)))
        y.sum().backward()
    backward = [node for node in builder.nodes if node.scope == "backward/layer"]
    assert [node.op for node in backward].count("multiply") >= 2
    assert {node.phase for node in backward} == {"backward"}


def test_what_it_uses_must_be_an_argument() -> None:
    w = ns.parameter(3.0, name="w")
    custom = ns.custom_vjp(lambda x: x * w)
    custom.defvjp(lambda x: (x * w, x), lambda x, ct: (ct,))
    with pytest.raises(GradientError, match="uses w, which wants a gradient and is not one of its"):
        ns.grad(custom)(2.0)
    still = ns.custom_vjp(lambda x: x * w)
    still.defvjp(lambda x: (x * ns.stop_gradient(w), w), lambda w, ct: (ct * w,))
    assert ns.grad(still)(2.0).item() == 3.0


def wrong(backward: Any, forward: Any = lambda x: (x * 1.0, None)) -> Any:
    custom = ns.custom_vjp(lambda x: x)
    custom.defvjp(forward, backward)
    return lambda: ns.grad(lambda x: custom(x).sum())(np.ones(2))


REFUSED = [
    (lambda _, ct: ct, GradientError, "must return a tuple of 1, one per argument, not Tensor"),
    (lambda _, ct: (ct, ct), GradientError, "must return a tuple of 1, one per argument, not 2"),
    (lambda _, ct: ((ct, ct),), GradientError, "argument 0 is not a tree"),
    (lambda _, ct: ("no",), GradientError, "returned a str as a cotangent"),
    (lambda _, ct: (ct.sum(),), ShapeError, r"shape \(\) for an argument of \(2,\)"),
    (lambda _, ct: (ct * 1j,), DtypeError, "complex128 cotangent for a float64 argument"),
]


@pytest.mark.parametrize(("backward", "kind", "says"), REFUSED)
def test_what_the_backward_function_returns_has_to_fit(backward: Any, kind: Any, says: str) -> None:
    with pytest.raises(kind, match=says) as caught:
        wrong(backward)()
    assert "test_custom_vjp.py:" in caught.value.source


def test_other_refusals() -> None:
    with pytest.raises(GradientError, match=r"must return \(output, residuals\)"):
        wrong(lambda _, ct: (ct,), lambda x: x)()
    with pytest.raises(UsageError, match="has no gradient yet"):
        ns.custom_vjp(lambda x: x)(1.0)


def test_float32_stays_float32() -> None:
    x = ns.parameter(np.ones(2, np.float32), name="x")
    custom = ns.custom_vjp(lambda x: x)
    custom.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (ct.astype(np.float64),))
    custom(x).sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == np.float32
