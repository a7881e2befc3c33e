"""vjp, jvp, linearize, jacobian, hessian, hvp."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import nodescope as ns
from nodescope import ops
from nodescope.engine.run import apply
from nodescope.errors import DtypeError, GradientError, ShapeError
from nodescope.ops import Sample
from tests.core.engine.events_of import observed
from tests.parts import in_parts

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((3, 2)), RNG.standard_normal((2, 4))


class Pair(NamedTuple):
    a: Any
    b: Any


def f(p: Pair, y: Any) -> Any:
    return {"out": np.tanh(p.a @ y), "sum": (p.b * p.b).sum()}


def slope(function: Any, x: Any, direction: Any) -> Any:
    step = 1e-6
    return (function(x + step * direction) - function(x - step * direction)) / (2 * step)


def test_vjp_gives_value_and_a_tree_like_each_primal() -> None:
    p = Pair(X, np.array([1.0, 2.0]))
    value, pull = ns.vjp(f, p, Y)
    np.testing.assert_array_equal(value["out"].numpy(), np.tanh(X @ Y))
    ct = RNG.standard_normal((3, 4))
    by_p, by_y = pull({"out": ct, "sum": 10.0})
    inner = ct * (1 - np.tanh(X @ Y) ** 2)
    np.testing.assert_allclose(by_p.a.numpy(), inner @ Y.T)
    np.testing.assert_allclose(by_p.b.numpy(), [20.0, 40.0])
    np.testing.assert_allclose(by_y.numpy(), X.T @ inner)
    again, _ = pull({"out": 2 * ct, "sum": 0.0})  # It can be called any number of times.
    np.testing.assert_allclose(again.a.numpy(), 2 * inner @ Y.T)


def test_vjp_with_aux_and_outputs_without_gradient() -> None:
    value, pull, aux = ns.vjp(lambda x: ((x * x, np.argmax(x)), "aux"), X[0], has_aux=True)
    assert (value[1].dtype, aux) == (np.int64, "aux")
    (result,) = pull((np.ones(2), 0))
    np.testing.assert_allclose(result.numpy(), 2 * X[0])


def test_jvp_is_the_derivative_in_a_direction() -> None:
    p, dp = Pair(X, np.array([1.0, 2.0])), Pair(np.ones((3, 2)), np.array([1.0, -1.0]))
    value, tangent = ns.jvp(f, (p, Y), (dp, np.zeros_like(Y)))
    np.testing.assert_array_equal(value["out"].numpy(), np.tanh(X @ Y))
    np.testing.assert_allclose(
        tangent["out"].numpy(), slope(lambda x: np.tanh(x @ Y), X, dp.a), rtol=1e-7
    )
    assert tangent["sum"].item() == pytest.approx(-2.0)


def test_jvp_of_constant_and_unchanged_outputs() -> None:
    _, (constant, whole, same) = ns.jvp(
        lambda x: (ns.tensor([1.0]), np.argmax(x), x), (X[0],), (np.array([3.0, 4.0]),)
    )
    assert (constant.tolist(), whole.tolist(), same.tolist()) == ([0.0], 0, [3.0, 4.0])


def test_linearize_can_be_used_again_and_again() -> None:
    value, push = ns.linearize(lambda x: np.exp(x), X)
    for _ in range(2):
        np.testing.assert_allclose(push(np.ones_like(X)).numpy(), value.numpy())


def test_forward_through_infinity_makes_no_nan() -> None:
    with np.errstate(divide="ignore"):
        _, tangent = ns.jvp(
            lambda x: np.where(x > 0, 1.0 / x, x), (np.array([0.0, 2.0]),), (np.ones(2),)
        )
    assert tangent[1].item() == -0.25


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_jacobian_of_trees(mode: Any) -> None:
    def g(tree: Any, y: Any) -> Any:
        return [tree["x"] @ y, (tree["x"] * 3.0).sum()]

    result = ns.jacobian(g, (0, 1), mode=mode)({"x": X}, Y)
    shapes = [[by[0]["x"].shape, by[1].shape] for by in result]
    assert shapes == [[(3, 4, 3, 2), (3, 4, 2, 4)], [(3, 2), (2, 4)]]
    wanted = np.einsum("ik,jl->ijkl", np.eye(3), Y.T)
    np.testing.assert_allclose(result[0][0]["x"].numpy(), wanted)
    np.testing.assert_allclose(result[1][0]["x"].numpy(), np.full((3, 2), 3.0))
    np.testing.assert_array_equal(result[1][1].numpy(), np.zeros((2, 4)))
    alone = (ns.jacrev if mode == "reverse" else ns.jacfwd)(lambda x: x @ Y)(X)
    np.testing.assert_allclose(alone.numpy(), wanted)


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_jacobian_with_aux_and_without_elements(mode: Any) -> None:
    result, aux = ns.jacobian(lambda x: (x * 2.0, "aux"), mode=mode, has_aux=True)(np.ones(2))
    assert (result.tolist(), aux) == ([[2.0, 0.0], [0.0, 2.0]], "aux")
    assert ns.jacobian(lambda x: x[:0], mode=mode)(np.ones(2)).shape == (0, 2)
    assert ns.jacobian(lambda x: np.ones(3) * x.sum(), mode=mode)(np.ones(0)).shape == (3, 0)


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_complex_jacobians(mode: Any) -> None:
    z, x = np.array([1 + 2j, 0.5 - 1j]), np.array([1.0, 2.0])
    holomorphic = ns.jacobian(lambda z: z**3, mode=mode)(z)
    np.testing.assert_allclose(holomorphic.numpy(), np.diag(3 * z**2))
    real = ns.jacobian(lambda z: np.abs(z) ** 2, mode=mode)(z)
    np.testing.assert_allclose(real.numpy(), np.diag(2 * z))
    turning = ns.jacobian(lambda x: np.exp(1j * x), mode=mode)(x)
    np.testing.assert_allclose(turning.numpy(), np.diag(1j * np.exp(1j * x)))


def test_grad_of_holomorphic_functions() -> None:
    z = 1 + 2j
    value, result = ns.value_and_grad(lambda z: z**3, holomorphic=True)(z)
    assert (value.item(), result.item()) == (pytest.approx(z**3), pytest.approx(3 * z**2))
    with pytest.raises(GradientError, match="needs an initial gradient"):
        ns.grad(lambda z: z**3)(z)
    with pytest.raises(GradientError, match="holomorphic=True requires complex results"):
        ns.grad(lambda z: np.abs(z), holomorphic=True)(z)
    assert ns.grad(lambda z: np.abs(z) ** 2)(z).item() == pytest.approx(2 * z)


def test_vjp_and_jvp_of_complex_functions() -> None:
    z, v = np.array([1 + 2j, 0.5 - 1j]), np.array([1j, 2.0 + 1j])
    _, pull = ns.vjp(lambda z: z * z, z)
    np.testing.assert_allclose(pull(v)[0].numpy(), np.conj(2 * z) * v)  # J^H v.
    _, tangent = ns.jvp(lambda z: z * z, (z,), (v,))
    np.testing.assert_allclose(tangent.numpy(), 2 * z * v)
    _, tangent = ns.jvp(np.abs, (z,), (v,))
    np.testing.assert_allclose(tangent.numpy(), (np.conj(z) * v).real / np.abs(z))


def test_hessian_and_its_product_with_a_vector() -> None:
    def g(x: Any) -> Any:
        return (np.sin(x[0]) * x[1] * x[1] + x[2] ** 3).sum()

    x = np.array([0.5, 2.0, 1.5])
    result = ns.hessian(g)(x).numpy()
    wanted = [
        [-np.sin(0.5) * 4, np.cos(0.5) * 4, 0],
        [np.cos(0.5) * 4, 2 * np.sin(0.5), 0],
        [0, 0, 9],
    ]
    np.testing.assert_allclose(result, wanted, atol=1e-14)
    v = np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(ns.hvp(g, (x,), (v,)).numpy(), result @ v)
    two = ns.hvp(lambda a, b: (a * a * b).sum(), (x, x), (v, v))
    np.testing.assert_allclose(two[0].numpy(), 2 * x * v + 2 * x * v)
    np.testing.assert_allclose(two[1].numpy(), 2 * x * v)
    trees = ns.hessian(lambda t: (t["a"] * t["b"]).sum())({"a": x, "b": x})
    np.testing.assert_array_equal(trees["a"]["b"].numpy(), np.eye(3))


def test_transformations_nest() -> None:
    cube = lambda x: x * x * x  # noqa: E731 (a formula)
    by_push = lambda x: ns.jvp(cube, (x,), (1.0,))[1]  # noqa: E731
    assert ns.grad(by_push)(2.0).item() == 12.0
    assert ns.jvp(by_push, (2.0,), (1.0,))[1].item() == 12.0
    assert ns.jvp(ns.grad(cube), (2.0,), (1.0,))[1].item() == 12.0
    assert ns.grad(lambda x: ns.vjp(cube, x)[1](1.0)[0])(2.0).item() == 12.0
    assert ns.jacobian(ns.jacobian(ns.jacobian(cube)))(2.0).item() == 6.0
    w = ns.parameter(3.0, name="w")
    ns.jvp(lambda x: x * x * w, (2.0,), (1.0,))[1].backward()  # The tangent is 2 x w.
    assert w.grad is not None
    assert w.grad.item() == 4.0


def test_observed_transformations_give_the_same_and_are_nodes() -> None:
    plain = ns.jvp(f, (Pair(X, X), Y), (Pair(X, X), Y))[1]["out"].numpy()
    with observed() as events:
        seen = ns.jvp(f, (Pair(X, X), Y), (Pair(X, X), Y))[1]["out"].numpy()
    np.testing.assert_array_equal(plain, seen)
    assert any(node.phase == "backward" for node in events.nodes.values())


def test_refusals() -> None:
    square = lambda x: x * x  # noqa: E731
    with pytest.raises(ShapeError, match=r"a tangent of shape \(3,\) for a primal of \(2,\)"):
        ns.jvp(square, (np.ones(2),), (np.ones(3),))
    with pytest.raises(DtypeError, match="complex128 tangent for a float64 primal"):
        ns.jvp(square, (np.ones(2),), (np.ones(2) * 1j,))
    with pytest.raises(GradientError, match="primals must be a tuple"):
        ns.jvp(square, np.ones(2), (np.ones(2),))  # type: ignore[arg-type]
    with pytest.raises(GradientError, match="tangents do not have the structure of the primals"):
        ns.jvp(square, (np.ones(2),), ([np.ones(2)],))
    with pytest.raises(GradientError, match="cotangent does not have the structure of the value"):
        ns.vjp(square, np.ones(2))[1]((np.ones(2),))
    with pytest.raises(ShapeError, match="does not have the tensor's shape"):
        ns.vjp(square, np.ones(2))[1](np.ones(3))
    with pytest.raises(GradientError, match="must return tensors, not str"):
        ns.vjp(lambda x: "no", np.ones(2))
    with pytest.raises(
        GradientError, match="jvp: cannot differentiate with respect to an argument of int64"
    ):
        ns.jvp(square, (3,), (1,))
    with pytest.raises(GradientError, match="mode 'sideways'"):
        ns.jacobian(square, mode="sideways")  # type: ignore[arg-type]
    with pytest.raises(GradientError, match="int64 has no gradient"):
        ns.jacobian(lambda x: np.argmax(x))(np.ones(2))


DIFFERENTIABLE = [op for op in ops.all_ops() if op.vjp is not None and not op.inline]


@in_parts(4)
@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_every_op_pushes_what_its_gradient_pulls(op: Any) -> None:
    """<ct, push(t)> == <pull(ct), t>, so no rule loses its cotangent on the way."""
    rng = np.random.default_rng(1)
    tried = 0
    for sample in op.samples(rng) or _drawn(op, rng):
        places = [
            i for i, x in enumerate(sample.inputs)
            if isinstance(x, np.ndarray) and x.dtype == np.float64 and op.rule(i) is not None
        ]  # fmt: skip
        if not places or any(
            isinstance(x, np.ndarray) and x.dtype.kind in "cV" for x in sample.inputs
        ):
            continue

        def call(*moving: Any, sample: Any = sample, places: Any = places) -> Any:
            inputs = [ns.tensor(x) if isinstance(x, np.ndarray) else x for x in sample.inputs]
            for place, x in zip(places, moving, strict=True):
                inputs[place] = x
            return apply(op, tuple(inputs), sample.attrs)

        primals = [sample.inputs[i] for i in places]
        tangents = [rng.standard_normal(x.shape) for x in primals]
        with np.errstate(all="ignore"):
            value, pull = ns.vjp(call, *primals)
            single = not isinstance(value, tuple)
            outs = [value] if single else list(value)
            cts = [
                rng.standard_normal(x.shape).astype(x.dtype if x.dtype.kind in "fc" else float)
                for x in outs
            ]
            pulled = pull(cts[0] if single else tuple(cts))
            _, pushed = ns.jvp(call, primals, tangents)
        pushed = [pushed] if single else pushed
        left = sum(
            float(np.sum(np.real(np.conj(ct) * t.numpy())))
            for ct, t, out in zip(cts, pushed, outs, strict=True)
            if out.dtype.kind in "fc"
        )
        right = sum(float(np.sum(g.numpy() * t)) for g, t in zip(pulled, tangents, strict=True))
        if np.isfinite(left) and np.isfinite(right):
            tried += 1
            assert left == pytest.approx(right, rel=1e-8, abs=1e-9), (op.name, sample.attrs)
    assert tried or op.name in WITHOUT


def _drawn(op: Any, rng: np.random.Generator) -> list[Sample]:
    """Calls of elementwise ops, which have no samples of their own."""
    low, high = op.domain
    return [
        Sample(
            tuple(rng.integers(1, 3, 3) if rule is None else rng.uniform(low, high, 3)
                  for rule in op.vjp)
        )
    ]  # fmt: skip


WITHOUT = {"random_gamma"}
"""Ops whose samples have no float64 inputs; their gradients are tested with their values."""
