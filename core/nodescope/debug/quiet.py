"""Short roads of conditions: what is asked at every node, without the ceremony.

``max(value) > 3`` spends most of its time on keeping NumPy from warning. What stands here cannot
warn for arrays of ordinary dtypes, so it runs as it is; everything else takes the road of
`vocabulary`, hushed.

Invariant: gives what the functions of `vocabulary` give, element for element and dtype for dtype,
and never warns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nodescope.debug.vocabulary import FUNCTIONS, Eval, Scene, compared

# Real numbers of NumPy itself. Complex ones warn when they are ordered, and other libraries' types
# do as they like.
_ORDINARY: Final = frozenset("?bBhHiIlLqQefdg")
_FLOATS: Final = "efdg"
_Array: Final = np.ndarray
_SCALARS: Final = (int, float, bool)

Compare = Callable[[Any, Any], Any]
Over = Callable[[Eval], Eval]


def hushed(call: Callable[..., Any], *args: Any) -> Any:
    """``call(*args)``, without warnings of arithmetic."""
    with np.errstate(all="ignore"):
        return call(*args)


def _reducing(name: str, reduce: Callable[..., Any]) -> Over:
    whole = FUNCTIONS[name][1]

    def over(run: Eval) -> Eval:
        def found(scene: Scene) -> Any:
            x = run(scene)
            if type(x) is _Array and x.dtype.char in _ORDINARY and x.size:
                return reduce(x, None, None, None, False)
            return hushed(whole, x)

        return found

    return over


def _testing(name: str, ufunc: np.ufunc) -> Over:
    whole = FUNCTIONS[name][1]

    def over(run: Eval) -> Eval:
        def found(scene: Scene) -> Any:
            x = run(scene)
            if type(x) is _Array and x.dtype.char in _ORDINARY:
                return ufunc(x)
            return hushed(whole, x)

        return found

    return over


def _plain(name: str) -> Over:
    whole = FUNCTIONS[name][1]
    return lambda run: lambda scene: whole(run(scene))


QUIET: Final[dict[str, Over]] = {
    "min": _reducing("min", np.minimum.reduce),
    "max": _reducing("max", np.maximum.reduce),
    "isnan": _testing("isnan", np.isnan),
    "isinf": _testing("isinf", np.isinf),
    "isfinite": _testing("isfinite", np.isfinite),
    "size": _plain("size"),
    "shape": _plain("shape"),
}

# Of truth values only: a signalling NaN warns on its way to a truth value.
QUIET_OF_TRUTHS: Final[dict[str, Over]] = {
    "any": _reducing("any", np.logical_or.reduce),
    "all": _reducing("all", np.logical_and.reduce),
    "count": _plain("count"),
}


def against(compare: Compare, run: Eval, constant: Any) -> Eval | None:
    """``compare(run(scene), constant)`` for a number that was written down; None for others.

    NumPy gives such a number the dtype of what it is compared with, each time anew and with a
    warning if it does not fit. Here that is done once per dtype.
    """
    if type(constant) not in _SCALARS:
        return None
    # By type of a scalar, and by letter of an array's dtype.
    numbers: dict[Any, Any] = dict.fromkeys(_SCALARS, constant)

    def test(scene: Scene) -> Any:
        found = run(scene)
        kind = type(found)
        number = numbers.get(found.dtype.char if kind is _Array else kind)
        if number is not None:
            return compare(found, number)
        if isinstance(found, np.ndarray | np.generic):
            letter = found.dtype.char
            if letter in _ORDINARY and kind in (_Array, found.dtype.type):
                fitting = hushed(found.dtype.type, constant) if letter in _FLOATS else constant
                numbers[letter if kind is _Array else kind] = fitting
                return compare(found, fitting)
        return hushed(compared, compare, found, constant)

    return test
