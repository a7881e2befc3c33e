"""Sizes: which sizes of an operation's inputs do not fit each other, in words.

Invariant: shapes in, words out; ``""`` if they fit or the op is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from nodescope.console_output import shape_words

Shape = tuple[int, ...]

_PRODUCTS: Final = {"matmul": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "addmv": (1, 2)}
"""By op: the input ports of the two factors."""
_CONVOLUTIONS: Final = frozenset({"convolution", "conv1d", "conv2d", "conv3d"})
_NOT_BROADCAST: Final = frozenset({"astype", "copy"})


def misfit(
    op: str, family: str, shapes: Sequence[Shape], names: Sequence[str], attrs: Mapping[str, Any]
) -> str:
    """Which sizes do not fit, as a phrase; or ``""``.

    Args:
        op, family: The op, and its family.
        shapes, names: The shapes and names of its inputs, by port.
        attrs: The node's attributes.
    """
    if op in _PRODUCTS and len(shapes) > max(_PRODUCTS[op]):
        one, other = _PRODUCTS[op]
        return _product(shapes[one], shapes[other], names[one], names[other]) or _added(
            shapes, names, one, other
        )
    if op in _CONVOLUTIONS and len(shapes) >= 2:
        return _convolution(shapes, names, attrs)
    if op in ("concatenate", "stack") and len(shapes) >= 2:
        return _joined(op, shapes, names, attrs)
    if family == "elementwise" and len(shapes) >= 2 and op not in _NOT_BROADCAST:
        return _broadcast(shapes, names)
    return ""


def _product(one: Shape, other: Shape, name: str, other_name: str) -> str:
    if not one or not other:
        return ""
    inner, outer = one[-1], other[-2] if len(other) > 1 else other[-1]
    if inner != outer:
        return (
            f"the inner sizes do not fit: {inner} of {name} {shape_words(one)} and {outer} of "
            f"{other_name} {shape_words(other)}"
        )
    if len(one) == len(other) == 3 and one[0] != other[0] and 1 not in (one[0], other[0]):
        return f"{name} is a stack of {one[0]} matrices, and {other_name} of {other[0]}"
    return ""


def _added(shapes: Sequence[Shape], names: Sequence[str], one: int, other: int) -> str:
    """Whether the term added to a product, such as a bias, fits; as `misfit`."""
    if one == 0:
        return ""
    columns = shapes[other][-1] if len(shapes[other]) > 1 else shapes[one][0]
    added = shapes[0]
    if added and added[-1] not in (1, columns):
        return f"{names[0]} has {added[-1]} columns {shape_words(added)}, and the product {columns}"
    return ""


def _convolution(shapes: Sequence[Shape], names: Sequence[str], attrs: Mapping[str, Any]) -> str:
    data, weight = shapes[0], shapes[1]
    if len(weight) < 3 or len(data) not in (len(weight), len(weight) - 1):
        return (
            f"{names[0]} has {len(data)} axes, and {names[1]} is for {len(weight)}"
            if weight and data
            else ""
        )
    channels = data[1] if len(data) == len(weight) else data[0]
    groups = attrs.get("groups", 1)
    expected = weight[0] if attrs.get("transposed") else weight[1] * groups
    if channels != expected:
        return (
            f"{names[0]} has {channels} channels {shape_words(data)}, and {names[1]} is for "
            f"{expected} {shape_words(weight)}"
        )
    padding = attrs.get("padding", 0)
    dilation = attrs.get("dilation", 1)
    if attrs.get("transposed"):
        return ""
    spatial = len(weight) - 2
    for axis in range(spatial):
        size = data[len(data) - spatial + axis] + 2 * _along(padding, axis)
        kernel = (weight[2 + axis] - 1) * _along(dilation, axis) + 1
        if kernel > size:
            return (
                f"the kernel of {names[1]} takes {kernel} elements along axis "
                f"{len(data) - spatial + axis} of {names[0]}, which has {size} with its padding"
            )
    return ""


def _along(value: Any, axis: int) -> int:
    if isinstance(value, list | tuple):
        value = value[axis] if axis < len(value) else value[0] if value else 0
    return value if isinstance(value, int) else 0


def _joined(
    op: str, shapes: Sequence[Shape], names: Sequence[str], attrs: Mapping[str, Any]
) -> str:
    first = shapes[0]
    axis = attrs.get("dim", attrs.get("axis", 0))
    for port, shape in enumerate(shapes[1:], 1):
        if len(shape) != len(first):
            return f"{names[port]} has {len(shape)} axes, and {names[0]} has {len(first)}"
        joined = (
            axis % len(first) if op == "concatenate" and first and isinstance(axis, int) else -1
        )
        for at, (size, expected) in enumerate(zip(shape, first, strict=True)):
            if size != expected and at != joined:
                return (
                    f"{names[port]} has {size} along axis {at} {shape_words(shape)}, and "
                    f"{names[0]} has {expected} {shape_words(first)}"
                )
    return ""


def _broadcast(shapes: Sequence[Shape], names: Sequence[str]) -> str:
    for port, shape in enumerate(shapes[1:], 1):
        for before in range(port):
            for back, (one, other) in enumerate(
                zip(reversed(shapes[before]), reversed(shape), strict=False), 1
            ):
                if one != other and 1 not in (one, other):
                    return (
                        f"along axis -{back}, {names[before]} has {one} "
                        f"{shape_words(shapes[before])}, and {names[port]} has {other} "
                        f"{shape_words(shape)}"
                    )
    return ""
