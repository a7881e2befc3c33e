"""Shape and order manipulation.

Invariant: these functions move or repeat elements without changing them; gradients flow back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nodescope.array_api.base import no_copy, tensor_of, traced
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import ShapeError
from nodescope.ops.shapes import axes as axes_of

Axes = int | tuple[int, ...]


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape. Raises `ShapeError` if there is none."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(map(str, shapes))
        raise ShapeError(f"shapes {listed} do not broadcast", source=where()) from None


def broadcast_arrays(*arrays: Any) -> list[Tensor]:
    """All arrays, broadcast to their common shape."""
    tensors = [tensor_of(array) for array in arrays]
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
    return [broadcast_to(tensor, shape) for tensor in tensors]


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """The elements repeated along dimensions of size 1 and new leading ones."""
    return traced("broadcast_to", tensor_of(x), shape)


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Tensor:
    """The arrays concatenated along an axis; without an axis, flattened first."""
    parts = [tensor_of(array) for array in arrays]
    if axis is None:
        parts, axis = [part.ravel() for part in parts], 0
    return traced("concatenate", parts, axis=axis)


def expand_dims(x: Tensor, /, axis: Axes) -> Tensor:
    """New dimensions of size 1 at ``axis``."""
    return traced("expand_dims", tensor_of(x), axis)


def flip(x: Tensor, /, *, axis: Axes | None = None) -> Tensor:
    """The elements in reverse order along axes, all of them by default."""
    return traced("flip", tensor_of(x), axis)


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """The tensor with dimensions moved; the others keep their order."""
    return traced("moveaxis", tensor_of(x), source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """The dimensions in another order."""
    return tensor_of(x).transpose(axes)


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Repeat each element, or slice along ``axis``, this number of times.

    The counts determine the shape, so a graph that is being built refuses a traced ``repeats``.
    """
    if isinstance(repeats, Tensor):
        repeats = repeats.numpy()
    return traced("repeat", tensor_of(x), repeats, axis=axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in another shape.

    Raises:
        ShapeError: The shapes do not match.
        DomainError: ``copy=False``, and the memory layout has another order.
    """
    tensor = tensor_of(x)
    result = tensor.reshape(shape)
    if copy is False and not np.may_share_memory(result.data, tensor.data) and tensor.size:
        raise no_copy("reshape", "the elements are in a different order in memory")
    return result.copy() if copy else result


def roll(x: Tensor, /, shift: Axes, *, axis: Axes | None = None) -> Tensor:
    """The elements shifted along axes, wrapping around at the ends."""
    return traced("roll", tensor_of(x), shift, axis=axis)


def squeeze(x: Tensor, /, axis: Axes) -> Tensor:
    """The tensor without dimensions of size 1. Raises `ShapeError` for other sizes."""
    return tensor_of(x).squeeze(axis)


def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Tensor:
    """The arrays stacked along a new axis."""
    return traced("stack", [tensor_of(array) for array in arrays], axis=axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The tensor repeated along each dimension."""
    tensor = tensor_of(x)
    times = tuple(repetitions)
    shape = (1,) * (len(times) - tensor.ndim) + tensor.shape
    times = (1,) * (len(shape) - len(times)) + times
    # Each dimension becomes two, (copies, size), which are then merged.
    spread = tensor.reshape(tuple(n for size in shape for n in (1, size)))
    both = tuple(n for pair in zip(times, shape, strict=True) for n in pair)
    return broadcast_to(spread, both).reshape(
        tuple(n * m for n, m in zip(times, shape, strict=True))
    )


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis. Raises `BoundsError` if the axis does not exist."""
    tensor = tensor_of(x)
    (along,) = axes_of("unstack", (axis,), tensor.ndim)
    lead = (slice(None),) * along
    return tuple(tensor[(*lead, i)] for i in range(tensor.shape[along]))
