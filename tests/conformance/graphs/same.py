"""Whether results are bit-identical.

Invariant: dtype, shape and every bit count, including the signs of zeros; only the bits of a NaN do
not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nodescope.engine.crosscheck.values import same
from tests.conformance.graphs.making import Case


class Differs(AssertionError):
    """A compiled graph behaves differently from the traced one."""


def difference(result: Any, expected: Any) -> str:
    """How two arrays differ, or ``""``."""
    if not isinstance(result, np.ndarray):
        return f"{type(result).__name__} in place of an array"
    if result.dtype != expected.dtype:
        return f"dtype {result.dtype}, not {expected.dtype}"
    if result.shape != expected.shape:
        return f"shape {result.shape}, not {expected.shape}"
    if same(result, expected):
        return ""
    return f"{result!r}\nin place of\n{expected!r}"


def check_same(result: Sequence[Any], expected: Sequence[Any], claim: str, case: Case) -> None:
    """Raise `Differs` if they differ."""
    if len(result) != len(expected):
        raise Differs(f"{claim}: {len(result)} results, not {len(expected)}\n{case}")
    for position, (first, other) in enumerate(zip(result, expected, strict=True)):
        message = difference(first, other)
        if message:
            raise Differs(f"{claim}, result {position}: {message}\n{case}")
