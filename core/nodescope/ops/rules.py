"""Building blocks of vjp rules: undoing the effects of broadcasting and reducing on shapes.

Invariant: written in ops of ``F`` only, so that they work on arrays and on traced tensors alike.
"""

from __future__ import annotations

from typing import Any

from nodescope.ops.shapes import Axis, axes


def unbroadcast(F: Any, ct: Any, like: Any) -> Any:
    """Sum ``ct`` over the dimensions along which ``like`` was broadcast."""
    shape, wide = like.shape, ct.shape
    if wide == shape:
        return ct
    extra = len(wide) - len(shape)
    stretched = tuple(range(extra))
    if 1 in shape:
        stretched += tuple([i for i, n in enumerate(shape, extra) if n == 1 and wide[i] != 1])
    if len(stretched) == extra:
        return F.sum(ct, axis=stretched, keepdims=False)
    ct = F.sum(ct, axis=stretched, keepdims=True)
    return F.reshape(ct, shape=shape) if extra else ct


def restore(F: Any, ct: Any, shape: tuple[int, ...], axis: Axis, keepdims: bool) -> Any:
    """Give ``ct`` back the reduced dimensions as size 1, so that it broadcasts to ``shape``."""
    if keepdims or ct.ndim == len(shape):
        return ct
    reduced_axes = axes("reduction", axis, len(shape))
    if len(reduced_axes) == 1:
        (place,) = reduced_axes
        return F.reshape(ct, shape=(*shape[:place], 1, *shape[place + 1 :]))
    return F.reshape(ct, shape=tuple(1 if i in reduced_axes else n for i, n in enumerate(shape)))


def backwards(F: Any, scan: Any, x: Any) -> Any:
    """A scan over the last axis in reverse."""
    return F.flip(scan(F, F.flip(x, axis=-1)), axis=-1)


def last(start: int | None, stop: int | None) -> tuple[Any, ...]:
    """The index of a part of the last axis."""
    return (..., slice(start, stop))


def products_before(F: Any, x: Any) -> Any:
    """The product of all preceding elements along the last axis; 1 for the first."""
    first = F.ones_like(F.getitem(x, index=last(None, 1)))
    before = F.getitem(x, index=last(None, -1))
    return F.cumprod(F.concatenate(first, before, axis=-1), axis=-1)


def zeros(F: Any, ct: Any, out: Any, x: Any, *rest: Any, **attrs: Any) -> Any:
    """The rule of step functions: zero wherever the derivative exists."""
    return F.zeros_like(x)


def same(F: Any, ct: Any, out: Any, *inputs: Any, **attrs: Any) -> Any:
    """The rule of sums: the cotangent itself. The tape recognises it and skips the call."""
    return ct


def times_right(F: Any, ct: Any, out: Any, left: Any, right: Any) -> Any:
    """The rule of a product's left operand. The tape recognises it, like `same`."""
    return F.multiply(ct, right)


def times_left(F: Any, ct: Any, out: Any, left: Any, right: Any) -> Any:
    """The rule of a product's right operand. The tape recognises it, like `same`."""
    return F.multiply(ct, left)
