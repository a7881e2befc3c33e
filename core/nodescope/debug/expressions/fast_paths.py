"""Fast paths for common predicates in conditions.

``max(value) > 3`` spends most of its time on keeping NumPy from warning. The functions here cannot
warn for arrays of ordinary dtypes, so they run directly; everything else goes through `builtins`,
with warnings suppressed.

Invariant: gives the same results as the functions of `builtins`, in every element and dtype, and
never warns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nodescope.debug.expressions.builtins import FUNCTIONS, Eval, Scene, compared

# NumPy's own real dtypes. Comparing complex numbers warns, and dtypes of other libraries may behave
# in any way.
_ORDINARY: Final = frozenset("?bBhHiIlLqQefdg")
_FLOATS: Final = "efdg"
_Array: Final = np.ndarray
_SCALARS: Final = (int, float, bool)

Compare = Callable[[Any, Any], Any]
Over = Callable[[Eval], Eval]


def hushed(call: Callable[..., Any], *args: Any) -> Any:
    """``call(*args)`` with arithmetic warnings suppressed."""
    with np.errstate(all="ignore"):
        return call(*args)


def _reducing(name: str, reduce: Callable[..., Any]) -> Over:
    function = FUNCTIONS[name][1]

    def over(run: Eval) -> Eval:
        def tested(scene: Scene) -> Any:
            x = run(scene)
            if type(x) is _Array and x.dtype.char in _ORDINARY and x.size:
                return reduce(x, None, None, None, False)
            return hushed(function, x)

        return tested

    return over


def _testing(name: str, ufunc: np.ufunc) -> Over:
    function = FUNCTIONS[name][1]

    def over(run: Eval) -> Eval:
        def tested(scene: Scene) -> Any:
            x = run(scene)
            if type(x) is _Array and x.dtype.char in _ORDINARY:
                return ufunc(x)
            return hushed(function, x)

        return tested

    return over


def _plain(name: str) -> Over:
    function = FUNCTIONS[name][1]
    return lambda run: lambda scene: function(run(scene))


QUIET: Final[dict[str, Over]] = {
    "min": _reducing("min", np.minimum.reduce),
    "max": _reducing("max", np.maximum.reduce),
    "isnan": _testing("isnan", np.isnan),
    "isinf": _testing("isinf", np.isinf),
    "isfinite": _testing("isfinite", np.isfinite),
    "size": _plain("size"),
    "shape": _plain("shape"),
}

# For truth values only: converting a signalling NaN to a truth value warns.
QUIET_OF_TRUTHS: Final[dict[str, Over]] = {
    "any": _reducing("any", np.logical_or.reduce),
    "all": _reducing("all", np.logical_and.reduce),
    "count": _plain("count"),
}


def against(compare: Compare, run: Eval, constant: Any) -> Eval | None:
    """``compare(run(scene), constant)`` for a literal number; None for other constants.

    NumPy converts the literal to the dtype of the other operand at every comparison, with a warning
    if it does not fit. Here it is converted once per dtype.
    """
    if type(constant) not in _SCALARS:
        return None
    # By scalar type, and by the letter of an array's dtype.
    numbers: dict[Any, Any] = dict.fromkeys(_SCALARS, constant)

    def test(scene: Scene) -> Any:
        value = run(scene)
        kind = type(value)
        number = numbers.get(value.dtype.char if kind is _Array else kind)
        if number is not None:
            return compare(value, number)
        if isinstance(value, np.ndarray | np.generic):
            letter = value.dtype.char
            if letter in _ORDINARY and kind in (_Array, value.dtype.type):
                fitting = hushed(value.dtype.type, constant) if letter in _FLOATS else constant
                numbers[letter if kind is _Array else kind] = fitting
                return compare(value, fitting)
        return hushed(compared, compare, value, constant)

    return test
