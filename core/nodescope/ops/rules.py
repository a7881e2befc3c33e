"""Pieces of vjp rules: undoing what broadcasting and reducing did to a shape.

Invariant: written in ops of ``F`` only, so that they work on arrays and on traced tensors alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodescope.ops.op import Rule
from nodescope.ops.shapes import Axis, axes


def unbroadcast(F: Any, ct: Any, like: Any) -> Any:
    """Sum ``ct`` over the dimensions along which ``like`` was broadcast."""
    shape = like.shape
    if ct.shape == shape:
        return ct
    extra = ct.ndim - len(shape)
    stretched = tuple(range(extra)) + tuple(
        i + extra for i, n in enumerate(shape) if n == 1 and ct.shape[i + extra] != 1
    )
    if len(stretched) == extra:
        return F.sum(ct, axis=stretched, keepdims=False)
    ct = F.sum(ct, axis=stretched, keepdims=True)
    return F.reshape(ct, shape=shape) if extra else ct


def restore(F: Any, ct: Any, shape: tuple[int, ...], axis: Axis, keepdims: bool) -> Any:
    """Give ``ct`` back the reduced dimensions as size 1, so that it broadcasts to ``shape``."""
    if keepdims or ct.ndim == len(shape):
        return ct
    gone = axes("reduction", axis, len(shape))
    return F.reshape(ct, shape=tuple(1 if i in gone else n for i, n in enumerate(shape)))


def zeros(F: Any, ct: Any, out: Any, x: Any, *rest: Any, **attrs: Any) -> Any:
    """The rule of steps: flat wherever the derivative exists."""
    return F.zeros_like(x)


def first(rule: Callable[[Any, Any, Any, Any, Any], Any]) -> Rule:
    """Rule of the left operand of a broadcasting binary op."""

    def apply(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
        ct = rule(F, ct, out, a, b)
        return ct if ct.shape == a.shape else unbroadcast(F, ct, a)

    return apply


def second(rule: Callable[[Any, Any, Any, Any, Any], Any]) -> Rule:
    """Rule of the right operand of a broadcasting binary op."""

    def apply(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
        ct = rule(F, ct, out, a, b)
        return ct if ct.shape == b.shape else unbroadcast(F, ct, b)

    return apply
