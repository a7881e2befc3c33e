"""Linear algebra and Fourier transforms: NumPy's values, gradients, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import (
    DomainError,
    DtypeError,
    GradientError,
    NodescopeError,
    ShapeError,
    UnsupportedError,
)

RNG = np.random.default_rng(0)


def normal(*shape: int, imaginary: bool = False) -> np.ndarray:
    result = np.asarray(RNG.standard_normal(shape))
    return result + 1j * RNG.standard_normal(shape) if imaginary else result


def parts(value: Any) -> list[np.ndarray]:
    several = value if isinstance(value, tuple) else (value,)
    return [
        tensor.numpy() if isinstance(tensor, ns.Tensor) else np.asarray(tensor)
        for tensor in several
    ]


def same(function: Any, *args: Any, **kwargs: Any) -> Any:
    """NumPy's own answer to NumPy's own call."""
    expected = parts(function(*args, **kwargs))
    result = function(*(ns.tensor(x) if isinstance(x, np.ndarray) else x for x in args), **kwargs)
    for part, other in zip(parts(result), expected, strict=True):
        assert (part.shape, part.dtype) == (other.shape, other.dtype), function.__name__
        assert np.allclose(part, other, rtol=1e-9, atol=1e-12), function.__name__
    return result


@pytest.mark.parametrize("imaginary", [False, True])
def test_linalg_equals_numpy(imaginary: bool) -> None:
    def x(*shape: int) -> np.ndarray:
        return normal(*shape, imaginary=imaginary)

    la = np.linalg
    a, b = x(2, 3, 3) + 3 * np.eye(3), x(2, 3, 4)
    hermitian = a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(3)
    same(la.solve, a, b)
    same(la.solve, a[0], b[0, :, 0])
    for function in (la.inv, la.det, la.slogdet, la.svdvals, la.cond, la.pinv):
        same(function, a)
    same(la.pinv, b, rtol=None)
    same(la.pinv, b, 1e-3)
    same(la.cholesky, hermitian)
    same(la.cholesky, hermitian, upper=True)
    for mode in ("reduced", "complete", "r"):
        same(la.qr, b, mode)
    same(la.svd, b)
    same(la.svd, b, full_matrices=False)
    same(la.svd, b, compute_uv=False)
    for uplo in ("L", "U"):
        same(la.eigh, hermitian, uplo)
        same(la.eigvalsh, hermitian, uplo)
    for n in (-2, -1, 0, 1, 2, 3, 5):
        same(la.matrix_power, a, n)
    same(la.matrix_rank, b)
    same(la.matrix_rank, np.zeros((3, 3)))
    same(la.matrix_rank, hermitian, hermitian=True)
    same(la.matrix_rank, b, 1.0)
    same(la.matrix_rank, x(4))
    same(la.multi_dot, [x(4), x(4, 2), x(2, 5), x(5, 3)])
    same(la.multi_dot, [x(4, 2), x(2, 9), x(9)])
    same(la.tensorsolve, x(6, 2, 3), x(6))
    same(la.tensorsolve, x(2, 6, 3), x(6), axes=(0, 2))
    same(la.tensorinv, x(4, 6, 8, 3))
    same(la.tensorinv, x(6, 2, 3), 1)
    for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc"):
        same(la.cond, a, p)
    for shapes in (((4, 2), (4,)), ((4, 2), (4, 3)), ((3, 3), (3,)), ((2, 3), (2, 2))):
        same(la.lstsq, *(x(*shape) for shape in shapes))
    values, vectors = map(np.asarray, parts(la.eig(ns.tensor(a))))
    assert values.dtype == vectors.dtype == complex
    assert np.allclose(a @ vectors, vectors * values[:, None, :])
    assert np.allclose(np.sort(parts(la.eigvals(ns.tensor(a)))[0]), np.sort(la.eigvals(a)))


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int64", "bool"])
def test_dtypes_are_those_of_numpy(dtype: str) -> None:
    a = (np.eye(3) * 3 + np.triu(np.ones((3, 3)))).astype(dtype)
    for function in (np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.svdvals,
                     np.linalg.pinv, np.linalg.qr, np.linalg.eigvalsh, np.linalg.norm):  # fmt: skip
        if dtype != "bool" or function is np.linalg.norm:
            expected = parts(function(a))
            assert [x.dtype for x in parts(function(ns.tensor(a)))] == [x.dtype for x in expected]


def test_norms_of_half_precision_equal_numpy() -> None:
    same(np.linalg.norm, normal(3, 3).astype("float16"))


@pytest.mark.parametrize("imaginary", [False, True])
def test_norms_equal_numpy(imaginary: bool) -> None:
    x = normal(3, 4, 5, imaginary=imaginary)
    same(np.linalg.norm, x)
    same(np.linalg.norm, x[0, 0], 3)
    for ord in (None, 0, 1, -1, 2, -2, 3, 0.5, np.inf, -np.inf):
        for keepdims in (False, True):
            same(np.linalg.norm, x, ord, 1, keepdims)
            same(np.linalg.norm, x[0], ord, (1, 0) if ord not in (0, 3, 0.5) else 1, keepdims)
        if ord is not None:
            same(np.linalg.vector_norm, x, ord=ord, axis=(0, 2))
            same(np.linalg.vector_norm, x, ord=ord)
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        for keepdims in (False, True):
            same(np.linalg.norm, x, order, (0, 2), keepdims)
            same(np.linalg.norm, x, order, (2, 0), keepdims)
            same(np.linalg.matrix_norm, x, ord=order, keepdims=keepdims)
    same(np.linalg.norm, np.arange(4), 1)
    same(np.linalg.norm, np.zeros((0, 3)))


def slope(function: Any, x: np.ndarray, way: np.ndarray, step: float = 1e-6) -> float:
    up, down = (float(parts(function(ns.tensor(x + s * way)))[0]) for s in (step, -step))
    return (up - down) / (2 * step)


def gradient_is_right(function: Any, x: np.ndarray, *, hermitian: bool = False) -> None:
    """Against central differences; ``hermitian`` moves along Hermitian matrices only."""
    leaf = ns.tensor(x, requires_grad=True)
    function(leaf).backward()
    grad = leaf.grad.numpy()
    for part in (1.0, 1j)[: 2 if x.dtype.kind == "c" else 1]:
        way = np.asarray(RNG.standard_normal(x.shape)) * part
        if hermitian:
            way = way + np.conj(np.swapaxes(way, -1, -2))
        result = float(np.sum(np.conj(grad) * way).real)
        assert result == pytest.approx(slope(function, x, way), rel=1e-5, abs=1e-7)


WEIGHT = normal(4, 4)


@pytest.mark.parametrize("imaginary", [False, True])
def test_gradients_that_do_not_depend_on_signs_and_phases(imaginary: bool) -> None:
    a = normal(4, 4, imaginary=imaginary)
    tall, wide = a[:, :3], a[:3]
    hermitian = a @ np.conj(a.T) + np.eye(4)

    def projector(u: Any) -> Any:
        return np.sum(np.real(u @ np.conj(u.T)) * WEIGHT[: u.shape[0], : u.shape[0]])

    def rebuilt(u: Any, s: Any, vh: Any) -> Any:
        return np.sum(np.real((u * s**3) @ vh) * WEIGHT[: u.shape[0], : vh.shape[1]])

    for x in (a, tall, wide):
        gradient_is_right(lambda t: rebuilt(*np.linalg.svd(t, full_matrices=False)), x)
        gradient_is_right(lambda t: projector(np.linalg.svd(t, full_matrices=False).U[:, :2]), x)
        gradient_is_right(
            lambda t: projector(np.conj(np.linalg.svd(t, full_matrices=False).Vh[:2].T)), x
        )
        gradient_is_right(
            lambda t: np.sum(np.linalg.svd(t).S ** 2 * np.arange(1.0, 1 + min(t.shape))), x
        )
        gradient_is_right(
            lambda t: np.sum(np.real(np.linalg.qr(t).R) * WEIGHT[: min(t.shape), : t.shape[1]]), x
        )
    gradient_is_right(lambda t: projector(np.linalg.eigh(t).eigenvectors[:, :2]), hermitian,
                      hermitian=True)  # fmt: skip
    gradient_is_right(lambda t: projector(np.linalg.eigh(t, "U")[1][:, 1:3]), hermitian,
                      hermitian=True)  # fmt: skip
    gradient_is_right(lambda t: np.sum(np.linalg.eigvalsh(t) ** 2 * np.arange(4.0)), hermitian,
                      hermitian=True)  # fmt: skip

    def spread(t: Any) -> Any:
        w, v = np.linalg.eig(t)
        return np.sum(np.abs(w) ** 2) + np.sum(np.abs(v) ** 2 * np.abs(WEIGHT))

    gradient_is_right(spread, np.diag([1.0, 2, 4, 8]) + 0.2 * a)


def test_gradients_of_functions_of_several_ops() -> None:
    a = normal(3, 3) + 3 * np.eye(3)
    b = normal(4, 2)
    for function in (
        lambda t: np.sum(np.linalg.matrix_power(t, 3) * WEIGHT[:3, :3]),
        lambda t: np.sum(np.linalg.matrix_power(t, -2) * WEIGHT[:3, :3]),
        lambda t: np.linalg.multi_dot([np.ones(3), t, t.T, t, np.arange(3.0)]),
        lambda t: np.linalg.cond(t), lambda t: np.linalg.cond(t, 1),
        lambda t: np.sum(ns.linalg.solve_triangular(t, t.T, lower=True) * WEIGHT[:3, :3]),
        *(lambda t, o=o: np.linalg.norm(t, o, (0, 1)) 
          for o in ("fro", "nuc", 1, -1, 2, -2, np.inf)),
        *(lambda t, o=o: np.sum(np.linalg.norm(t, o, 1)) for o in (1, 2, 3, np.inf, -np.inf, -1)),
    ):  # fmt: skip
        gradient_is_right(function, a)
    gradient_is_right(lambda t: np.sum(np.linalg.lstsq(t, WEIGHT[:, 0])[0]), b)
    gradient_is_right(lambda t: np.sum(np.linalg.lstsq(t, WEIGHT[:, :2])[1]), b)
    gradient_is_right(lambda t: np.sum(np.linalg.lstsq(b, t)[1] * np.arange(3.0)), normal(4, 3))


def test_without_a_derivative_nothing_is_invented() -> None:
    x = ns.tensor(np.zeros(3), requires_grad=True)
    np.linalg.norm(x).backward()
    assert np.array_equal(x.grad.numpy(), np.zeros(3))
    with np.errstate(all="ignore"):
        same_values = ns.tensor(np.eye(3), requires_grad=True)
        np.sum(np.linalg.eigh(same_values)[1]).backward()
        assert not np.isfinite(same_values.grad.numpy()).all()
        again = ns.tensor(np.eye(3), requires_grad=True)
        np.sum(np.linalg.eigvalsh(again)).backward()
        assert np.allclose(again.grad.numpy(), np.eye(3))
    tall = ns.tensor(normal(4, 2), requires_grad=True)
    np.sum(np.linalg.svd(tall).U).backward()
    assert np.isnan(tall.grad.numpy()).all()
    with pytest.raises(GradientError, match="arbitrary basis") as caught:
        np.sum(np.linalg.qr(ns.tensor(normal(4, 2), requires_grad=True), "complete")[1]).backward()
    assert "test_linalg.py:" in caught.value.source
    singular = ns.tensor(np.ones((2, 2)), requires_grad=True)
    with pytest.raises(np.linalg.LinAlgError, match=r"singular.*test_linalg\.py:"):
        np.linalg.det(singular).backward()


def test_names_of_the_standard_are_numpys_functions() -> None:
    a = ns.tensor(normal(3, 3) + 3 * np.eye(3))
    for name in (
        "det",
        "inv",
        "svdvals",
        "norm",
        "trace",
        "diagonal",
        "matrix_transpose",
        "matrix_norm",
        "vector_norm",
        "pinv",
        "matrix_rank",
        "cond",
        "eigvalsh",
    ):
        function, numpy_function = getattr(ns.linalg, name), getattr(np.linalg, name)
        assert np.array_equal(function(a).numpy(), numpy_function(a).numpy()), name
        assert np.array_equal(function(a.numpy()).numpy(), numpy_function(a).numpy()), name
    result = ns.linalg.svd(a)
    assert result._fields == ("U", "S", "Vh")
    assert ns.linalg.eigh(a)._fields == ("eigenvalues", "eigenvectors")
    assert ns.linalg.slogdet(a)._fields == ("sign", "logabsdet")
    assert ns.linalg.qr(a)._fields == ("Q", "R")
    lower = np.tril(a.numpy())
    actual = ns.linalg.solve_triangular(a, np.ones(3), lower=True)
    assert np.allclose(lower @ actual.numpy(), 1)
    actual = ns.linalg.solve_triangular(a, np.ones(3), lower=True, trans=True, unit_diagonal=True)
    assert np.allclose((np.tril(lower, -1) + np.eye(3)).T @ actual.numpy(), 1)
    first, two = ns.tensor(normal(3)), ns.tensor(normal(3))
    assert np.allclose(ns.linalg.cross(first, two).numpy(), np.cross(first.numpy(), two.numpy()))
    assert ns.linalg.outer(first, two).shape == (3, 3)


def test_fft_equals_numpy() -> None:
    f = np.fft
    for imaginary in (False, True):
        x = normal(4, 5, 6, imaginary=imaginary)
        for norm in (None, "ortho", "forward"):
            for function in (f.fft, f.ifft, f.irfft, f.hfft):
                same(function, x, None, 1, norm)
                same(function, x, 4, -1, norm)
            for function in (f.fft2, f.ifft2, f.irfft2, f.fftn, f.ifftn, f.irfftn):
                same(function, x, norm=norm)
                same(function, x, (3, 8), (2, 0), norm)
        same(f.fftshift, x)
        same(f.ifftshift, x, 1)
        same(f.ifftshift, x, (0, 2))
    x = normal(4, 5, 6)
    for function in (f.rfft, f.ihfft):
        same(function, x, 7, 1)
    for function in (f.rfft2, f.rfftn):
        same(function, x, (3, -1), (0, 1))
    same(f.fft, x.astype("float32"))
    same(f.irfft, normal(5, imaginary=True).astype("complex64"))
    assert np.array_equal(ns.fft.fftfreq(5, d=0.1).numpy(), f.fftfreq(5, 0.1))
    assert np.array_equal(ns.fft.rfftfreq(6).numpy(), f.rfftfreq(6))
    assert np.allclose(ns.fft.ifft(ns.fft.fft(x)).numpy(), x)


def test_a_spectrum_has_a_gradient() -> None:
    """Parseval: the energy of the orthonormal spectrum is that of the signal."""
    x = ns.tensor(normal(9), requires_grad=True)
    np.sum(np.abs(np.fft.fft(x, norm="ortho")) ** 2).backward()
    assert np.allclose(x.grad.numpy(), 2 * x.numpy())
    gradient_is_right(lambda t: np.sum(np.abs(np.fft.rfft(t)) ** 3), normal(8))
    gradient_is_right(lambda t: np.sum(np.fft.hfft(t) ** 3), normal(5, imaginary=True))
    gradient_is_right(lambda t: np.sum(np.abs(np.fft.fftshift(np.fft.fft2(t))[0])), normal(4, 4))


SINGULAR = ns.tensor(np.ones((2, 2)))
WIDE = ns.tensor(np.ones((2, 3)))
HALF = ns.tensor(np.eye(2), "float16")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: np.linalg.inv(SINGULAR), np.linalg.LinAlgError, "inv: singular matrix.*pinv"),
        (lambda: np.linalg.solve(SINGULAR, np.ones(2)), np.linalg.LinAlgError, "solve: singular"),
        (lambda: np.linalg.cholesky(-SINGULAR), np.linalg.LinAlgError, "positive definite"),
        (lambda: np.linalg.svd(SINGULAR * np.nan), np.linalg.LinAlgError, "converge.*NaN"),
        (lambda: np.linalg.inv(WIDE), np.linalg.LinAlgError, r"square, not \(2, 3\)"),
        (lambda: np.linalg.det(WIDE), ShapeError, r"square, not \(2, 3\)"),
        (lambda: np.linalg.det(ns.tensor([1.0])), np.linalg.LinAlgError, "two dimensions"),
        (
            lambda: np.linalg.solve(SINGULAR, np.ones(3)),
            ShapeError,
            "do not fit the right-hand side",
        ),
        (lambda: np.linalg.inv(HALF), DtypeError, "inv: not defined for float16"),
        (lambda: np.linalg.svd(ns.tensor([1.0])), ShapeError, "two dimensions"),
        (lambda: np.linalg.norm(WIDE, "nuc", 0), DomainError, "not a norm of vectors"),
        (lambda: np.linalg.norm(WIDE, 5), DomainError, "not a norm of matrices"),
        (lambda: np.linalg.norm(np.ones((2, 2, 2)) + WIDE[0, 0], 1), ShapeError, "two axes, not 3"),
        (lambda: np.linalg.norm(WIDE, 1, 7), ShapeError, "axis 7"),
        (lambda: np.linalg.matrix_power(WIDE, 2), ShapeError, "square"),
        (lambda: np.linalg.matrix_power(SINGULAR, 1.5), DtypeError, "integer"),
        (lambda: np.linalg.multi_dot([WIDE, WIDE]), ShapeError, "inner dimensions differ"),
        (lambda: np.linalg.qr(WIDE, "raw"), UnsupportedError, "mode='raw'"),
        (lambda: np.linalg.lstsq(WIDE, np.ones(3)), ShapeError, "lstsq"),
        (lambda: np.linalg.outer(WIDE, WIDE), ShapeError, "expected vectors"),
        (lambda: np.fft.rfft(WIDE * 1j), DtypeError, "real numbers"),
        (lambda: np.fft.fft(WIDE, 0), ShapeError, "at least one point"),
        (lambda: np.fft.fft(WIDE, axis=4), ShapeError, "axis 4"),
        (lambda: np.fft.fft(WIDE, norm="loud"), ShapeError, "norm must be one of"),
        (lambda: np.fft.fftn(WIDE, (2, 2, 2), (0, 1)), ShapeError, "3 lengths for 2 axes"),
        (lambda: np.fft.fftshift(WIDE, 5), ShapeError, "axis 5"),
    ],
)
def test_mistakes_are_named_with_the_users_line(
    call: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        call()
    assert isinstance(caught.value, NodescopeError)
    assert "test_linalg.py:" in caught.value.source
