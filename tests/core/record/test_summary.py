"""Summaries against a slow reference, for any dtype and layout."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nodescope import native
from nodescope.record import summary as module
from nodescope.record.summary import PREVIEW, summarise, whole
from tests.depth import examples

DTYPES = ["?", "i1", "u2", "i8", "u8", "f2", "f4", "f8", ">f4", "c8", "c16"]


@pytest.fixture(scope="module", autouse=True, params=["native", "python"])
def _road(request: pytest.FixtureRequest) -> Iterator[None]:
    """The native core and the Python code keep the same promises."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(native, "_core", None)
        yield


def check(array: np.ndarray[Any, Any]) -> None:
    before = array.copy()
    result = summarise(array)
    np.testing.assert_array_equal(array, before)
    assert result.spec.shape == array.shape
    assert result.nbytes == array.nbytes
    flat = list(array.flat)
    nan = [bool(np.isnan(item)) for item in flat]
    inf = [bool(np.isinf(item)) and not n for item, n in zip(flat, nan, strict=True)]
    assert (result.nan_count, result.inf_count) == (sum(nan), sum(inf))
    assert result.zero_count == sum(bool(item == 0) for item in flat)
    complex_ = array.dtype.kind == "c"
    with np.errstate(over="ignore"):
        finite = [
            abs(complex(item)) if complex_ else float(item)
            for item, n, i in zip(flat, nan, inf, strict=True)
            if not n and not i
        ]
    assert sum(result.histogram) == len(finite)
    if not finite:
        assert result.min is None
        return
    assert result.mean is not None
    assert result.std is not None
    assert result.norm is not None
    largest = max(max(map(abs, finite)), 5e-324)
    assert result.min == pytest.approx(min(finite), rel=1e-6)
    assert result.max == pytest.approx(max(finite), rel=1e-6)
    scaled = [item / largest for item in finite]
    least = 5e-324 / largest  # No result is more precise than the smallest float64.
    mean = math.fsum(scaled) / len(scaled)
    assert result.mean / largest == pytest.approx(mean, abs=1e-6 + least)
    spread = math.sqrt(math.fsum((item - mean) ** 2 for item in scaled) / len(scaled))
    assert result.std / largest == pytest.approx(spread, abs=1e-6 + least)
    norm = math.sqrt(math.fsum(item * item for item in scaled))
    if math.isfinite(norm * largest):
        assert result.norm / largest == pytest.approx(norm, rel=1e-6, abs=least)
    if result.min != result.max:
        assert result.histogram[0] >= 1
        assert result.histogram[-1] >= 1


@given(st.sampled_from(DTYPES).flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(max_side=5))))
@settings(max_examples=examples(300), deadline=None)
def test_matches_the_reference(array: np.ndarray[Any, Any]) -> None:
    if array.dtype == np.dtype("c16"):
        with np.errstate(over="ignore"):
            array = np.where(np.abs(array) < 1e300, array, 1)
    check(array)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 3)),
        np.array(3.5),
        np.arange(24.0).reshape(4, 6)[::-2, ::3],
        np.arange(24.0).reshape(4, 6).T,
        np.array([1e308, -1e308, 1e308]),
        np.array([5e-324, 1e-310, 0.0]),
        np.array([5e-324, 0.0]),
        np.array([5e-324, 5e-324]),
        np.array([np.nan, np.inf, -np.inf]),
        np.array([-0.0, 0.0, 2**63], dtype=np.longdouble),
        np.array([3e38 + 3e38j, 1, 1e-45 + 1e-45j], dtype=np.complex64),
        np.full(200_000, 2.0, dtype=np.float32)[::2],
    ],
)
def test_corners(array: np.ndarray[Any, Any]) -> None:
    array.flags.writeable = False
    check(array)


@pytest.mark.parametrize("strided", [False, True])
def test_blocks_agree_with_the_fast_path(strided: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(0).normal(size=(100, 30))
    array = array[:, ::3] if strided else array
    quick = summarise(array)
    monkeypatch.setattr(module, "_BLOCK", 64)
    slow = summarise(array)
    assert slow.mean == pytest.approx(quick.mean)
    assert slow.std == pytest.approx(quick.std)
    assert slow.histogram == quick.histogram
    assert slow.preview == quick.preview


def test_what_is_not_a_number_has_its_spec_alone() -> None:
    result = summarise(np.array(["a", "bc"]))
    assert result.spec.shape == (2,)
    assert result.min is None


@given(
    hnp.arrays(
        st.sampled_from(["bool", "int8", "uint16", "int64", "float16", "float32", "float64"]),
        hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4),
    )
)
def test_few_elements_are_known_from_their_statistics(array: Any) -> None:
    result = whole(summarise(array))
    if result is None:
        large = (
            array.dtype.kind in "iu" and array.size and np.abs(array.astype(float)).max() >= 2**53
        )
        assert array.size > PREVIEW or large
    else:
        assert result.dtype == array.dtype
        np.testing.assert_array_equal(result, array)
