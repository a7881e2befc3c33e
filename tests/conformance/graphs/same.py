"""Whether results are the same, to the bit.

Invariant: dtype, shape and every bit count, zeros' signs included; only what bits a NaN has does
not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.conformance.graphs.making import Case


class Differs(AssertionError):
    """A compiled graph does not do what the traced one does."""


def _bits(x: Any) -> Any:
    """Numbers that are equal where the bits are, apart from those of NaN."""
    if x.dtype.kind == "c":
        return _bits(np.ascontiguousarray(x).reshape(-1).view(x.real.dtype))
    if x.dtype.kind != "f":
        return x
    flat = np.ascontiguousarray(x)
    integers = flat.view(f"i{x.dtype.itemsize}")
    return np.where(np.isnan(flat), -1, integers)  # -1 is a NaN, too


def difference(found: Any, expected: Any) -> str:
    """How two arrays differ, or ``""``."""
    if not isinstance(found, np.ndarray):
        return f"{type(found).__name__} in place of an array"
    if found.dtype != expected.dtype:
        return f"dtype {found.dtype}, not {expected.dtype}"
    if found.shape != expected.shape:
        return f"shape {found.shape}, not {expected.shape}"
    if np.array_equal(_bits(found), _bits(expected)):
        return ""
    return f"{found!r}\nin place of\n{expected!r}"


def check_same(found: Sequence[Any], expected: Sequence[Any], what: str, case: Case) -> None:
    """Raises `Differs`."""
    if len(found) != len(expected):
        raise Differs(f"{what}: {len(found)} results, not {len(expected)}\n{case}")
    for position, (one, other) in enumerate(zip(found, expected, strict=True)):
        said = difference(one, other)
        if said:
            raise Differs(f"{what}, result {position}: {said}\n{case}")
