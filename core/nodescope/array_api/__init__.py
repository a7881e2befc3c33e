"""The names of the Python array API standard, 2024.12, which the module `nodescope` implements.

There is one file per section of the standard. Where a NumPy function means the same, the function
here only fixes the signature and calls NumPy's; the dispatch of `nodescope.engine` does the rest.
The extensions are `nodescope.linalg` and `nodescope.fft`.

Invariant: results are tensors, and every function that NumPy would run on floats is traced and
differentiated like NumPy's. A section is loaded when one of its names is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

VERSION = "2024.12"

_SECTIONS = {
    "constants": "e inf nan newaxis pi",
    "creation": """
        arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones
        ones_like tril triu zeros zeros_like
    """,
    "dtypes": """
        astype bool can_cast complex128 complex64 finfo float16 float32 float64 iinfo int16 int32
        int64 int8 isdtype result_type uint16 uint32 uint64 uint8
    """,
    "elementwise": """
        abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift
        bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp
        expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less
        less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor
        maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder
        round sign signbit sin sinh sqrt square subtract tan tanh trunc
    """,
    "indexing": "take take_along_axis",
    "inspection": "__array_namespace_info__",
    "linear": "matmul matrix_transpose tensordot vecdot",
    "manipulation": """
        broadcast_arrays broadcast_shapes broadcast_to concat expand_dims flip moveaxis permute_dims
        repeat reshape roll squeeze stack tile unstack
    """,
    "searching": "argmax argmin count_nonzero nonzero searchsorted where",
    "sets": "isin unique_all unique_counts unique_inverse unique_values",
    "sorting": "argsort sort",
    "statistical": "cumulative_prod cumulative_sum max mean min prod std sum var",
    "utility": "all any diff",
}

NAMES = {name: section for section, names in _SECTIONS.items() for name in names.split()}
"""Every name of the standard, and the section that contains it."""


def find(name: str) -> Any:
    """The object for a name of the standard, or bfloat16. Raises `KeyError` for other names."""
    if name == "bfloat16":  # not a name of the standard; its library takes time to load
        from nodescope.ir.dtypes import bfloat16

        return bfloat16()
    return getattr(importlib.import_module(f"{__name__}.{NAMES[name]}"), name)
