"""Dtype objects, and functions of dtypes.

Promotion follows NumPy 2: mixed kinds promote where the standard leaves it open, and Python scalars
are weak. bfloat16 and float16 are supported besides the standard's types.

Invariant: dtype objects are NumPy's, so they compare and hash as ``x.dtype`` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nodescope.array_api.base import check_device, dtype_of
from nodescope.engine.numpy_functions.base import tensor_of
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import DtypeError
from nodescope.ir.dtypes import BFLOAT16
from nodescope.ops import lowprecision

NUMERIC = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
    "float64", "complex64", "complex128",
)  # fmt: skip


bool = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{bits}") for bits in (16, 32, 64))
complex64, complex128 = np.dtype(np.complex64), np.dtype(np.complex128)


@dataclass(frozen=True)
class FloatInfo:
    """The limits of a floating-point dtype; for a complex one, those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class IntegerInfo:
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: np.dtype[Any]


def _dtype(value: Any) -> np.dtype[Any]:
    if isinstance(value, Tensor):
        array_dtype: np.dtype[Any] = value.dtype
        return array_dtype
    dtype = dtype_of(value)
    if dtype is None:
        raise DtypeError("None is not a dtype", source=where())
    return dtype


def astype(x: Tensor, dtype: Any, /, *, copy: Any = True, device: str | None = None) -> Tensor:
    """The elements in another dtype.

    Raises:
        DtypeError: Complex numbers would lose their imaginary parts.
    """
    check_device("astype", device)
    target = _dtype(dtype)
    tensor = tensor_of(x)
    if tensor.dtype.kind == "c" and target.kind not in "cb":
        raise DtypeError(
            f"astype: {tensor.dtype} to {target} would drop the imaginary part",
            source=where(),
            hint="take nodescope.real(x) first",
        )
    return tensor.astype(target, copy=copy)


def can_cast(from_: Any, to: Any, /) -> Any:
    """Whether every value of one dtype is a value of the other, by NumPy's rules."""
    return np.can_cast(_dtype(from_), _dtype(to))


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating-point or complex dtype. Raises `DtypeError` for others."""
    dtype = _dtype(type)
    if dtype.kind not in "fcV":
        raise DtypeError(f"finfo: {dtype} is not floating point", source=where(), hint="use iinfo")
    if lowprecision.low(dtype):
        import ml_dtypes

        info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    else:
        info = np.finfo(dtype)
    return FloatInfo(
        bits=int(info.bits),
        eps=float(info.eps),
        max=float(info.max),
        min=float(info.min),
        smallest_normal=float(info.smallest_normal),
        dtype=np.dtype(info.dtype),
    )


def iinfo(type: Any, /) -> IntegerInfo:
    """The limits of an integer dtype. Raises `DtypeError` for others."""
    dtype = _dtype(type)
    if dtype.kind not in "iu":
        raise DtypeError(
            f"iinfo: {dtype} is not an integer dtype", source=where(), hint="use finfo"
        )
    info = np.iinfo(dtype)
    return IntegerInfo(int(info.bits), int(info.max), int(info.min), dtype)


_KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
    "real floating": "fV", "complex floating": "c", "numeric": "iufcV",
}  # fmt: skip
_NAMES = {"bool", *NUMERIC, "float16", BFLOAT16}


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether a dtype is of a kind: the standard's name of a kind, a dtype, or a tuple of them.

    Raises:
        DtypeError: The kind does not exist.
    """
    candidate = _dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(candidate, kind_) for kind_ in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return candidate.kind in _KINDS[kind]
    if isinstance(kind, str) and kind not in _NAMES:
        raise DtypeError(
            f"isdtype: {kind!r} is not a dtype kind", source=where(), hint=", ".join(_KINDS)
        )
    return candidate == _dtype(kind)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype that tensors, dtypes and Python scalars promote to, by NumPy 2's rules."""
    if not arrays_and_dtypes:
        raise DtypeError("result_type: needs at least one array or dtype", source=where())
    scalars = (int, float, complex)  # bool is an int
    return lowprecision.promote(
        *(
            operand if isinstance(operand, scalars) else _dtype(operand)
            for operand in arrays_and_dtypes
        )
    )
