"""Sizes of values in memory, from their specs."""

from __future__ import annotations

import math
from typing import Final

from nodescope.errors import DtypeError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import OpaqueSpec, Spec

_BITS: Final = {"bool": 8, "complex32": 32, "float8_e4m3fn": 8, "float8_e5m2": 8}


def nbytes_of(spec: Spec) -> int | None:
    """The bytes of a value's elements; None if a size or the dtype is not known."""
    if isinstance(spec, OpaqueSpec):
        return spec.nbytes
    sizes, item = [size for size in spec.shape if size is not None], _itemsize(spec.dtype)
    known = item is not None and len(sizes) == len(spec.shape)
    return math.prod(sizes) * (item or 0) if known else None


def _itemsize(dtype: str) -> int | None:
    try:
        return as_dtype(dtype).itemsize
    except DtypeError:
        bits = _BITS.get(dtype)
        return None if bits is None else bits // 8
