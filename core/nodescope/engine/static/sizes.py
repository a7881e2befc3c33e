"""Sizes: integers that notice being inspected, and functions for numbers that depend on a size.

Invariant: `fit` returns a function that is right for all sizes that it was fitted to, or raises.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nodescope.ops.op import Array
from nodescope.origins import is_internal

Fitted = Callable[[int], Any]
"""A number (or a nest of numbers) as a function of the size."""


class Unfit(Exception):
    """Why a trace cannot be reused at other sizes."""


class SizeWatch:
    """Notes on the sizes of one trace.

    Attributes:
        noticed: Where the program inspected a size in a way that may change its control flow, or
            ``""``.
    """

    def __init__(self) -> None:
        self.noticed = ""

    def notice(self, event: str) -> None:
        """Note an inspection, if it is made by the program itself."""
        frame = sys._getframe(2)
        file = frame.f_code.co_filename
        if not self.noticed and not is_internal(file):
            self.noticed = f"{event} at {file}:{frame.f_lineno}"


class Size(int):
    """A size that may differ in the next call. Arithmetic on sizes gives sizes."""

    watch: SizeWatch

    def __new__(cls, value: int, watch: SizeWatch) -> Size:
        """A size of this trace."""
        size = super().__new__(cls, value)
        size.watch = watch
        return size

    def __hash__(self) -> int:
        self.watch.notice("it is a key of a dict or set")
        return int.__hash__(self)

    def __bool__(self) -> bool:
        self.watch.notice("it is tested")
        return int(self) != 0


def _comparison(name: str) -> Callable[[Size, Any], Any]:
    plain = getattr(int, name)

    def compared(self: Size, other: Any) -> Any:
        if other.__class__ is Size and other.watch is self.watch and int(self) == int(other):
            return plain(self, other)  # both change alike
        self.watch.notice("it is compared")
        return plain(self, other)

    return compared


def _arithmetic(name: str) -> Callable[..., Any]:
    plain = getattr(int, name)

    def calculated(self: Size, *operands: Any) -> Any:
        result = plain(self, *operands)
        return Size(result, self.watch) if result.__class__ is int else result

    return calculated


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    setattr(Size, _name, _comparison(_name))
for _name in ("add", "sub", "mul", "floordiv", "mod", "pow"):
    setattr(Size, f"__{_name}__", _arithmetic(f"__{_name}__"))
    setattr(Size, f"__r{_name}__", _arithmetic(f"__r{_name}__"))
for _name in ("__neg__", "__abs__", "__pos__"):
    setattr(Size, _name, _arithmetic(_name))


def fit(values: Sequence[Any], sizes: Sequence[int], subject: str) -> Fitted | None:
    """How ``values`` depend on ``sizes``; None if they do not.

    Numbers may be integers ``a n + b``, floats equal to such, ``k / (a n + b)`` with ``k`` 1, 2, a
    half, or their negatives, or ``(m + 1) / m`` and ``(m - 1) / m`` with ``m = a n + b``; anything
    else must be the same for all sizes.

    Raises:
        Unfit: They depend on the size in another way; ``subject`` is part of the reason.
    """
    first = values[0]
    kind = first.__class__
    if isinstance(first, bool | np.bool_) or first is None or isinstance(first, str):
        return _same(values, subject)
    if isinstance(first, int):
        if all(isinstance(value, int) for value in values):
            return _integer([int(value) for value in values], sizes, subject)
        raise Unfit(f"{subject} depends on it")
    if kind is float:
        return _float(values, sizes, subject)
    if isinstance(first, tuple | list | dict | slice):
        return _nest(values, sizes, subject)
    return _same(values, subject)


def _same(values: Sequence[Any], subject: str) -> Fitted | None:
    first = values[0]
    for value in values[1:]:
        if isinstance(first, np.ndarray):
            equal = (
                isinstance(value, np.ndarray)
                and (value.shape, value.dtype) == (first.shape, first.dtype)
                and value.tobytes() == first.tobytes()
            )
        else:
            equal = value.__class__ is first.__class__ and bool(value == first)
        if not equal:
            raise Unfit(f"{subject} depends on it")
    return None


def _integer(values: Sequence[int], sizes: Sequence[int], subject: str) -> Fitted | None:
    if all(value == values[0] for value in values):
        return None
    slope, rest = divmod(values[1] - values[0], sizes[1] - sizes[0])
    start = values[0] - slope * sizes[0]
    if rest or any(slope * n + start != v for n, v in zip(sizes, values, strict=True)):
        raise Unfit(f"{subject} depends on it in a way that is not linear")
    return lambda n: slope * n + start


def _float(values: Sequence[float], sizes: Sequence[int], subject: str) -> Fitted | None:
    if all(value.__class__ is float and repr(value) == repr(values[0]) for value in values):
        return None
    if any(value.__class__ is not float for value in values):
        raise Unfit(f"{subject} depends on it")
    if all(value.is_integer() for value in values):
        whole = _integer([int(value) for value in values], sizes, subject)
        if whole is not None:
            return _floating(whole)
    for k in (1.0, -1.0, 2.0, -2.0, 0.5, -0.5):
        if not all(value and abs(k / value) < 2**52 for value in values):
            continue
        below = [round(k / value) for value in values]
        if any(not n or k / n != value for n, value in zip(below, values, strict=True)):
            continue
        try:
            divisor = _integer(below, sizes, subject)
        except Unfit:
            continue
        if divisor is not None:
            return _quotient(k, divisor)
    for more in (1, -1):  # such as n / (n - 1), the correction of a variance
        near = [round(1.0 / (value - 1.0)) if value != 1.0 else 0 for value in values]
        ones = [more * factor for factor in near]
        if all(n and (n + more) / n == value for n, value in zip(ones, values, strict=True)):
            with contextlib.suppress(Unfit):
                divisor = _integer(ones, sizes, subject)
                if divisor is not None:
                    return _ratio(more, divisor)
    raise Unfit(f"{subject} depends on it in a way that is not known")


def _floating(whole: Fitted) -> Fitted:
    return lambda n: float(whole(n))


def _quotient(k: float, divisor: Fitted) -> Fitted:
    return lambda n: k / divisor(n)


def _ratio(more: int, divisor: Fitted) -> Fitted:
    return lambda n: (divisor(n) + more) / divisor(n)


def fit_array(values: Sequence[Array], sizes: Sequence[int], subject: str) -> Fitted | None:
    """`fit` for arrays: constant, filled with one number, or counting from 0.

    Raises:
        Unfit: They depend on the size in another way.
    """
    first = values[0]
    shapes = fit([value.shape for value in values], sizes, subject)
    if shapes is None:
        return _same(values, subject)
    if all(value.dtype == first.dtype and value.size for value in values):
        dtype, element = first.dtype, first.flat[0]
        if all(
            value.tobytes() == np.full(value.shape, element, dtype).tobytes() for value in values
        ):
            return lambda n: np.full(shapes(n), element, dtype)
        if first.ndim == 1 and all(_counts(value) for value in values):
            return lambda n: np.arange(shapes(n)[0], dtype=dtype)
    raise Unfit(f"{subject} depends on it")


def _counts(array: Array) -> bool:
    return array.tobytes() == np.arange(len(array), dtype=array.dtype).tobytes()


def _nest(values: Sequence[Any], sizes: Sequence[int], subject: str) -> Fitted | None:
    first = values[0]
    kind: Any = first.__class__
    if any(value.__class__ is not kind for value in values):
        raise Unfit(f"{subject} depends on it")
    if kind is slice:
        ends = fit([(v.start, v.stop, v.step) for v in values], sizes, subject)
        return None if ends is None else lambda n: slice(*ends(n))
    if isinstance(first, dict):
        keys = list(first)
        if any(list(value) != keys for value in values):
            raise Unfit(f"{subject} depends on it")
        inner = fit([tuple(value.values()) for value in values], sizes, subject)
        return None if inner is None else lambda n: kind(zip(keys, inner(n), strict=True))
    if any(len(value) != len(first) for value in values):
        raise Unfit(f"{subject} depends on it")
    parts = [fit(column, sizes, subject) for column in zip(*values, strict=True)]
    if all(part is None for part in parts):
        return None
    still = tuple(first)

    def nest(n: int) -> Any:
        items = [old if part is None else part(n) for old, part in zip(still, parts, strict=True)]
        return kind(*items) if hasattr(kind, "_fields") else kind(items)

    return nest
