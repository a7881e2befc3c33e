"""Random draws, linear algebra, products and transforms as static graphs: what eager gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine import dispatch_mode
from nodescope.engine.building import Builder
from nodescope.engine.trees import flatten
from tests.core.engine.static.recorded import recorded

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 3)) + 3 * np.eye(3)
B = RNG.standard_normal((3, 2))


def draws(key: Any) -> list[Any]:
    first, two, three = ns.random.split(ns.random.fold_in(key, 3), 3)
    return [
        ns.random.normal(first, (4,), mean=2.0), ns.random.integers(two, 0, 10, (3,)),
        ns.random.bernoulli(three, 0.3, (5,)), ns.random.permutation(first, np.arange(6.0)),
        ns.random.choice(two, 9, 4, replace=False), ns.random.categorical(three, np.zeros((2, 3))),
        ns.random.truncated_normal(first, -1, 1, (3,)), ns.random.gamma(two, 2.0, (2,)),
        ns.random.uniform(three, (2,), low=-1.0, high=1.0),
    ]  # fmt: skip


def algebra(a: Any, b: Any) -> list[Any]:
    s = a @ a.T
    return [
        np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.det(a), *np.linalg.slogdet(a),
        np.linalg.cholesky(s), *np.linalg.qr(b), *np.linalg.svd(b, full_matrices=False),
        *np.linalg.eigh(s), np.linalg.pinv(b), *np.linalg.lstsq(a, b), np.linalg.matrix_rank(a),
        *(np.linalg.norm(a, o) for o in (None, "nuc", 1, 2, np.inf)), np.linalg.cond(a),
        np.linalg.matrix_power(a, 3), np.linalg.multi_dot([a, b, b.T]), np.einsum("ij,jk->", a, b),
        np.einsum("...i,ji", a, a), np.tensordot(a, b, 1), np.kron(a, b), np.cov(a),
        np.corrcoef(a), np.abs(np.fft.fft2(a)), np.fft.irfft(np.fft.rfft(a)), np.fft.fftshift(a),
        ns.linalg.solve_triangular(a, b, lower=True), np.vecdot(a, a), np.abs(np.linalg.eigvals(a)),
    ]  # fmt: skip


def gradients(a: Any, b: Any) -> list[Any]:
    def loss(a: Any, b: Any) -> Any:
        floats = [array for array in algebra(a, b) if array.dtype.kind == "f"]
        return sum(np.sum(number * number) for number in floats)

    return list(ns.grad(loss, (0, 1))(a, b))


@pytest.mark.parametrize(
    ("function", "arrays"),
    [(draws, [ns.random.key(5).numpy()]), (algebra, [A, B]), (gradients, [A, B])],
)
def test_graphs_give_what_eager_gives(function: Any, arrays: list[Any]) -> None:
    eager = flatten(function(*map(ns.tensor, arrays)))[0]
    static, graph = recorded(function, *arrays)
    assert len(graph.nodes) > len(eager) / 2
    for first, other in zip(eager, flatten(static)[0], strict=True):
        assert first.dtype == other.dtype
        assert first.numpy().tobytes() == np.asarray(other).tobytes()


def test_a_generator_is_state_of_the_graph() -> None:
    """Its key is read from outside and written back, like a parameter that training changes."""
    rng = ns.random.Generator(4)
    before = rng.state.numpy().copy()
    builder = Builder()
    with dispatch_mode.building(builder):
        rng.normal(size=3)
        rng.normal(size=3)
    assert [tensor is rng.state for tensor, _ in builder.captures] == [True]
    assert np.array_equal(rng.state.numpy(), before)
    assert [tensor is rng.state for tensor, _ in builder.writes] == [True]
