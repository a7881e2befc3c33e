"""einsum and the products that come down to it, against NumPy and against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nodescope as ns
from nodescope.errors import NodescopeError, ShapeError, UnsupportedError
from tests.depth import examples

RNG = np.random.default_rng(0)


@st.composite
def calls(draw: Any) -> tuple[str, list[np.ndarray]]:
    """Subscripts with repeated, summed and broadcast letters, over sizes 0 to 3."""
    letters = "ijkl"
    sizes = {letter: draw(st.integers(0, 3)) for letter in letters}
    ellipsis = draw(st.booleans())
    batch = tuple(draw(st.lists(st.integers(1, 2), max_size=2))) if ellipsis else ()
    terms, arrays = [], []
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    for _ in range(draw(st.integers(1, 4))):
        term = "".join(draw(st.lists(st.sampled_from(letters), max_size=3)))
        # A letter that occurs twice in an operand has its full size there.
        shape = tuple(
            1 if draw(st.integers(0, 5)) == 0 and term.count(item) == 1 else sizes[item]
            for item in term
        )
        if ellipsis:
            kept = draw(st.integers(0, len(batch)))
            shape = batch[len(batch) - kept :] + shape
            term = "..." + term
        terms.append(term)
        arrays.append(rng.standard_normal(shape))
    subscripts = ",".join(terms)
    if draw(st.booleans()):
        known = sorted(set(subscripts) & set(letters))
        order = draw(st.permutations(known))
        output = "".join(order[: draw(st.integers(0, len(known)))])
        subscripts += "->" + ("..." if ellipsis else "") + output
    return subscripts, arrays


@settings(
    max_examples=examples(300), deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
@given(calls())
def test_any_einsum_equals_numpy_and_has_a_gradient(call: tuple[str, list[np.ndarray]]) -> None:
    subscripts, arrays = call
    expected = np.einsum(subscripts, *arrays)
    tensors = [ns.tensor(array, requires_grad=True) for array in arrays]
    result = np.einsum(subscripts, *tensors)
    assert result.shape == expected.shape
    assert np.allclose(result.numpy(), expected, rtol=1e-12, atol=1e-12)
    rng = np.random.default_rng(1)
    ct = rng.standard_normal(expected.shape)
    result.backward(ct)
    for i, (x, tensor) in enumerate(zip(arrays, tensors, strict=True)):
        way = rng.standard_normal(x.shape)
        # The product is linear in each operand, so the difference is exact.
        moved = np.einsum(subscripts, *arrays[:i], way, *arrays[i + 1 :])
        slope = float(np.sum(ct * moved))
        assert float(np.sum(tensor.grad.numpy() * way)) == pytest.approx(slope, abs=1e-9)


LARGE = [
    ("bij,bjk->bik", [(6, 12, 13), (6, 13, 14)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 16, 8), (2, 3, 16, 8)]),
    ("bhqk,bkhd->bqhd", [(2, 3, 16, 16), (2, 16, 3, 8)]), ("ij,ij->", [(60, 50), (60, 50)]),
    ("ij,j->i", [(70, 40), (40,)]), ("i,ij->j", [(70,), (70, 40)]), ("bi,bi->b", [(300, 20)] * 2),
    ("abc,cbd,de->ae", [(9, 8, 7), (7, 8, 6), (6, 30)]), ("ik,jk->ji", [(50, 60), (40, 60)]),
    ("xij,kjy->iykx", [(5, 9, 8), (7, 8, 6)]), ("i,j,k->kij", [(20,), (10,), (30,)]),
    ("ij,jk,kl,lm->im", [(10, 50), (50, 4), (4, 60), (60, 3)]),
]  # fmt: skip


@pytest.mark.parametrize(("subscripts", "shapes"), LARGE)
@pytest.mark.parametrize("dtype", ["float64", "complex128", "int64", "float16"])
def test_large_einsums_equal_numpy(subscripts: str, shapes: list[Any], dtype: str) -> None:
    arrays = [RNG.integers(-4, 5, shape).astype(dtype) for shape in shapes]
    result = np.einsum(subscripts, *map(ns.tensor, arrays))
    expected = np.einsum(subscripts, *arrays)
    assert result.dtype == expected.dtype
    near = 2e-2 if dtype == "float16" else 1e-12  # The product of each pair is rounded to float16.
    assert np.allclose(result.numpy(), expected, rtol=near, atol=near * np.abs(expected).max())


def same(function: Any, *arrays: Any, **kwargs: Any) -> None:
    expected = function(*arrays, **kwargs)
    result = function(*(ns.tensor(x) if isinstance(x, np.ndarray) else x for x in arrays), **kwargs)
    assert (result.shape, result.dtype) == (np.shape(expected), np.asarray(expected).dtype)
    assert np.allclose(result.numpy(), expected, rtol=1e-12, atol=1e-12)


def normal(*shape: int, imaginary: bool = False) -> np.ndarray:
    result = np.asarray(RNG.standard_normal(shape))
    return result + 1j * RNG.standard_normal(shape) if imaginary else result


@pytest.mark.parametrize("imaginary", [False, True])
def test_related_functions_equal_numpy(imaginary: bool) -> None:
    def x(*shape: int) -> np.ndarray:
        return normal(*shape, imaginary=imaginary)

    for axes in (2, 1, 0, ([1, 2], [0, 1]), ([-1], [-2]), (1, 0)):
        same(np.tensordot, x(3, 3, 3), x(3, 3, 3), axes=axes)
    for a, b in [((), (3,)), ((3,), (3,)), ((2, 3), (3,)), ((4, 2, 3), (3, 2)), ((2, 3), (4, 3, 2)),
                 ((4, 2, 3), (3,)), ((3,), (2, 3, 4)), ((0, 3), (3, 0))]:  # fmt: skip
        same(np.dot, x(*a), x(*b))
    for a, b in [((), (3,)), ((3,), (3,)), ((2, 3), (4, 3)), ((5, 2, 3), (3,))]:
        same(np.inner, x(*a), x(*b))
    same(np.vdot, x(2, 3), x(2, 3))
    same(np.outer, x(2, 3), x(4))
    for a, b in [((2, 3), (4, 5)), ((2,), (3, 4)), ((2, 3, 2), (2,)), ((), (2, 2)), ((0,), (2,))]:
        same(np.kron, x(*a), x(*b))
    same(np.matrix_transpose, x(4, 2, 3))
    same(np.linalg.tensordot, x(2, 3), x(3, 4), axes=1)
    same(np.linalg.vecdot, x(2, 3), x(2, 3))
    same(np.linalg.vecdot, x(2, 3), x(2, 3), axis=0)
    same(np.linalg.matmul, x(2, 3), x(3, 2))
    same(np.vecdot, x(4, 3), x(3))
    same(np.vecdot, x(4, 3), x(4, 3), axis=0)
    same(np.cov, x(3, 8))
    same(np.cov, x(3, 8), x(2, 8), ddof=0)
    same(np.cov, x(8, 3), rowvar=False, bias=True)
    same(np.cov, x(3, 4), fweights=np.array([1, 2, 3, 1]))
    same(np.cov, x(3, 4), aweights=np.array([1.0, 0.5, 2, 1]))
    same(np.cov, x(3, 4), fweights=np.array([1, 2, 3, 1]), aweights=np.array([1.0, 0.5, 2, 1]))
    same(np.cov, x(9))
    same(np.corrcoef, x(3, 8))
    same(np.corrcoef, x(3, 8), x(1, 8))


def test_forms_of_the_call() -> None:
    a, b = normal(2, 3), normal(3, 4)
    same(np.einsum, "ij,jk", a, b)
    same(np.einsum, " i j , j k -> k i ", a, b, optimize=True)
    same(np.einsum, a, [0, 1], b, [1, 2], [2, 0])
    same(np.einsum, a, [0, 1], b, [1, 2])
    same(np.einsum, a, [..., 0], [0, ...])
    same(np.einsum, "ij...,jk...->ik...", normal(2, 3, 5), normal(3, 4, 5), optimize="optimal")
    result = np.einsum("...ij->...ji", ns.tensor(normal(5, 2, 3)))
    assert result.shape == (5, 3, 2)
    assert np.einsum("ij,jk", ns.tensor(np.ones((2, 2), bool)), np.ones((2, 2))).dtype == float


A = ns.tensor(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: np.einsum("ij,jk->ik", A, A), ShapeError, "'j' .* has size 3 .* and 2"),
        (lambda: np.einsum("ijk->i", A), ShapeError, "does not name the axes"),
        (lambda: np.einsum("ij,jk", A), ShapeError, "for 2 operands, not 1"),
        (lambda: np.einsum("ij->ik", A), ShapeError, "output"),
        (lambda: np.einsum("ij->ii", A), ShapeError, "repeats a letter"),
        (lambda: np.einsum("i1->i", A), ShapeError, "not a letter"),
        (lambda: np.einsum("...j->j", A), ShapeError, "omits the axes of"),
        (lambda: np.einsum(A, [0, 99]), ShapeError, "axis 99"),
        (lambda: np.einsum("ii->i", A), ShapeError, "'i' .* has size"),
        (lambda: np.einsum("ij->", A, out=np.zeros(())), UnsupportedError, "out="),
        (lambda: np.tensordot(A, A, 1), ShapeError, r"sizes \(3,\) .* do not match \(2,\)"),
        (lambda: np.tensordot(A, A, 3), ShapeError, "no 3 axes"),
        (lambda: np.tensordot(A, A, ([5], [0])), ShapeError, "axis 5"),
        (lambda: np.inner(A, np.ones(2)), ShapeError, "sizes 3 and 2"),
        (lambda: np.dot(A, np.ones((4, 2, 3))), ShapeError, "sizes 3 and 2"),
        (lambda: np.vdot(A, np.ones(2)), ShapeError, "sizes 6 and 2"),
        (lambda: np.vecdot(A, np.ones(2)), ShapeError, "inner dimensions differ"),
        (lambda: np.matrix_transpose(ns.tensor([1.0])), ShapeError, "two dimensions"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_the_users_line(
    call: Any, error: type[NodescopeError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        call()
    assert "test_einsum.py:" in caught.value.source


def test_gradients_of_the_family() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((3, 4)), rng.standard_normal((3, 4))
    functions = [
        lambda x, y: np.kron(x, y), lambda x, y: np.cov(x, y), lambda x, y: np.corrcoef(x, y),
        lambda x, y: np.inner(x, y), lambda x, y: np.outer(x, y), lambda x, y: np.vdot(x, y),
        lambda x, y: np.tensordot(x, y, ([0, 1], [0, 1])), lambda x, y: np.dot(x, y.T),
    ]  # fmt: skip
    for function in functions:
        ct = rng.standard_normal(np.shape(function(a, b)))
        grads = ns.grad(lambda x, y, f=function, c=ct: np.sum(f(x, y) * c), (0, 1))(a, b)
        for grad, way in zip(grads, np.eye(2), strict=True):
            d, h = rng.standard_normal((3, 4)), 1e-6
            up, down = (np.sum(function(a + way[0] * s * d, b + way[1] * s * d) * ct)
                        for s in (h, -h))  # fmt: skip
            assert float(np.sum(grad.numpy() * d)) == pytest.approx((up - down) / (2 * h), rel=1e-6)
