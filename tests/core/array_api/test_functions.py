"""Functions that are not element-wise against array-api-strict, on drawn arrays."""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import nodescope as ns
from nodescope.errors import BoundsError, DomainError, DtypeError, ShapeError, UsageError
from tests.core.array_api.oracle import FUNCTIONS, check, same
from tests.core.array_api.test_elementwise import (
    ALL,
    COMPLEX,
    FLOATS,
    NUMERIC,
    REAL,
    REAL_FLOATS,
    SHAPES,
    arrays,
)
from tests.depth import examples

DRAWN = settings(
    max_examples=examples(40),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
Data = st.DataObject
# Sums of these numbers are exact in any order; NumPy's order depends on the layout.
SMALL = st.integers(0, 3)


def drawn(data: Data, dtypes: tuple[str, ...], shape: Any = SHAPES, small: bool = False) -> Any:
    dtype = data.draw(st.sampled_from(dtypes))
    wanted = data.draw(shape) if isinstance(shape, st.SearchStrategy) else shape
    if small:
        elements: Any = st.booleans() if dtype == "bool" else SMALL
        return np.asarray(data.draw(hnp.arrays(dtype, wanted, elements=elements)))
    return data.draw(arrays(dtype, wanted))


def some_axis(data: Data, ndim: int, *, none: bool = True) -> Any:
    axes: Any = st.integers(-ndim, ndim - 1) if ndim else st.none()
    return data.draw(axes | st.none() if none else axes)


def some_axes(data: Data, ndim: int) -> Any:
    several = st.lists(
        st.integers(-ndim, ndim - 1), max_size=ndim, unique_by=lambda integer: integer % ndim
    ).map(tuple) if ndim else st.none()  # fmt: skip
    return data.draw(several | st.none()) if data.draw(st.booleans()) else some_axis(data, ndim)


AT_LEAST_ONE = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3)
VECTORS = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)


# Statistical


@pytest.mark.parametrize("name", ["sum", "prod"])
@DRAWN
@given(data=st.data())
def test_sums(name: str, data: Data) -> None:
    x = drawn(data, NUMERIC, small=True)
    kwargs: Any = {"axis": some_axes(data, x.ndim), "keepdims": data.draw(st.booleans())}
    if data.draw(st.booleans()):
        wider = [item for item in NUMERIC if np.can_cast(x.dtype, item)]
        kwargs["dtype"] = np.dtype(data.draw(st.sampled_from(wider)))
    check(name, x, **kwargs)


@pytest.mark.parametrize(("name", "dtypes"), [("max", REAL), ("min", REAL), ("mean", FLOATS)])
@DRAWN
@given(data=st.data())
def test_extremes_and_mean(name: str, dtypes: tuple[str, ...], data: Data) -> None:
    x = drawn(data, dtypes, small=name == "mean")
    check(name, x, axis=some_axes(data, x.ndim), keepdims=data.draw(st.booleans()))


@pytest.mark.parametrize("name", ["var", "std"])
@DRAWN
@given(data=st.data())
def test_standard_deviation_and_variance(name: str, data: Data) -> None:
    x = drawn(data, REAL_FLOATS, small=True)
    correction = data.draw(st.sampled_from([0, 0.5, 1]))
    axis, keepdims = some_axes(data, x.ndim), data.draw(st.booleans())
    check(name, x, axis=axis, correction=correction, keepdims=keepdims)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@DRAWN
@given(data=st.data())
def test_cumulative_functions(name: str, data: Data) -> None:
    x = drawn(data, NUMERIC, VECTORS, small=True)
    axis = some_axis(data, x.ndim, none=x.ndim == 1)
    check(name, x, axis=axis, include_initial=data.draw(st.booleans()))


# Utility


@pytest.mark.parametrize("name", ["all", "any", "count_nonzero"])
@DRAWN
@given(data=st.data())
def test_all_any_and_count_nonzero(name: str, data: Data) -> None:
    x = drawn(data, ALL)
    check(name, x, axis=some_axes(data, x.ndim), keepdims=data.draw(st.booleans()))


@DRAWN
@given(data=st.data())
def test_diff(data: Data) -> None:
    x = drawn(data, NUMERIC, AT_LEAST_ONE)
    kwargs: Any = {"axis": some_axis(data, x.ndim, none=False), "n": data.draw(st.integers(0, 3))}
    for name in ("prepend", "append"):
        if data.draw(st.booleans()):
            kwargs[name] = x
    check("diff", x, **kwargs)


# Searching and sorting


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@DRAWN
@given(data=st.data())
def test_argmax_and_argmin(name: str, data: Data) -> None:
    x = drawn(data, REAL)
    check(name, x, axis=some_axis(data, x.ndim), keepdims=data.draw(st.booleans()))


@DRAWN
@given(data=st.data())
def test_nonzero(data: Data) -> None:
    check("nonzero", drawn(data, ALL))


@DRAWN
@given(data=st.data())
def test_searchsorted(data: Data) -> None:
    x = drawn(data, REAL, (4,), small=True)
    wanted = np.asarray(data.draw(hnp.arrays(x.dtype, SHAPES, elements=SMALL)))
    side = data.draw(st.sampled_from(["left", "right"]))
    check("searchsorted", np.sort(x), wanted, side=side)
    check("searchsorted", x, wanted, side=side, sorter=np.argsort(x))


@DRAWN
@given(data=st.data())
def test_where(data: Data) -> None:
    dtype = data.draw(st.sampled_from(ALL))
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3))
    condition, first, other = shapes.input_shapes
    check(
        "where",
        data.draw(hnp.arrays("bool", condition)),
        data.draw(arrays(dtype, first)),
        data.draw(arrays(dtype, other)),
    )


@pytest.mark.parametrize("name", ["sort", "argsort"])
@DRAWN
@given(data=st.data())
def test_sorting(name: str, data: Data) -> None:
    x = drawn(data, REAL, VECTORS, small=data.draw(st.booleans()))
    axis, descending = some_axis(data, x.ndim, none=False), data.draw(st.booleans())
    check(name, x, axis=axis, descending=descending)


# Sets


@pytest.mark.parametrize("name", ["unique_all", "unique_counts", "unique_inverse", "unique_values"])
@DRAWN
@given(data=st.data())
def test_unique(name: str, data: Data) -> None:
    x = drawn(data, REAL, small=data.draw(st.booleans()))
    check(name, np.where(x == 0, np.zeros_like(x), x))  # Either of two equal zeros may be kept.


@DRAWN
@given(data=st.data())
def test_isin(data: Data) -> None:
    x, known = drawn(data, ("int32",), small=True), drawn(data, ("int32",), small=True)
    invert = data.draw(st.booleans())  # An argument of the next version of the standard.
    result = ns.isin(ns.asarray(x), ns.asarray(known), invert=invert)
    np.testing.assert_array_equal(result.numpy(), np.isin(x, known, invert=invert))
    np.testing.assert_array_equal(ns.isin(ns.asarray(x), 2).numpy(), np.isin(x, 2))


# Manipulation


@DRAWN
@given(data=st.data())
def test_shapes_and_orders(data: Data) -> None:
    x = drawn(data, ALL)
    axis = some_axis(data, x.ndim)
    check("flip", x, axis=some_axes(data, x.ndim))
    order = data.draw(st.permutations(range(x.ndim)))
    check("permute_dims", x, tuple(order))
    check("reshape", x, (-1,) if x.size else (0,))
    check("reshape", x, (*x.shape, 1), copy=True)
    check("expand_dims", x, data.draw(st.integers(-x.ndim - 1, x.ndim)))
    check("squeeze", x[None], 0)
    check("roll", x, data.draw(st.integers(-4, 4)), axis=axis)
    check("broadcast_to", x, (2, *x.shape))
    check("tile", x, data.draw(st.lists(st.integers(0, 2), max_size=4).map(tuple)))
    check("repeat", x, 2, axis=axis)
    if x.ndim:
        source, target = some_axis(data, x.ndim, none=False), some_axis(data, x.ndim, none=False)
        check("moveaxis", x, source, target)
        check("unstack", x, axis=source)
        times = np.arange(x.shape[source])
        check("repeat", x, times, axis=source)
        check("roll", x, (1, 2), axis=(source, source))
    if x.ndim > 1:
        check("matrix_transpose", x)
        k = data.draw(st.integers(-3, 3))
        check("tril", x, k=k)
        check("triu", x, k=k)


@DRAWN
@given(data=st.data())
def test_joining(data: Data) -> None:
    x = drawn(data, ALL, VECTORS)
    axis = some_axis(data, x.ndim, none=False)
    check("concat", [x, x[:1], x] if axis in (0, -x.ndim) else [x, x], axis=axis)
    check("concat", [x, x], axis=None)
    check("stack", [x, x], axis=data.draw(st.integers(-x.ndim - 1, x.ndim)))
    check("broadcast_arrays", x, x[:1])
    same(ns.broadcast_shapes((2, 1), (3,)), (2, 3))


@DRAWN
@given(data=st.data())
def test_take_and_take_along_axis(data: Data) -> None:
    x = drawn(data, ALL, AT_LEAST_ONE)
    axis = some_axis(data, x.ndim, none=False)
    places = st.integers(0, x.shape[axis] - 1)
    check("take", x, np.array(data.draw(st.lists(places, max_size=4)), np.int64), axis=axis)
    along = data.draw(hnp.arrays("int64", x.shape, elements=places))
    check("take_along_axis", x, along, axis=axis)


# Linear algebra of the main namespace


@DRAWN
@given(data=st.data())
def test_products(data: Data) -> None:
    dtype = (data.draw(st.sampled_from(NUMERIC)),)
    a, b = drawn(data, dtype, (2, 3, 4), small=True), drawn(data, dtype, (2, 4, 2), small=True)
    check("matmul", a, b)
    check("matmul", a[0], b[0, :, 0])
    check("tensordot", a, b, axes=1) if a.shape[-1] == b.shape[0] else None
    check("tensordot", a, a, axes=data.draw(st.sampled_from([3, ((0, 2), (0, 2)), ((1,), (1,))])))
    check("vecdot", a, a, axis=data.draw(st.sampled_from([-1, -2, -3])))
    check("vecdot", a, a[:1])


def test_vecdot_conjugates_its_first_operand() -> None:
    x = np.array([1 + 2j, 3j])
    check("vecdot", x, x)
    with pytest.raises(BoundsError, match="axis 4"):
        ns.vecdot(ns.asarray(x), ns.asarray(x), axis=4)
    with pytest.raises(ShapeError, match="differ along axis -1"):
        ns.vecdot(ns.asarray(x), ns.asarray(x[:1]))


# Creation


@DRAWN
@given(data=st.data())
def test_creation(data: Data) -> None:
    dtype = data.draw(st.sampled_from(ALL))
    named = data.draw(st.sampled_from([None, np.dtype(dtype)]))
    shape = data.draw(SHAPES)
    check("zeros", shape, dtype=named)
    check("ones", shape, dtype=named)
    check("full", shape, True if dtype == "bool" else 1, dtype=named)
    check("full", shape, data.draw(st.sampled_from([True, 2, 2.5, 1j])))
    x = data.draw(arrays(dtype, shape))
    check("zeros_like", x, dtype=named)
    check("ones_like", x)
    check("full_like", x, True if dtype == "bool" else 1)
    assert ns.empty(shape, dtype=named).shape == ns.empty_like(ns.asarray(x)).shape == shape
    check("asarray", x)
    check("asarray", x, copy=True)
    check("astype", x, np.dtype(dtype), copy=data.draw(st.booleans()))


@DRAWN
@given(data=st.data())
def test_ranges(data: Data) -> None:
    numbers = st.integers(-5, 5)
    start, stop = data.draw(numbers), data.draw(numbers)
    dtype = np.dtype(data.draw(st.sampled_from(("int8", "int64", *REAL_FLOATS))))
    step = data.draw(numbers.filter(bool))
    check("arange", start, stop, step)
    check("arange", start, stop, step, dtype=dtype)
    check("arange", stop)
    check("arange", 0.5, stop, 0.25)
    count = data.draw(st.integers(0, 5))
    check("linspace", start, stop, count, endpoint=data.draw(st.booleans()))
    check("linspace", start, stop, count, dtype=np.dtype(data.draw(st.sampled_from(FLOATS))))
    rows, k = data.draw(st.integers(0, 4)), data.draw(numbers)
    check("eye", rows, k=k)
    check("eye", rows, data.draw(st.integers(0, 4)), k=k, dtype=np.dtype(dtype))
    vectors = [np.arange(float(n)) for n in data.draw(st.lists(st.integers(0, 3), max_size=3))]
    check("meshgrid", *vectors, indexing=data.draw(st.sampled_from(["xy", "ij"])))


# Data types


@pytest.mark.parametrize("first", ALL)
def test_functions_of_dtypes(first: str) -> None:
    dtype = np.dtype(first)
    for other in ALL:
        # Across kinds, the standard leaves it open; nodescope answers as NumPy does.
        assert ns.can_cast(dtype, np.dtype(other)) == np.can_cast(first, other)
        strict_answer = strict.can_cast(getattr(strict, first), getattr(strict, other))
        assert ns.can_cast(dtype, np.dtype(other)) or not strict_answer
        check("isdtype", dtype, np.dtype(other))
        common_dtype = ns.result_type(dtype, np.dtype(other))
        assert common_dtype == np.result_type(first, other)
    for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating",
                 "complex floating", "numeric", ("bool", "integral")):  # fmt: skip
        check("isdtype", dtype, kind)
    limits = check("finfo" if first in FLOATS else "iinfo", dtype) if first != "bool" else None
    assert limits is None or limits.bits > 0


def test_what_ours_refuses() -> None:
    x = ns.asarray([1.0, 2.0])
    for call, error, text in [
        (lambda: ns.zeros(2, device="gpu"), UsageError, "no device 'gpu'"),
        (lambda: ns.zeros(-1), ShapeError, "negative"),
        (lambda: ns.zeros(1.5), ShapeError, "not a shape"),
        (lambda: ns.zeros(2, dtype="float9"), DtypeError, "'float9' is not a dtype"),
        (lambda: ns.asarray(np.ones(2), copy=False), DomainError, "keeps its own"),
        (lambda: ns.asarray(x, dtype="float32", copy=False), DomainError, "converted"),
        (lambda: ns.from_dlpack(np.ones(2), copy=False), DomainError, "keeps its own"),
        (lambda: ns.astype(ns.asarray([1j]), ns.float32), DtypeError, "imaginary"),
        (lambda: ns.arange(0, 1, 0), UsageError, "step must not be 0"),
        (lambda: ns.meshgrid(x, indexing="zz"), UsageError, "unknown indexing"),
        (lambda: ns.meshgrid(x[None]), ShapeError, "expected vectors"),
        (lambda: ns.take(x[None], ns.asarray([0])), ShapeError, "axis is required"),
        (lambda: ns.cumulative_sum(x[None]), ShapeError, "axis is required"),
        (lambda: ns.nonzero(x[0]), ShapeError, "scalar"),
        (lambda: ns.diff(x, n=-1), DomainError, "-1 times"),
        (lambda: ns.tril(x), ShapeError, "not a matrix"),
        (lambda: ns.finfo(ns.int8), DtypeError, "use iinfo"),
        (lambda: ns.iinfo(ns.float32), DtypeError, "use finfo"),
        (lambda: ns.isdtype(ns.int8, "whole"), DtypeError, "not a dtype kind"),
        (lambda: ns.result_type(), DtypeError, "at least one"),
        (lambda: ns.broadcast_shapes((2,), (3,)), ShapeError, "do not broadcast"),
        (lambda: ns.reshape(ns.asarray(np.ones((2, 3))).mT, (6,), copy=False), DomainError,
         "a different order"),
    ]:  # fmt: skip
        with pytest.raises(error, match=text):
            call()


def test_a_tensor_never_shares_memory_with_what_it_was_made_from() -> None:
    data = np.ones(3)
    tensors = [ns.asarray(data), ns.from_dlpack(data), ns.asarray([data])]
    data[:] = 5
    assert all((tensor.numpy() == 1).all() for tensor in tensors)


def test_gradients_flow_through_the_namespace() -> None:
    x = ns.tensor([[3.0, 1.0], [2.0, 2.0]], requires_grad=True)
    y = ns.sum(ns.sort(ns.reshape(ns.tril(x), (4,)), descending=True) * ns.arange(4.0))
    y = y + ns.vecdot(ns.unstack(x)[0], ns.unstack(x)[1]) + ns.sum(ns.unique_values(x))
    y = y + ns.asarray([x[0, 0], 1.0])[0] + ns.sum(ns.full((2,), x[1, 1]))
    y.backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), [[4.0, 3.0], [6.0, 4.0]])


def test_every_function_is_checked() -> None:
    from pathlib import Path

    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    unseen = [name for name in FUNCTIONS if name not in texts]
    assert not unseen
    assert COMPLEX
