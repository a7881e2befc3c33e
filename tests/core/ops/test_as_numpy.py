"""Ops that take a shorter way than NumPy's function: the same bits, dtypes, strides and flags."""

from __future__ import annotations

import re
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodescope import ops
from tests.depth import examples

DTYPES = ["float32", "float64", "float16", "int32", "uint8", "bool", "complex64"]
REDUCTIONS = {
    "sum": np.sum, "prod": np.prod, "mean": np.mean, "max": np.max, "min": np.min, "any": np.any,
    "all": np.all,
}  # fmt: skip


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Arrays of any layout, with NaN, infinities and zeros of both signs."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=5))
    x = draw(hnp.arrays(dtype, shape))
    return x.T if draw(st.booleans()) else x[::-1] if x.ndim and draw(st.booleans()) else x


def identical(result: Any, expected: Any) -> bool:
    result, expected = np.asarray(result), np.asarray(expected)
    same = result.dtype == expected.dtype and result.shape == expected.shape
    return same and result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", REDUCTIONS)
@settings(max_examples=examples(160))
@given(x=arrays(), data=st.data())
def test_reductions_are_those_of_numpy(name: str, x: Any, data: st.DataObject) -> None:
    axis = data.draw(st.none() | hnp.valid_tuple_axes(x.ndim, min_size=1) if x.ndim else st.none())
    keepdims = data.draw(st.booleans())
    with np.errstate(all="ignore"):
        ours = ops.get(name).impl(x, axis=axis, keepdims=keepdims)
        assert identical(ours, REDUCTIONS[name](x, axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_the_mean_of_nothing_is_nan_with_a_warning(shape: tuple[int, ...]) -> None:
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        assert np.isnan(ops.get("mean").impl(np.zeros(shape), axis=None, keepdims=False))


@settings(max_examples=examples(320))
@given(x=arrays(), data=st.data())
def test_broadcasting_is_that_of_numpy(x: Any, data: st.DataObject) -> None:
    shape = data.draw(hnp.broadcastable_shapes(x.shape, max_dims=4, max_side=5))
    broadcast = ops.get("broadcast_to").impl
    try:
        expected = np.broadcast_to(x, shape)
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error))):
            broadcast(x, shape)
        return
    result = broadcast(x, shape)
    assert identical(result, expected)
    wide = [step for step, size in zip(result.strides, shape, strict=True) if size > 1]
    assert wide == [step for step, size in zip(expected.strides, shape, strict=True) if size > 1]
    assert not result.flags.writeable
    assert np.shares_memory(result, x) == np.shares_memory(expected, x)
