"""Arrays of any library: one `ArrayOps` per array type.

Time-critical code handles NumPy's arrays directly; all others go through `ops_of`.

Invariant: only `ArrayOps.write` changes an array, and only `ArrayOps.numpy` and `Captured.resolve`
wait for a device.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from nodescope.errors import ArrayError
from nodescope.events import Array, Level
from nodescope.ir.graph import OpaqueSpec, Spec, TensorSpec

Window = tuple[slice, ...]
"""A part of an array: one slice per axis; missing slices stand for whole axes."""


@runtime_checkable
class Captured(Protocol):
    """An array's content, set aside when it was made or at a stop, for the recorder's thread.

    Attributes:
        nbytes: The memory that it occupies until resolved, in bytes.
    """

    nbytes: int

    def resolve(self) -> Any:
        """The elements (an ndarray of its own) or their statistics (`TensorSummary`).

        Raises:
            Exception: The elements could not be obtained; this is counted as a loss.
        """


class ArrayOps(Protocol):
    """nodescope's operations on arrays of one type. Called on the program's thread."""

    def spec(self, array: Any, /) -> Spec:
        """Shape, dtype and device, or the class of an opaque value. Never waits for a device."""

    def nbytes(self, array: Any, /) -> int:
        """Size of the elements in bytes; 0 if unknown. Never waits for a device."""

    def capture(self, array: Any, level: Level, /) -> Array | Captured | None:
        """Set aside what a level keeps, ``summary`` or ``values``, before the array can change.

        Returns:
            A copy, or an object that is resolved later; None if nothing can be kept.
        """

    def numpy(self, array: Any, window: Window | None = None, /) -> Array:
        """The elements, or only those in a window. May wait for a device.

        Raises:
            ArrayError: The elements cannot be obtained.
        """

    def refusal(self, array: Any, /) -> str:
        """Why the user cannot edit the array, in a sentence, or ``""``."""

    def write(self, array: Any, new: Array, /) -> None:
        """Write to the array's own memory.

        Raises:
            ArrayError: The array cannot be changed.
        """


@lru_cache(maxsize=256)
def dtype_name(dtype: np.dtype[Any]) -> str:
    """``dtype.name``, cached: NumPy builds it on each access, which costs as much as a summary."""
    return dtype.name


class NumpyArrays:
    """NumPy's own arrays."""

    def spec(self, array: Array) -> Spec:
        """The shape and dtype."""
        return TensorSpec(array.shape, dtype_name(array.dtype))

    def nbytes(self, array: Array) -> int:
        """Size of the elements in bytes."""
        return array.nbytes

    def capture(self, array: Array, level: Level) -> Array | Captured | None:
        """A copy."""
        return array.copy() if level in ("summary", "values") else None

    def numpy(self, array: Array, window: Window | None = None) -> Array:
        """The array itself, or a view."""
        return array if window is None else array[window]

    def refusal(self, array: Array) -> str:
        """A reason if the array is write-protected."""
        return "" if array.flags.writeable else "the array is write-protected"

    def write(self, array: Array, new: Array) -> None:
        """Copy the new elements into the array."""
        if not array.flags.writeable:
            raise ArrayError("the array is write-protected")
        array[...] = new


class OpaqueValues:
    """Values that no adapter knows: only their class is reported."""

    def spec(self, array: Any) -> Spec:
        """The class of the value."""
        kind = type(array)
        nbytes = getattr(array, "nbytes", None)
        return OpaqueSpec(
            f"{kind.__module__}.{kind.__qualname__}", nbytes if isinstance(nbytes, int) else None
        )

    def nbytes(self, array: Any) -> int:
        """Always 0, because the size is unknown."""
        return 0

    def capture(self, array: Any, level: Level) -> Array | Captured | None:
        """Always None: nothing can be kept."""
        return None

    def numpy(self, array: Any, window: Window | None = None) -> Array:
        """Always raises `ArrayError`."""
        raise ArrayError(f"a {type(array).__name__} has no elements that can be shown")

    def refusal(self, array: Any) -> str:
        """Always a reason: opaque values cannot be edited."""
        return f"a {type(array).__name__} cannot be changed here"

    def write(self, array: Any, new: Array) -> None:
        """Always raises `ArrayError`."""
        raise ArrayError(self.refusal(array))


OPAQUE: Final = OpaqueValues()
_known: dict[type, ArrayOps] = {np.ndarray: NumpyArrays()}
_lock = threading.Lock()


def register(kinds: Mapping[type, ArrayOps]) -> None:
    """Register the operations for arrays of these types and their subclasses."""
    global _known
    with _lock:
        _known = {**_known, **kinds}


def ops_of(array: object) -> ArrayOps:
    """The operations for an array; those of opaque values if no adapter knows its type."""
    global _known
    kind = type(array)
    array_ops = _known.get(kind)
    if array_ops is None:
        array_ops = next((_known[base] for base in kind.__mro__ if base in _known), OPAQUE)
        if isinstance(array, np.generic):
            array_ops = _known[np.ndarray]
        if array_ops is not OPAQUE:  # an adapter for its type may be added later
            register({kind: array_ops})
    return array_ops


def to_numpy(array: Any, window: Window | None = None) -> Array:
    """The elements of any array; see `ArrayOps.numpy`."""
    if array.__class__ is np.ndarray and window is None:
        return array
    return ops_of(array).numpy(array, window)
