"""bfloat16: its promotion, and ops that compute in float32 and round once.

Ufuncs have their own bfloat16 loops (registered by ml_dtypes), and layouts only move elements. Ops
that add up, divide by a sum, or mix in constants run here on float32 copies instead: NumPy would
round after every addition, so that a sum of ones would stop at 256.

Invariant: a call without bfloat16 inputs runs the op's own ``impl`` and ``infer``, unchanged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.ir.dtypes import BFLOAT16, as_dtype, bfloat16
from nodescope.ir.graph import TensorSpec
from nodescope.ops.op import Array, Infer, Op, Operand

_FLOAT32 = np.dtype(np.float32)
# Dtypes of other libraries are numbered from here on, in order of appearance.
_FIRST_FOREIGN = 256

_FAMILIES = {"activation", "loss", "matmul", "norm", "reduction"}
_Narrows = Callable[[tuple[Any, ...], dict[str, Any]], bool]
_PROMOTING = {"clip", "where", "concatenate", "stack", "einsum"}
_OPS = {
    "sinc",  # composed of several ufuncs and constants
    "index_add", "add_along_axis", "embedding_grad",  # these sum up
    *_PROMOTING,
}  # fmt: skip


class Reduce:
    """The computation of `numpy.sum` and others, without their Python overhead, which takes as long
    as a small sum.
    """

    def __init__(self, ufunc: np.ufunc, dtype: Any = None) -> None:
        self.reduce: Any = ufunc.reduce
        self.dtype = dtype

    def __call__(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        """The reduced array."""
        return self.reduce(x, axis, self.dtype, None, keepdims)


def foreign(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is neither NumPy's nor bfloat16, such as the 8-bit floats of ml_dtypes."""
    return dtype.num >= _FIRST_FOREIGN and dtype.name != BFLOAT16


def low(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is bfloat16."""
    return dtype.kind == "V" and dtype.name == BFLOAT16


def promote(*dtypes: Any) -> np.dtype[Any]:
    """``np.result_type`` of dtypes and Python scalars, possibly including bfloat16.

    With float16 and 16-bit integers, bfloat16 promotes to float32, with larger integers to float64,
    as in the ufuncs; a Python float is weak, as with float16.
    """
    kinds = [np.dtype(item.dtype) if hasattr(item, "dtype") else item for item in dtypes]
    if not any(isinstance(kind, np.dtype) and low(kind) for kind in kinds):
        return np.result_type(*kinds)
    strong = [kind for kind in kinds if isinstance(kind, np.dtype)]
    # With any dtype but itself, bool and bytes, bfloat16 behaves like float32.
    narrow = all(low(dtype) or dtype.kind == "b" or dtype.itemsize == 1 for dtype in strong)
    if narrow:
        weak_complex = any(isinstance(kind, complex) for kind in kinds)
        return np.dtype(np.complex64) if weak_complex else next(filter(low, strong))
    wide = [_FLOAT32 if isinstance(kind, np.dtype) and low(kind) else kind for kind in kinds]
    return np.result_type(*wide)


def admitting(op: Op) -> Op:
    """The op as registered: extended to accept bfloat16."""
    narrows = _promotes if op.name in _PROMOTING else _stands_for
    if op.name in ("matmul", "vecdot", "matvec", "vecmat"):
        impl = _matmul(op.impl)
    elif isinstance(op.impl, np.ufunc):
        return op
    elif op.family in _FAMILIES or op.name in _OPS:
        impl = _widened(op.impl, narrows)
    else:
        return op
    return dataclasses.replace(op, impl=impl, infer=_narrowing(op.infer, narrows))


def _matmul(matmul: Callable[..., Any]) -> Callable[..., Any]:
    """A product of bfloat16 matrices: NumPy returns float32, which only has to be rounded."""

    def impl(a: Array, b: Array) -> Any:
        out = matmul(a, b)
        if a.dtype.kind == "V" and b.dtype.kind == "V":
            return out.astype(a.dtype)
        return out

    return _with_plain(impl, matmul)


def _with_plain(impl: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    """An impl that says what it calls when no input is bfloat16; the native core asks for it."""
    impl.plain = plain
    return impl  # type: ignore[no-any-return]


def _widened(plain: Callable[..., Any], narrows: _Narrows) -> Callable[..., Any]:
    kind = np.ndarray

    def impl(*inputs: Any, **attrs: Any) -> Any:
        for operand in inputs:
            if operand.__class__ is kind:
                dtype = operand.dtype
                if dtype.num >= _FIRST_FOREIGN and low(dtype):
                    return _rounded(plain, narrows, inputs, attrs)
        return plain(*inputs, **attrs)

    if not isinstance(plain, Reduce):
        return _with_plain(impl, plain)
    reduce, dtype = plain.reduce, plain.dtype

    def reduced(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if x.__class__ is kind and x.dtype.num >= _FIRST_FOREIGN:
            return impl(x, axis=axis, keepdims=keepdims)
        return reduce(x, axis, dtype, None, keepdims)

    return _with_plain(reduced, plain)


def _rounded(
    plain: Callable[..., Any], narrows: _Narrows, inputs: tuple[Any, ...], attrs: dict[str, Any]
) -> Any:
    result = plain(*(_wide(operand) for operand in inputs), **_wide_attrs(attrs))
    if not narrows(tuple(getattr(operand, "dtype", operand) for operand in inputs), attrs):
        return result
    dtype = bfloat16()
    if isinstance(result, tuple):
        return tuple(_narrow(array, dtype) for array in result)
    return _narrow(result, dtype)


def _wide(value: Any) -> Any:
    if isinstance(value, np.ndarray) and low(value.dtype):
        return value.astype(_FLOAT32)
    return value


def _wide_attrs(attrs: dict[str, Any]) -> dict[str, Any]:
    if attrs.get("dtype") == BFLOAT16:
        return {**attrs, "dtype": "float32"}
    return attrs


def _narrow(value: Any, dtype: np.dtype[Any]) -> Any:
    array = np.asarray(value)
    return array.astype(dtype) if array.dtype == _FLOAT32 else array


def _stands_for(operands: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    """Whether float32 results stand for bfloat16: no other float was among the operands."""
    if attrs.get("dtype") is not None:
        return bool(attrs["dtype"] == BFLOAT16)
    # Integers beside floats are labels and indices here, not operands that promote.
    return not any(isinstance(operand, np.dtype) and operand.kind in "fc" for operand in operands)


def _promotes(operands: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    """The same for ops whose result has the common dtype of all operands."""
    return low(promote(*operands))


def _narrowing(plain: Infer, narrows: _Narrows) -> Infer:
    def infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> Any:
        if not any(isinstance(spec, TensorSpec) and spec.dtype == BFLOAT16 for spec in specs):
            return plain(specs, attrs)
        wide = tuple(
            TensorSpec(spec.shape, "float32")
            if isinstance(spec, TensorSpec) and spec.dtype == BFLOAT16
            else spec
            for spec in specs
        )
        result = plain(wide, _wide_attrs(attrs))
        operands = tuple(
            as_dtype(spec.dtype) if isinstance(spec, TensorSpec) else spec for spec in specs
        )
        if not narrows(operands, attrs):
            return result
        if isinstance(result, tuple):
            return tuple(map(_narrow_spec, result))
        return _narrow_spec(result)

    return infer


def _narrow_spec(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(spec.shape, BFLOAT16) if spec.dtype == "float32" else spec
