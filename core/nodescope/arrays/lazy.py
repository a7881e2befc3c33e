"""Lazy arrays: arrays of other libraries at a stop, fetched only as far as needed.

Invariant: only `whole`, indexing and `statistics` fetch elements; each raises `ArrayError` if that
fails. Shape and dtype are known without fetching, unless the library itself does not know the
sizes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nodescope.arrays import Captured, ops_of, to_numpy
from nodescope.errors import ArrayError
from nodescope.events import AnyArray, Array
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import OpaqueSpec


class LazyArray:
    """An array of any library, readable as an ndarray.

    Attributes:
        array: The library's own array.
        shape, dtype: Shape and dtype of its elements.

    Raises:
        ArrayError: The value has no elements.
    """

    __slots__ = ("_summary", "_whole", "array", "dtype", "shape")

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __init__(self, array: AnyArray) -> None:
        self.array = array
        self._whole: Array | None = None
        self._summary: Any = None
        spec = ops_of(array).spec(array)
        if isinstance(spec, OpaqueSpec) or None in spec.shape:
            self.dtype, sizes = self.whole().dtype, self.whole().shape
        else:
            self.dtype, sizes = as_dtype(spec.dtype), spec.shape
        self.shape = sizes

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size of the elements in bytes."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """All elements, for NumPy's functions."""
        return np.array(self.whole(), dtype, copy=copy)

    def whole(self) -> Array:
        """All elements, fetched once."""
        if self._whole is None:
            self._whole = self._fetched(None)
        return self._whole

    def __getitem__(self, index: Any) -> Any:
        """The elements that NumPy returns for the index; integers and slices fetch only their span.

        Raises:
            IndexError: The index is out of range.
        """
        parts = index if isinstance(index, tuple) else (index,)
        plain = all(part is ... or isinstance(part, int | slice) for part in parts)
        if self._whole is not None or not plain:
            return self.whole()[index]
        np.broadcast_to(np.empty((), self.dtype), self.shape)[index]  # raises IndexError
        if ... in parts:
            at = parts.index(...)
            left = self.ndim - len(parts) + 1
            parts = (*parts[:at], *(slice(None) for _ in range(left)), *parts[at + 1 :])
        window: list[slice] = []
        inside: list[int | slice] = []
        for part, size in zip(parts, self.shape, strict=False):
            if isinstance(part, int):
                window.append(slice(part % size, part % size + 1))
                inside.append(0)
                continue
            places = range(*part.indices(size))
            low, high = sorted((places[0], places[-1])) if places else (0, 0)
            window.append(slice(low, high + bool(places)))
            inside.append(slice(None, None, places.step))  # a negative step counts from the end
        return self._fetched(tuple(window))[tuple(inside)]

    def statistics(self) -> Any:
        """The array's `TensorSummary`, computed where the elements are.

        None if the library does not support that; the elements have then been fetched.
        """
        if self._summary is None and self._whole is None:
            try:
                content = ops_of(self.array).capture(self.array, "summary")
                content = content.resolve() if isinstance(content, Captured) else content
            except Exception as error:  # raised by the library
                raise _unavailable(error) from error
            if isinstance(content, np.ndarray):
                self._whole = content
            elif content is None:
                self.whole()
            else:
                self._summary = content
        return self._summary

    def _fetched(self, window: tuple[slice, ...] | None) -> Array:
        try:
            return to_numpy(self.array, window)
        except Exception as error:  # raised by the library
            raise _unavailable(error) from error


def _unavailable(error: Exception) -> ArrayError:
    if isinstance(error, ArrayError):
        return error
    text = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return ArrayError(f"the elements could not be read: {text}")


HeldArray = Array | LazyArray
"""An array that the program holds: NumPy's own, or one of another library."""


def held(array: AnyArray) -> HeldArray:
    """An array of any library, readable as an ndarray. Raises `ArrayError` if it is not an
    array.
    """
    return array if array.__class__ is np.ndarray else LazyArray(array)


def whole(array: HeldArray) -> Array:
    """All elements. Raises `ArrayError` if they cannot be obtained."""
    return array.whole() if isinstance(array, LazyArray) else array
