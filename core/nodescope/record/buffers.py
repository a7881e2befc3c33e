"""Buffers: reusable memory for copies of large arrays.

Fresh memory of this size comes from the system page by page, which costs more than the copy itself.

Invariant: once all users have returned a buffer, nothing else refers to it; the pool is bounded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np

from nodescope.events import Array

LARGE = 1 << 16
"""Smaller arrays are left to NumPy, whose own allocator is fast for them."""


class Buffers:
    """Free buffers by size.

    Args:
        most_bytes: Upper limit of unused memory.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._free: dict[int, list[Array]] = {}
        self._held = 0
        # By identity of a buffer: how many users still hold it, if more than one.
        self._users: dict[int, int] = {}
        self._lock = threading.RLock()

    def copy(self, array: Array, users: int = 1) -> Array:
        """A copy in C order, to be given back by each of its users.

        Raises:
            MemoryError: There is not enough memory.
        """
        size = array.nbytes
        if size < LARGE or array.dtype.hasobject:
            return array.copy()
        with self._lock:
            free = self._free.get(size)
            buffer = free.pop() if free else None
            if buffer is not None:
                self._held -= size
                if not free:
                    del self._free[size]
        if buffer is None:
            buffer = np.empty(size, np.uint8)
        if users > 1:
            self._users[id(buffer)] = users
        copied = buffer.view(array.dtype).reshape(array.shape)
        np.copyto(copied, array)
        return copied

    def give_back(self, copied: Array) -> None:
        """Take back the memory of a copy that is no longer needed."""
        buffer = copied.base
        if buffer is None or copied.nbytes < LARGE:
            return
        while buffer.base is not None:  # a view of a view
            buffer = buffer.base
        with self._lock:
            users = self._users.pop(id(buffer), 1)
            if users > 1:
                self._users[id(buffer)] = users - 1
                return
            # Release buffers of other sizes, the oldest first: the program probably no longer uses
            # these sizes.
            other_sizes = [size for size in self._free if size != buffer.nbytes]
            while other_sizes and self._held + buffer.nbytes > self._most:
                size = other_sizes.pop(0)
                self._held -= size * len(self._free.pop(size))
            if self._held + buffer.nbytes <= self._most:
                self._free.setdefault(buffer.nbytes, []).append(buffer)
                self._held += buffer.nbytes


def layouts_of(
    values: tuple[int, ...], arrays: tuple[Array, ...]
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Strides of the arrays that are not in C order, where a sum may round differently."""
    return tuple(
        [
            (value, array.strides)
            for value, array in zip(values, arrays)  # noqa: B905 (as where they are copied)
            if not array.flags.c_contiguous
        ]
    )


def layouts_of_captured(
    captured: Iterable[tuple[int, object]],
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """`layouts_of` for the captures of an adapter that already have elements."""
    return tuple(
        [
            (value, content.strides)
            for value, content in captured
            if isinstance(content, np.ndarray) and not content.flags.c_contiguous
        ]
    )
