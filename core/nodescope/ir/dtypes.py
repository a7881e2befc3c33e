"""Dtypes by name, including bfloat16.

Invariant: ml_dtypes, which provides bfloat16, is imported when first needed.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nodescope.errors import DtypeError

BFLOAT16: Final = "bfloat16"


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """The result of ``np.dtype``, and bfloat16 by name even if ml_dtypes has not been imported.

    Raises:
        DtypeError: It does not name a dtype.
    """
    if isinstance(dtype, str) and dtype == BFLOAT16:
        return bfloat16()
    try:
        known: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        raise DtypeError(
            f"{dtype!r} is not a dtype", hint='such as "float32", np.int64 or nodescope.bfloat16'
        ) from None
    return known


def bfloat16() -> np.dtype[Any]:
    """The dtype. The first call imports ml_dtypes, which takes some milliseconds."""
    import ml_dtypes

    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype
