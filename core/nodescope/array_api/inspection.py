"""Introspection of the namespace's capabilities.

Invariant: claims nothing that another section does not implement.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.array_api import dtypes as _dtypes
from nodescope.array_api.base import DEVICE, check_device


class __array_namespace_info__:
    """The standard's inspection object."""

    def capabilities(self) -> dict[str, Any]:
        """The standard's optional features that are supported."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 64,
        }

    def default_device(self) -> str:
        """The default device."""
        return DEVICE

    def devices(self) -> list[str]:
        """All devices."""
        return [DEVICE]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, np.dtype[Any]]:
        """The default dtypes of functions without ``dtype``: NumPy's."""
        check_device("default_dtypes", device)
        return {
            "real floating": _dtypes.float64,
            "complex floating": _dtypes.complex128,
            "integral": np.dtype(np.int_),
            "indexing": np.dtype(np.intp),
        }

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes, all or of a kind; float16 and bfloat16 are not among them."""
        check_device("dtypes", device)
        all_dtypes = {name: getattr(_dtypes, name) for name in ("bool", *_dtypes.NUMERIC)}
        if kind is None:
            return all_dtypes
        return {name: dtype for name, dtype in all_dtypes.items() if _dtypes.isdtype(dtype, kind)}
