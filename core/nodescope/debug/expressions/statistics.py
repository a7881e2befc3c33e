"""Functions of conditions on unfetched arrays, from shapes or statistics.

Invariant: gives exactly the results of the functions of `builtins`, and fetches the elements where
statistics do not suffice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nodescope.arrays.lazy import LazyArray
from nodescope.debug.expressions.builtins import FUNCTIONS

Reduce = Callable[[LazyArray], Any]

# float64, the dtype of statistics, represents every number of these.
_EXACT: Final = "?bBhHiIefd"


def _extreme(name: str) -> Reduce:
    function = FUNCTIONS[name][1]

    def reduce(array: LazyArray) -> Any:
        summary = array.statistics() if array.size and array.dtype.char in _EXACT else None
        if summary is None or summary.inf_count:
            return function(array.whole())
        number = float("nan") if summary.nan_count else getattr(summary, name)
        return array.dtype.type(number)

    return reduce


def _counting(name: str, test: str) -> Reduce:
    outer, inner = FUNCTIONS[name][1], FUNCTIONS[test][1]

    def reduce(array: LazyArray) -> Any:
        summary = array.statistics() if array.dtype.char in _EXACT else None
        if summary is None:
            return outer(inner(array.whole()))
        counts = {"isnan": summary.nan_count, "isinf": summary.inf_count}
        counts["isfinite"] = array.size - sum(counts.values())
        count = counts[test]
        if name == "count":
            return count
        return np.bool_(count > 0 if name == "any" else count == array.size)

    return reduce


OF_ARRAY: Final[dict[str, Reduce]] = {
    "shape": lambda array: array.shape,
    "size": lambda array: array.size,
    "min": _extreme("min"),
    "max": _extreme("max"),
}
"""Functions of an array."""
TESTS: Final = ("isnan", "isinf", "isfinite")
OF_TEST: Final[dict[tuple[str, str], Reduce]] = {
    (name, test): _counting(name, test) for name in ("any", "all", "count") for test in TESTS
}
"""Functions of a test on an array, as in ``any(isnan(value))``."""
