"""Names of dtypes, cached, because NumPy builds a dtype's name at each access.

Invariant: a name depends on the dtype alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_names: dict[np.dtype[Any], str] = {}


def name_of(dtype: np.dtype[Any]) -> str:
    """``dtype.name``, as in `TensorSpec.dtype`."""
    name = _names.get(dtype)
    if name is None:
        name = _names[dtype] = dtype.name
    return name
