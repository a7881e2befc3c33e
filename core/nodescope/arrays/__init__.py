"""Arrays of any library: one `ArrayOps` per array type.

NumPy's arrays are handled in place by whoever is in a hurry; all others go through `ops_of`.

Invariant: nothing here changes an array but `ArrayOps.write`, and nothing waits for a device but
`ArrayOps.numpy` and `Captured.resolve`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from nodescope.errors import ArrayError
from nodescope.events import Array, Level
from nodescope.ir.graph import OpaqueSpec, Spec, TensorSpec

Window = tuple[slice, ...]
"""What is wanted of an array: a slice per axis; missing ones stand for the whole axis."""


@runtime_checkable
class Captured(Protocol):
    """What was set aside of an array: when it was made, for the recorder's thread, or at a stop.

    Attributes:
        nbytes: What it keeps in memory until then.
    """

    nbytes: int

    def resolve(self) -> Any:
        """The elements (an ndarray, nobody else's) or their statistics (`TensorSummary`).

        Raises:
            Exception: They could not be had; this is counted as a loss.
        """


class ArrayOps(Protocol):
    """What nodescope does with the arrays of one type. Called on the program's thread."""

    def spec(self, array: Any, /) -> Spec:
        """Shape, dtype and device, or what an opaque value is. Never waits for a device."""

    def nbytes(self, array: Any, /) -> int:
        """Bytes of its elements; 0 if that is unknown. Never waits for a device."""

    def capture(self, array: Any, level: Level, /) -> Array | Captured | None:
        """Set aside what a level keeps, ``summary`` or ``values``, before the array may change.

        Returns:
            A copy, or what is resolved later; None if nothing can be kept.
        """

    def numpy(self, array: Any, window: Window | None = None, /) -> Array:
        """The elements, or those in a window, which alone are fetched. May wait for a device.

        Raises:
            ArrayError: They cannot be had.
        """

    def refusal(self, array: Any, /) -> str:
        """Why a person cannot change it, in a sentence, or ``""``."""

    def write(self, array: Any, new: Array, /) -> None:
        """Write to its own memory.

        Raises:
            ArrayError: It cannot be changed.
        """


class NumpyArrays:
    """NumPy's own arrays."""

    def spec(self, array: Array) -> Spec:
        """Shape and dtype."""
        return TensorSpec(array.shape, array.dtype.name)

    def nbytes(self, array: Array) -> int:
        """Bytes of its elements."""
        return array.nbytes

    def capture(self, array: Array, level: Level) -> Array | Captured | None:
        """A copy."""
        return array.copy() if level in ("summary", "values") else None

    def numpy(self, array: Array, window: Window | None = None) -> Array:
        """The array itself, or a view."""
        return array if window is None else array[window]

    def refusal(self, array: Array) -> str:
        """None can be changed that is write-protected."""
        return "" if array.flags.writeable else "the array is write-protected"

    def write(self, array: Array, new: Array) -> None:
        """Copy into it."""
        if not array.flags.writeable:
            raise ArrayError("the array is write-protected")
        array[...] = new


class OpaqueValues:
    """Values that no adapter knows: only their class is told."""

    def spec(self, array: Any) -> Spec:
        """Its class."""
        kind = type(array)
        nbytes = getattr(array, "nbytes", None)
        return OpaqueSpec(
            f"{kind.__module__}.{kind.__qualname__}", nbytes if isinstance(nbytes, int) else None
        )

    def nbytes(self, array: Any) -> int:
        """Unknown."""
        return 0

    def capture(self, array: Any, level: Level) -> Array | Captured | None:
        """Nothing."""
        return None

    def numpy(self, array: Any, window: Window | None = None) -> Array:
        """Not to be had."""
        raise ArrayError(f"a {type(array).__name__} has no elements that can be shown")

    def refusal(self, array: Any) -> str:
        """Never to be changed."""
        return f"a {type(array).__name__} cannot be changed here"

    def write(self, array: Any, new: Array) -> None:
        """Not to be changed."""
        raise ArrayError(self.refusal(array))


OPAQUE: Final = OpaqueValues()
_known: dict[type, ArrayOps] = {np.ndarray: NumpyArrays()}
_lock = threading.Lock()


def register(kinds: Mapping[type, ArrayOps]) -> None:
    """Say how arrays of these types, and of classes that inherit from them, are handled."""
    global _known
    with _lock:
        _known = {**_known, **kinds}


def ops_of(array: object) -> ArrayOps:
    """How an array is handled; as an opaque value if no adapter knows its type."""
    global _known
    kind = type(array)
    ops_found = _known.get(kind)
    if ops_found is None:
        ops_found = next((_known[base] for base in kind.__mro__ if base in _known), OPAQUE)
        if isinstance(array, np.generic):
            ops_found = _known[np.ndarray]
        if ops_found is not OPAQUE:  # an adapter for its type may come later
            register({kind: ops_found})
    return ops_found


def to_numpy(array: Any, window: Window | None = None) -> Array:
    """The elements of any array; see `ArrayOps.numpy`."""
    if array.__class__ is np.ndarray and window is None:
        return array
    return ops_of(array).numpy(array, window)
