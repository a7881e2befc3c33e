"""NumPy's functions on tensors: the same values, shapes and dtypes as on arrays, and gradients."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import TraceError
from tests.core.engine.numpy_functions.numpy_programs import (
    INTEGERS,
    NUMBERS,
    REAL,
    SHAPES,
    SUMS,
    A,
)
from tests.parts import in_parts

RNG = np.random.default_rng(1)


def check(program: Any, data: np.ndarray) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = program(data)
        result = program(ns.tensor(data))
    several = isinstance(expected, tuple | list)
    assert isinstance(result, tuple | list) == several
    pairs = zip(result, expected, strict=True) if several else [(result, expected)]
    for first, other in pairs:
        wanted = np.asarray(other)
        assert isinstance(first, ns.Tensor)
        assert (first.dtype, first.shape) == (wanted.dtype, wanted.shape)
        rough = 4e-3 if wanted.dtype == np.float16 else 3e-6 if wanted.dtype.itemsize < 8 else 1e-12
        np.testing.assert_allclose(first.numpy(), wanted, rtol=rough, atol=rough)


@in_parts(4)
@pytest.mark.parametrize("name", [*SHAPES, *SUMS])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_functions(name: str, dtype: str) -> None:
    program = SHAPES.get(name) or SUMS[name]
    check(program, A.astype(dtype) * (1 + 0.5j) if dtype == "complex128" else A.astype(dtype))


@in_parts(2)
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_functions_of_real_numbers(name: str, dtype: str) -> None:
    check(REAL[name], A.astype(dtype))


@pytest.mark.parametrize("name", INTEGERS)
def test_functions_of_integers(name: str) -> None:
    check(INTEGERS[name], NUMBERS)


SMOOTH = {
    **SHAPES,
    **{name: f for name, f in SUMS.items() if name not in {"nan_to_num", "median_nan"}},
    # Gradients treat the edges of bins as constants.
    **{name: f for name, f in REAL.items() if name not in {"histogram_free", "quantile_nan"}},
}


COMPLEX = {name: f for name, f in SMOOTH.items() if name not in REAL}


@in_parts(4)
@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_against_differences(name: str) -> None:
    check_slope(SMOOTH[name], A, RNG.standard_normal(A.shape))


@in_parts(6)
@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("part", [1.0, 1j])
def test_complex_gradients_against_differences(name: str, part: complex) -> None:
    check_slope(COMPLEX[name], A * (1 + 0.5j) + 0.25j, RNG.standard_normal(A.shape) * part)


def check_slope(program: Any, data: np.ndarray, way: np.ndarray) -> None:
    def loss(x: Any) -> Any:
        result = program(x)
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        total: Any = np.real(np.sum(x)) * 0.0
        for y in outputs:
            if y.dtype.kind == "c":
                y = np.real(y) + 2.0 * np.imag(y)
            if y.dtype.kind == "f":
                total = total + np.sum(np.where(np.isfinite(y), np.sin(y + 0.3), 0.0))
        return total

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        slope = ns.grad(loss)(data).numpy()
        up, down = (loss(ns.tensor(data + shift * way)).item() for shift in (1e-6, -1e-6))
    actual = float(np.sum(np.conj(slope) * way).real)
    assert actual == pytest.approx((up - down) / 2e-6, rel=2e-5, abs=2e-6)


# Functions whose result shapes depend on values.
DEPENDENT = {
    "nonzero", "argwhere", "where_1",
    "flatnonzero", "unique", "trim_zeros", "unique_index", "unique_inverse", "unique_axis",
    "unique_values", "unique_counts", "unique_all", "bincount", "bincount_weights", "intersect1d",
    "union1d", "setdiff1d", "setxor1d",
}  # fmt: skip
EVERY = [(name, f, A) for table in (SHAPES, SUMS, REAL) for name, f in table.items()]
EVERY += [(name, f, NUMBERS) for name, f in INTEGERS.items()]


@in_parts(6)
@pytest.mark.parametrize(("name", "program", "data"), EVERY, ids=[item[0] for item in EVERY])
def test_graphs_give_the_same(name: str, program: Any, data: np.ndarray) -> None:
    compiled = ns.compile(lambda x: program(x))
    with np.errstate(all="ignore"):
        if name in DEPENDENT:
            with pytest.raises(TraceError, match="depends on") as caught:
                compiled(ns.tensor(data))
            assert caught.value.hint
            return
        expected, result = program(ns.tensor(data)), compiled(ns.tensor(data))
    several = isinstance(expected, tuple | list)
    pairs = zip(result, expected, strict=True) if several else [(result, expected)]
    for first, other in pairs:
        assert first.dtype == other.dtype
        assert first.numpy().tobytes() == other.numpy().tobytes()
