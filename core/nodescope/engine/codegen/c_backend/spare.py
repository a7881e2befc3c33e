"""Spare arrays: reuses the memory of large released results for those of later calls.

The system provides megabytes of fresh memory page by page, which may take as long as computing its
contents. An array is reused only if its reference count shows no other holder: views, tensors and
buffers of it all count.

Invariant: a returned array has no other holder; at most `MOST_BYTES` are kept.
"""

from __future__ import annotations

import math
import sys
import threading
import weakref
from collections.abc import Callable

import numpy as np

from nodescope.ir.graph import TensorSpec
from nodescope.ops.op import Array

LEAST_BYTES = 1 << 20
MOST_BYTES = 256 << 20
_MOST_PER_KIND = (
    3  # arrays of one kind: those held by a loop while it computes the next, and one more
)

_POOL: dict[tuple[tuple[int, ...], str], list[Array]] = {}
_LOCK = threading.Lock()
_COUNTED = getattr(sys, "_is_gil_enabled", bool)() or not hasattr(sys, "_is_gil_enabled")
"""Whether reference counts are exact; without the interpreter lock, they are not."""


def maker(spec: TensorSpec) -> Callable[[], Array]:
    """A function that returns arrays of a shape and dtype with arbitrary contents."""
    shape, dtype = tuple(spec.shape), np.dtype(spec.dtype)
    size = math.prod(shape) * dtype.itemsize
    if not _COUNTED or not LEAST_BYTES <= size <= MOST_BYTES // _MOST_PER_KIND:
        return lambda: np.empty(shape, dtype)
    key = shape, dtype.str

    def make() -> Array:
        # Do not wait: a lock held during a fork is never released in the child.
        if not _LOCK.acquire(blocking=False):
            return np.empty(shape, dtype)
        try:
            array = _free(key)
            return _kept(key, size) if array is None else array
        finally:
            _LOCK.release()

    return make


_PROBE: list[Array] = [np.empty(0)]
_ALONE = sys.getrefcount(_PROBE[0])


def _free(key: tuple[tuple[int, ...], str]) -> Array | None:
    """An array without other holders, in its original form."""
    arrays = _POOL.get(key, [])
    for i in range(len(arrays)):
        if sys.getrefcount(arrays[i]) == _ALONE and not weakref.getweakrefcount(arrays[i]):
            array = arrays[i]
            flags = array.flags
            if (array.shape, array.dtype.str) == key and flags.carray and flags.owndata:
                return array
    return None


def _kept(key: tuple[tuple[int, ...], str], size: int) -> Array:
    """A new array, kept for reuse; older ones are released to make room."""
    arrays = _POOL.setdefault(key, [])
    if len(arrays) >= _MOST_PER_KIND:
        del arrays[0]
    while kept_bytes() + size > MOST_BYTES:
        oldest = next(key_ for key_, pool in _POOL.items() if pool)
        del _POOL[oldest][0]
        if not _POOL[oldest] and oldest != key:
            del _POOL[oldest]
    array = np.empty(*key)
    arrays.append(array)
    return array


def kept_bytes() -> int:
    """Total size of kept arrays, in use or not."""
    return sum(array.nbytes for arrays in _POOL.values() for array in arrays)
