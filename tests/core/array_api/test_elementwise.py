"""Element-wise functions against array-api-strict, special values included."""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import nodescope as ns
from tests.core.array_api.oracle import FUNCTIONS, check
from tests.depth import examples

DRAWN = settings(
    max_examples=examples(30),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
REAL_FLOATS, COMPLEX, BOOL = ("float32", "float64"), ("complex64", "complex128"), ("bool",)
FLOATS = REAL_FLOATS + COMPLEX
REAL = INTEGERS + REAL_FLOATS
NUMERIC = INTEGERS + FLOATS
ALL = BOOL + NUMERIC

_UNARY = {
    NUMERIC: "abs conj isfinite isinf isnan negative positive real round square",
    REAL: "ceil floor sign trunc",
    FLOATS: "acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 "
    "reciprocal sin sinh sqrt tan tanh",
    REAL_FLOATS: "signbit",
    COMPLEX: "imag",
    BOOL: "logical_not",
    BOOL + INTEGERS: "bitwise_invert",
}
_BINARY = {
    ALL: "equal not_equal",
    NUMERIC: "add multiply pow subtract",
    FLOATS: "divide",
    REAL: "floor_divide greater greater_equal less less_equal maximum minimum remainder",
    REAL_FLOATS: "atan2 copysign hypot logaddexp nextafter",
    BOOL: "logical_and logical_or logical_xor",
    BOOL + INTEGERS: "bitwise_and bitwise_or bitwise_xor",
    INTEGERS: "bitwise_left_shift bitwise_right_shift",
}
UNARY = [(name, dtypes) for dtypes, names in _UNARY.items() for name in names.split()]
BINARY = [(name, dtypes) for dtypes, names in _BINARY.items() for name in names.split()]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


def elements(dtype: str, name: str = "") -> st.SearchStrategy[Any]:
    if "shift" in name:  # Shifting by more bits than the dtype has is undefined.
        return st.integers(0, np.dtype(dtype).itemsize * 8 - 1)
    special = {"f": [np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, 1.0, -1.0],
               "c": [complex(np.nan, 0), complex(np.inf, 1), complex(-0.0, 0.0), 1j]}  # fmt: skip
    kind = np.dtype(dtype).kind
    drawn = hnp.from_dtype(np.dtype(dtype))
    return drawn | st.sampled_from(special[kind]) if kind in special else drawn


@st.composite
def arrays(draw: Any, dtype: str, shape: Any = None, name: str = "") -> np.ndarray:
    wanted = draw(SHAPES) if shape is None else shape
    return np.asarray(draw(hnp.arrays(dtype, wanted, elements=elements(dtype, name))))


def test_every_elementwise_function_is_checked_here() -> None:
    module = "array_api_strict._elementwise_functions"
    known = {name for name, item in FUNCTIONS.items() if item.__module__ == module}
    checked = {name for name in known if name not in dict(UNARY) | dict(BINARY)}
    assert checked == {"clip"}
    known_binary = {"bitwise_left_shift", "bitwise_right_shift"}
    assert known_binary <= set(dict(BINARY))


@pytest.mark.parametrize(("name", "dtypes"), UNARY)
@DRAWN
@given(data=st.data())
def test_unary(name: str, dtypes: tuple[str, ...], data: st.DataObject) -> None:
    check(name, data.draw(arrays(data.draw(st.sampled_from(dtypes)))))


@pytest.mark.parametrize(("name", "dtypes"), BINARY)
@DRAWN
@given(data=st.data())
def test_binary(name: str, dtypes: tuple[str, ...], data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(dtypes))
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3))
    left, right = (
        data.draw(arrays(dtype, input_shape, name)) for input_shape in shapes.input_shapes
    )
    check(name, left, right)


@pytest.mark.parametrize(("name", "dtypes"), BINARY)
@DRAWN
@given(data=st.data())
def test_binary_with_a_scalar(name: str, dtypes: tuple[str, ...], data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(dtypes))
    array = data.draw(arrays(dtype, name=name))
    scalar = np.dtype(dtype).type(data.draw(elements(dtype, name))).item()
    pair = (array, scalar) if data.draw(st.booleans()) else (scalar, array)
    check(name, *pair)


@pytest.mark.parametrize(("name", "dtypes"), BINARY)
@DRAWN
@given(data=st.data())
def test_binary_promotes(name: str, dtypes: tuple[str, ...], data: st.DataObject) -> None:
    first, other = data.draw(st.sampled_from(dtypes)), data.draw(st.sampled_from(dtypes))
    try:
        strict.result_type(getattr(strict, first), getattr(strict, other))
    except TypeError:  # The standard leaves it open; nodescope promotes as NumPy does.
        return
    check(name, np.ones((2,), first), np.ones((2,), other))


@DRAWN
@given(data=st.data())
def test_clip(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(REAL))
    bounds = [data.draw(st.none() | arrays(dtype, ())) for _ in range(2)]
    if None not in bounds and not bounds[0] <= bounds[1]:  # type: ignore[operator]
        return
    check("clip", data.draw(arrays(dtype)), *bounds)


def test_sign_of_complex_numbers() -> None:
    # nodescope's sign is NumPy's, which has limits where x / abs(x) has none, and rounds once
    # less.
    check("sign", np.array([-2.0, 0, 4 + 0j]))
    x = np.array([3 + 4j, -1j, 1e-3 - 1e-3j])
    np.testing.assert_allclose(ns.sign(ns.asarray(x)).numpy(), x / np.abs(x), rtol=1e-15)
    assert ns.sign(ns.asarray(complex(np.inf, 1))).item() == 1


OPERATORS = {
    "__add__": NUMERIC, "__sub__": NUMERIC, "__mul__": NUMERIC, "__truediv__": FLOATS,
    "__floordiv__": REAL, "__mod__": REAL, "__pow__": FLOATS, "__and__": BOOL + INTEGERS,
    "__or__": BOOL + INTEGERS, "__xor__": BOOL + INTEGERS, "__lshift__": INTEGERS,
    "__rshift__": INTEGERS, "__lt__": REAL, "__le__": REAL, "__gt__": REAL, "__ge__": REAL,
    "__eq__": ALL, "__ne__": ALL,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name: str) -> None:
    for dtype in OPERATORS[name]:
        left, right = np.array([3, 1, 1], dtype), np.array([1, 1, 2], dtype)
        expected = getattr(strict.asarray(left), name)(strict.asarray(right))
        result = getattr(ns.asarray(left), name)(ns.asarray(right))
        assert result.dtype == np.asarray(expected).dtype
        np.testing.assert_array_equal(result.numpy(), np.asarray(expected))
        reflected = name.replace("__", "__r", 1)
        if hasattr(strict.asarray(left), reflected):
            expected = getattr(strict.asarray(left), reflected)(strict.asarray(right))
            result = getattr(ns.asarray(left), reflected)(ns.asarray(right))
            np.testing.assert_array_equal(result.numpy(), np.asarray(expected))
