"""The extensions ``linalg`` and ``fft`` against array-api-strict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import ShapeError
from tests.core.array_api.oracle import EXTENSIONS, check
from tests.parts import in_parts

NEAR = {"float32": 2e-4, "float64": 1e-10, "complex64": 2e-4, "complex128": 1e-10}
RNG = np.random.default_rng(8)


def array(dtype: str, *shape: int) -> Any:
    result = RNG.standard_normal(shape)
    if dtype.startswith("complex"):
        result = result + 1j * RNG.standard_normal(shape)
    return result.astype(dtype)


def square(dtype: str) -> Any:
    return array(dtype, 2, 3, 3) + 3 * np.eye(3, dtype=dtype)


def definite(dtype: str) -> Any:
    x = square(dtype)
    return x @ np.conj(np.swapaxes(x, -1, -2))


Cases = list[tuple[tuple[Any, ...], dict[str, Any]]]


def linalg(dtype: str) -> dict[str, Cases]:
    a, s, d, v = array(dtype, 2, 3, 4), square(dtype), definite(dtype), array(dtype, 4)
    real = dtype.replace("complex64", "float32").replace("complex128", "float64")
    tolerance = np.full((2,), 1e-3, real)
    return {
        "cholesky": [((d,), {}), ((d,), {"upper": True})],
        "cross": [((a[..., :3], a[..., 1:]), {}), ((a, a[:, ::-1]), {"axis": -2})],
        "det": [((s,), {})],
        "diagonal": [((a,), {}), ((a,), {"offset": -1})],
        "eigvalsh": [((d,), {})],
        "inv": [((s,), {})],
        "matmul": [((a, np.swapaxes(a, 1, 2)), {})],
        "matrix_norm": [((a,), {"ord": item}) for item in ("fro", "nuc", 1, -1, 2, -2, np.inf)]
        + [((a,), {"keepdims": True})],
        "matrix_power": [((s, n), {}) for n in (0, 1, 3, -2)],
        "matrix_rank": [((a,), {}), ((a,), {"rtol": tolerance})],
        "matrix_transpose": [((a,), {})],
        "outer": [((v, v[:2]), {})],
        "pinv": [((a,), {}), ((a,), {"rtol": 1e-3})],
        "slogdet": [((s,), {})],
        "solve": [((s, a), {}), ((s, array(dtype, 3)), {})],
        "svdvals": [((a,), {})],
        "tensordot": [((a, a), {"axes": 3}), ((a, a), {"axes": ((1, 2), (1, 2))})],
        "trace": [((a,), {}), ((a,), {"offset": 1, "dtype": np.dtype("complex128")})],
        "vecdot": [((a, a), {}), ((a, a[:1]), {"axis": -2})],
        "vector_norm": [((a,), {"ord": item, "axis": axis}) for item in (2, 1, 0, 3, np.inf)
                        for axis in (None, 1, (0, 2))] + [((a,), {"keepdims": True})],
    }  # fmt: skip


# The factors of these are not unique, so the product of the factors is checked.
FACTORS = {"eigh", "qr", "svd"}


@in_parts(2)
@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("name", [item for item in EXTENSIONS["linalg"] if item not in FACTORS])
def test_linalg(name: str, dtype: str) -> None:
    for args, kwargs in linalg(dtype)[name]:
        check(f"linalg.{name}", *args, near=NEAR[dtype], **kwargs)


@pytest.mark.parametrize("dtype", NEAR)
def test_factors_make_what_they_were_made_from(dtype: str) -> None:
    a, d = array(dtype, 2, 3, 4), definite(dtype)
    near = NEAR[dtype] * 10
    for full in (True, False):
        u, s, vh = ns.linalg.svd(ns.asarray(a), full_matrices=full)
        assert u.dtype == vh.dtype == a.dtype
        assert s.dtype == a.real.dtype
        assert vh.shape == ((2, 4, 4) if full else (2, 3, 4))
        product = u.numpy() @ (s.numpy()[..., None] * vh.numpy()[:, :3])
        np.testing.assert_allclose(product, a, atol=near)
    values, vectors = ns.linalg.eigh(ns.asarray(d))
    again = (vectors.numpy() * values.numpy()[:, None]) @ np.conj(
        np.swapaxes(vectors.numpy(), 1, 2)
    )
    np.testing.assert_allclose(again, d, atol=near * 10)
    for mode, shape in (("reduced", (2, 4, 3)), ("complete", (2, 4, 4))):
        q, r = ns.linalg.qr(ns.asarray(np.swapaxes(a, 1, 2)), mode=mode)
        assert q.shape == shape
        np.testing.assert_allclose(q.numpy() @ r.numpy(), np.swapaxes(a, 1, 2), atol=near)
    result = ns.linalg.slogdet(ns.asarray(d))
    assert result._fields == ("sign", "logabsdet")
    assert ns.linalg.eigh(ns.asarray(d))._fields == ("eigenvalues", "eigenvectors")
    assert ns.linalg.svd(ns.asarray(a))._fields == ("U", "S", "Vh")
    assert ns.linalg.qr(ns.asarray(a))._fields == ("Q", "R")


def test_a_cutoff_for_each_matrix() -> None:
    x, cutoffs = array("float64", 2, 3, 3), np.array([1e-3, 0.9])
    expected = np.linalg.pinv(x, rtol=cutoffs)
    for cutoff in (cutoffs, cutoffs.tolist(), ns.asarray(cutoffs)):
        np.testing.assert_array_equal(ns.linalg.pinv(ns.asarray(x), rtol=cutoff).numpy(), expected)
    result = ns.compile(lambda a: np.linalg.pinv(a, rtol=cutoffs))(x)
    np.testing.assert_array_equal(result.numpy(), expected)
    with pytest.raises(ShapeError, match=r"cutoffs of shape \(3,\) for matrices of shape \(2,\)"):
        ns.linalg.pinv(ns.asarray(x), rtol=[0.1, 0.1, 0.1])


def test_the_version_of_the_standard() -> None:
    assert ns.__array_api_version__ == np.__array_api_version__ == "2024.12"


def transforms() -> list[str]:
    return [text for text in EXTENSIONS["fft"] if not text.endswith(("freq", "shift"))]


@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("name", transforms())
def test_fft(name: str, dtype: str) -> None:
    if dtype.startswith("complex") == (name in ("rfft", "rfftn", "ihfft")):
        dtype = dtype.replace("complex64", "float32").replace("complex128", "float64")
    if name in ("fft", "fftn", "ifft", "ifftn", "irfft", "irfftn", "hfft"):
        dtype = {"float32": "complex64", "float64": "complex128"}.get(dtype, dtype)
    x = array(dtype, 3, 4, 5)
    several = name.endswith("n")
    size, axis = ("s", "axes") if several else ("n", "axis")
    for norm in ("backward", "ortho", "forward"):
        check(f"fft.{name}", x, near=NEAR[dtype] * 10, norm=norm)
    for wanted, along in (((6, 3), (0, 1)), ((2, 4), (1, 2))):
        kwargs = {size: wanted if several else wanted[0], axis: along if several else along[0]}
        check(f"fft.{name}", x, near=NEAR[dtype] * 10, **kwargs)


def test_frequencies_and_shifts() -> None:
    for name in ("fftfreq", "rfftfreq"):
        for n in (1, 4, 5):
            check(f"fft.{name}", n)
            check(f"fft.{name}", n, d=0.25)
            check(f"fft.{name}", n, dtype=np.dtype("float32"))
    x = array("float64", 3, 4)
    for name in ("fftshift", "ifftshift"):
        for axes in (None, 0, (0, 1)):
            check(f"fft.{name}", x, axes=axes)
