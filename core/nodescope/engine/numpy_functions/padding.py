"""``np.pad`` in all of NumPy's named modes.

Invariant: axes are padded one after the other, so that corners are the same as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodescope.engine.numpy_functions.base import (
    Table,
    along,
    call,
    concrete,
    shape_error,
    tensor_of,
    unsupported,
)
from nodescope.engine.numpy_functions.base import (
    xp as np,
)
from nodescope.engine.numpy_functions.ranges import linspace
from nodescope.engine.tensor import Tensor

_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median,
}  # fmt: skip
_PLACES = ("edge", "reflect", "symmetric", "wrap")
_MODES = ("constant", "empty", "linear_ramp", *_PLACES, *_STATISTICS)


def _full_pairs(width: Any, ndim: int) -> tuple[tuple[int, int], ...]:
    if isinstance(width, dict):
        pairs = [(0, 0)] * ndim
        for axis, pair in width.items():
            pairs[axis] = tuple(np.broadcast_to(pair, 2).tolist())
        return tuple(pairs)
    widths = np.broadcast_to(concrete(width, "np.pad: pad_width"), (ndim, 2))
    return tuple((int(before), int(after)) for before, after in widths)


def pad(array: Any, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Tensor:
    """``np.pad``; ``mode`` is one of NumPy's names, not a function."""
    x = tensor_of(array)
    widths = _full_pairs(pad_width, x.ndim)
    if mode in ("constant", "empty"):
        return _constant(x, widths, kwargs)
    if mode == "linear_ramp":
        ends = _pairs(kwargs.pop("end_values", 0), "end_values", x.ndim)
        return _by_axis(x, widths, kwargs, lambda part, axis: _ramps(part, axis, widths, ends))
    if mode in _STATISTICS:
        lengths = _pairs(kwargs.pop("stat_length", None), "stat_length", x.ndim)
        choose = _STATISTICS[mode]
        return _by_axis(
            x, widths, kwargs, lambda part, axis: _statistics(part, axis, choose, lengths)
        )
    if mode in ("reflect", "symmetric") and kwargs.pop("reflect_type", "even") == "odd":
        return _by_axis(x, widths, kwargs, lambda part, axis: _odd(part, axis, widths, mode))
    if mode not in _PLACES:
        raise unsupported(
            f"np.pad: mode={mode!r} is not traced", f"use one of {', '.join(map(repr, _MODES))}"
        )
    _none_left(kwargs)
    for axis, pair in enumerate(widths):
        if pair != (0, 0):
            places: Any = np.pad(np.arange(_filled(x, axis)), pair, mode=mode)
            x = along(x, axis, places)
    return x


def _constant(x: Tensor, widths: tuple[tuple[int, int], ...], kwargs: dict[str, Any]) -> Tensor:
    values = np.broadcast_to(
        concrete(kwargs.pop("constant_values", 0), "np.pad: constant_values"), (x.ndim, 2)
    )
    _none_left(kwargs)
    if not values.size or (values == values.flat[0]).all():
        value = values.flat[0].item() if values.size else 0
        return call("pad", x, widths=widths, value=value)  # type: ignore[no-any-return]
    for axis, pair in enumerate(widths):
        for side in (0, 1):
            one_side = [(0, 0)] * x.ndim
            one_side[axis] = (pair[0], 0) if side == 0 else (0, pair[1])
            x = call("pad", x, widths=tuple(one_side), value=values[axis, side].item())
    return x


def _filled(x: Tensor, axis: int) -> int:
    if not x.shape[axis]:
        raise shape_error(
            f"np.pad: axis {axis} is empty, so there is nothing to pad with",
            "use mode='constant'",
        )
    return x.shape[axis]


def _pairs(value: Any, name: str, ndim: int) -> Any:
    return np.broadcast_to(np.asarray(value, object), (ndim, 2)) if value is not None else None


Ends = Callable[[Tensor, int], tuple[Tensor, Tensor]]


def _by_axis(
    x: Tensor, widths: tuple[tuple[int, int], ...], kwargs: dict[str, Any], ends: Ends
) -> Tensor:
    """The array padded along each axis with the results of ``ends``, broadcast to the width."""
    _none_left(kwargs)
    for axis, pair in enumerate(widths):
        if pair == (0, 0):
            continue
        _filled(x, axis)
        parts = [x]
        for side, (end, width) in enumerate(zip(ends(x, axis), pair, strict=True)):
            wide = end
            if end.shape[axis] != width:
                shape = (*x.shape[:axis], width, *x.shape[axis + 1 :])
                wide = call("broadcast_to", end, shape=shape)
            parts.insert(0 if side == 0 else 2, wide)
        x = np.concatenate(parts, axis=axis)
    return x


def _ramps(
    x: Tensor, axis: int, widths: tuple[tuple[int, int], ...], ends: Any
) -> tuple[Tensor, Tensor]:
    ramps = []
    for side, edge in ((0, 0), (1, x.shape[axis] - 1)):
        start = tensor_of(np.asarray(ends[axis, side], x.dtype))
        stop, width = along(x, axis, edge), widths[axis][side]
        ramp = linspace(start, stop, width, endpoint=False, dtype=x.dtype, axis=axis)
        ramps.append(ramp if side == 0 else np.flip(ramp, axis))
    return ramps[0], ramps[1]


def _statistics(x: Tensor, axis: int, choose: Any, lengths: Any) -> tuple[Tensor, Tensor]:
    fills = []
    for side in (0, 1):
        size = x.shape[axis]
        length = size if lengths is None or lengths[axis, side] is None else lengths[axis, side]
        length = min(int(length), size)
        if length < 1:
            raise shape_error(
                "np.pad: stat_length must be at least 1", "omit it to use all elements"
            )
        part = along(x, axis, slice(0, length) if side == 0 else slice(size - length, size))
        value = choose(part, axis=axis, keepdims=True)
        if x.dtype.kind in "iu" and value.dtype.kind == "f":
            value = np.round(value)
        fills.append(value.astype(x.dtype, copy=False))
    return fills[0], fills[1]


def _odd(
    x: Tensor, axis: int, widths: tuple[tuple[int, int], ...], mode: str
) -> tuple[Tensor, Tensor]:
    """The ends for odd reflection: mirrored at the edge element, in value and in position."""
    size, skip = x.shape[axis], int(mode == "reflect")
    if max(widths[axis]) > size - skip:
        raise unsupported(
            f"np.pad: reflect_type='odd' by {max(widths[axis])} of {size} elements is not traced",
            "pad in several steps",
        )
    before = along(x, axis, slice(skip, skip + widths[axis][0]))
    after = along(x, axis, slice(size - skip - widths[axis][1], size - skip))
    first, last = along(x, axis, slice(0, 1)), along(x, axis, slice(size - 1, size))
    ends = 2 * first - np.flip(before, axis), 2 * last - np.flip(after, axis)
    return ends[0].astype(x.dtype, copy=False), ends[1].astype(x.dtype, copy=False)


def _none_left(kwargs: dict[str, Any]) -> None:
    if kwargs:
        raise unsupported(
            f"np.pad: the argument {next(iter(kwargs))}= is not for this mode", "omit it"
        )


NUMPY: Table = {np.pad: pad}
