"""The differences between arrays and between statistics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nodescope.compare.measure import _measured, measure_arrays, measure_summaries
from nodescope.record.summary import summarise
from tests.parts import in_parts

FLOATS = (np.float16, np.float32, np.float64)


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_step_is_one_ulp(dtype: type) -> None:
    a = np.array([1.0, -2.0, 1e-3, 0.0], dtype)
    b = np.nextafter(a, dtype(np.inf))
    result = measure_arrays(a, b)
    assert result.ulp == 1
    assert not result.equal
    assert result.max_abs == pytest.approx(float(np.abs(b.astype(float) - a.astype(float)).max()))


def test_ulps_are_counted_across_zero() -> None:
    least = np.float32(np.finfo(np.float32).smallest_subnormal)
    assert measure_arrays(np.array([-least]), np.array([least])).ulp == 2
    zeros = measure_arrays(np.array([0.0]), np.array([-0.0]))
    assert zeros.ulp == 0
    assert zeros.max_abs == 0
    assert not zeros.equal  # The bits of -0.0 and 0.0 differ.


def test_nonfinite_elements_are_counted() -> None:
    a = np.array([1.0, np.nan, np.inf, 2.0])
    b = np.array([1.0, np.nan, -np.inf, np.nan])
    result = measure_arrays(a, b)
    assert result.nan == (1, 2)
    assert result.inf == (1, 1)
    assert result.max_abs == 0
    assert result.mismatched == 0.5
    assert not result.equal
    assert measure_arrays(a, a.copy()).equal


@in_parts(2)
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint64", "float16", "float32", "float64", "longdouble", "complex64"]
)
@pytest.mark.parametrize("shape", [(), (0,), (4,), (2, 2)])
@pytest.mark.parametrize("odd", [(), (np.nan,), (np.inf, -np.inf), (np.nan,) * 4])
def test_equal_bits_are_measured_as_other_arrays_are(
    dtype: str, shape: tuple[int, ...], odd: tuple[float, ...]
) -> None:
    numbers = np.array([*odd, 1.0, -0.0, 2.5, 0.0][:4])
    with np.errstate(all="ignore"):
        a = numbers.astype(dtype)[: int(np.prod(shape))].reshape(shape)
        plain = _measured(np.atleast_1d(a), np.atleast_1d(a), a.dtype.kind, a.dtype.name)
    assert measure_arrays(a, a.copy()) == plain


def test_the_tolerance_is_the_dtypes() -> None:
    for dtype, step in ((np.float32, 1e-4), (np.float16, 2e-2)):
        a = np.ones(4, dtype)
        near = a.copy()
        near[0] = np.nextafter(near[0], dtype(2))
        assert measure_arrays(a, near).mismatched == 0
        far = a.copy()
        far[0] += dtype(step)
        assert measure_arrays(a, far).mismatched == 0.25


def test_integers_bools_and_complex_numbers() -> None:
    result = measure_arrays(np.array([1, 2, 3]), np.array([1, 4, 3]))
    assert (result.max_abs, result.max_rel, result.ulp) == (2, 1, None)
    assert result.mismatched == pytest.approx(1 / 3)
    assert measure_arrays(np.array([True, False]), np.array([True, False])).equal
    assert measure_arrays(np.array([3 + 4j]), np.array([0j])).max_abs == 5


@pytest.mark.parametrize("shape", [(), (0,), (0, 3)])
def test_scalars_and_nothing(shape: tuple[int, ...]) -> None:
    result = measure_arrays(np.zeros(shape), np.zeros(shape))
    assert result.equal
    assert result.source == "arrays"


def test_incomparable_arrays_have_a_reason() -> None:
    assert "shapes differ" in measure_arrays(np.zeros(2), np.zeros(3)).why
    assert "dtypes differ" in measure_arrays(np.zeros(2), np.zeros(2, np.float32)).why
    assert "no numbers" in measure_arrays(np.array(["a"]), np.array(["b"])).why


@given(
    st.data(),
    st.sampled_from(FLOATS),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
def test_any_two_arrays_are_measured(
    data: st.DataObject, dtype: type, shape: tuple[int, ...]
) -> None:
    a = data.draw(hnp.arrays(dtype, shape))
    b = data.draw(hnp.arrays(dtype, shape))
    result = measure_arrays(a, b)
    back = measure_arrays(b, a)
    assert result.equal == (a.tobytes() == b.tobytes()) or np.isnan(a).any()
    assert result.max_abs == back.max_abs
    assert result.ulp == back.ulp
    assert measure_arrays(a, a.copy()).equal
    assert result.mismatched is not None
    assert 0 <= result.mismatched <= 1


def test_statistics() -> None:
    a = np.arange(6.0).reshape(2, 3)
    same = measure_summaries(summarise(a), summarise(np.asfortranarray(a.copy())))
    assert same.equal
    assert same.max_abs == 0
    result = measure_summaries(summarise(a), summarise(a + 1))
    assert not result.equal
    assert result.source == "summaries"
    assert result.max_abs == pytest.approx(np.linalg.norm(a + 1) - np.linalg.norm(a))
    other = measure_summaries(summarise(a), summarise(a[0]))
    assert other.source == "none"
    assert "float64" in other.why


def test_an_error_that_overflows_is_a_number() -> None:
    huge = np.finfo(np.float64).max
    result = measure_arrays(np.array([huge, 5e-324]), np.array([-huge, 1.0]))
    assert result.max_abs == huge
    assert result.max_rel == huge
    assert result.mismatched == 1.0
