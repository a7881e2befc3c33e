"""Contents and layouts of random arrays.

Invariant: an array fits its spec; only its values and strides are unusual.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.graphs.choose import Choices

Array = np.ndarray[Any, Any]

FLOATS = ("float32", "float64")
DTYPES = ("float32", "float32", "float32", "float64", "float64", "int32", "int64", "uint8", "bool")
LARGEST = 2048  # elements of one array


def content(shape: tuple[int, ...], dtype: str, choices: Choices, *, wild: bool) -> Array:
    """Numbers of a dtype; if ``wild``, with NaN, infinities, zeros of both signs, tiny and huge."""
    rng = choices.numbers()
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if kind == "u":
        return np.asarray(rng.integers(0, 256 if wild else 9, shape), dtype)
    if kind == "i":
        edge = np.iinfo(dtype).max if wild and choices.chance(30) else 9
        return np.asarray(rng.integers(-edge, edge, shape), dtype)
    how = choices.integer(0, 3)
    if how == 0:  # Few distinct values give ties, zeros and ones.
        result = rng.integers(-2, 3, shape).astype(dtype)
    else:
        result = np.asarray(rng.standard_normal(shape) * (1.0, 1.0, 0.1, 30.0)[how]).astype(dtype)
    if wild and result.size:
        tiny = np.finfo(dtype).smallest_subnormal
        special = np.array(
            [np.nan, np.inf, -np.inf, 0.0, -0.0, tiny * 3, -tiny, np.finfo(dtype).max / 2], dtype
        )
        replaced = rng.random(result.shape) < 0.3
        result = np.where(replaced, special[rng.integers(0, len(special), result.shape)], result)
    return np.asarray(result, dtype)


def laid_out(array: Array, choices: Choices) -> Array:
    """The same content in some memory layout, perhaps read-only."""
    how = choices.integer(0, 9)
    if how == 1 and array.ndim > 1:
        return np.asfortranarray(array)
    if how == 2 and array.ndim:
        return np.flip(np.flip(array).copy())
    if how == 3 and array.ndim:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    if how == 4 and array.ndim > 1:
        order = choices.shuffled(range(array.ndim))
        back = np.argsort(order)
        return np.ascontiguousarray(array.transpose(order)).transpose(back)
    if how == 5 and array.ndim:
        return np.broadcast_to(array[:1], array.shape) if array.shape[0] else array
    if how == 6 and array.nbytes and array.itemsize > 1:  # Not aligned.
        raw = np.empty(array.nbytes + 1, np.uint8)
        result = raw[1:].view(array.dtype).reshape(array.shape)
        result[...] = array
        return result
    if how == 7:
        array = array.copy()
        array.flags.writeable = False
    return array
