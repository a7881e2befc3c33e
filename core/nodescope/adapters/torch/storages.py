"""Storages: which value a tensor holds, through views, writes in place and detaching.

PyTorch often makes new tensor objects for the same memory: when it wraps views, unpacks saved
tensors, or passes gradients. A value is therefore identified by its storage and its geometry there.
It is valid until the storage is written to; after that, other views of the storage hold new values.

Invariant: no tensor and no storage is kept alive. The entry of a freed storage is removed.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import torch

from nodescope.adapters.torch.compat import FakeTensor, storage_address
from nodescope.ir.graph import Role

Geometry = tuple[int, Any, Any, Any]
"""Where a tensor is in its storage: offset, shape, strides (in elements), dtype."""

# Writes through other views that are kept per storage; older ones are dropped.
MOST_WRITES = 64
# The entries of freed storages are removed once there are at least this many entries.
_LEAST_SWEPT = 4096


class Owner(NamedTuple):
    """The parameter or buffer that a storage holds, of a module or an optimizer.

    Attributes:
        role: ``parameter`` or ``buffer``.
        scope: The path of the module's scope, or of the optimizer's.
        label: Its name there, such as ``weight``.
    """

    role: Role
    scope: str
    label: str


class Known:
    """A value at one geometry of a storage.

    Attributes:
        id: The value id.
        version: The storage's version when the value was made.
        token: The step in which it was made, see `Emitter.token`.
        gap: The number of unobserved stretches before it was made, see `Values.gap`.
        counter: PyTorch's own version counter of the tensor at that time.
    """

    __slots__ = ("counter", "gap", "id", "token", "version")

    def __init__(self, id: int, version: int, token: object, gap: int, counter: int) -> None:
        self.id, self.version, self.token, self.gap, self.counter = id, version, token, gap, counter


class Write(NamedTuple):
    """A write through one view."""

    version: int
    id: int
    geometry: Geometry


class Memory:
    """A storage.

    Attributes:
        serial: The storage's unique number.
        version: The number of observed writes to it.
        known: Its values, by geometry.
        detached: Its values that left the autograd graph, by geometry.
        writes: The writes, the latest last.
        owner: The parameter or buffer that it holds, or None.
        reference: A weak reference whose callback removes the entry when the storage is freed; None
            if a native tap or `Follower` numbers the storages.
    """

    __slots__ = ("detached", "known", "owner", "reference", "serial", "version", "writes")

    def __init__(self, serial: int) -> None:
        self.serial = serial
        self.version = 0
        self.known: dict[Geometry, Known] = {}
        self.detached: dict[Geometry, Known] | None = None
        self.writes: list[Write] = []
        self.owner: Owner | None = None
        self.reference: Any = None

    def wrote(self, id: int, geometry: Geometry) -> None:
        """Register that a value was written at a geometry."""
        self.version += 1
        writes = self.writes
        if writes and writes[-1].geometry == geometry:
            writes.pop()
        elif writes:  # the new write replaces an earlier one at the same geometry
            writes = self.writes = [write for write in writes if write.geometry != geometry]
        writes.append(Write(self.version, id, geometry))
        del writes[:-MOST_WRITES]
        self.detached = None


class Storages:
    """The storages of a run, by address, or by number if the tap numbers them (see `use`)."""

    def __init__(self) -> None:
        self._by_address: dict[int, Memory] = {}
        self._count = 0
        self._native: Any = None
        self._most = _LEAST_SWEPT

    def use(self, native: Any) -> None:
        """Let the native tap, or `Follower`, number the storages.

        It makes no Python objects for storages, which autograd would take for other users of its
        gradients.
        """
        self._native = native

    def memory(self, tensor: Any) -> Memory | None:
        """The memory of a tensor; None if it has no single storage, such as a sparse tensor."""
        if self._native is not None:
            return self.numbered(self._native.storage(tensor))
        try:
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):
            return None
        address = storage_address(storage)
        memory = self._by_address.get(address)
        if memory is None:
            self._count += 1
            memory = self._by_address[address] = Memory(self._count)
            by_address = self._by_address

            def freed(reference: Any, address: int = address, memory: Memory = memory) -> None:
                if by_address.get(address) is memory:
                    del by_address[address]

            memory.reference = weakref.ref(storage, freed)
        return memory

    def by_number(self, number: int) -> Memory | None:
        """The memory of the storage with this number of the native tap's, or None if unknown."""
        return self._by_address.get(number)

    def numbered(self, number: int) -> Memory | None:
        """The memory of the storage with this number of the native tap's, created if new.

        None if the number is 0.
        """
        memory = self._by_address.get(number)
        if memory is None and number:
            if len(self._by_address) >= self._most:
                for freed in self._native.freed():
                    self._by_address.pop(freed, None)
                self._most = max(_LEAST_SWEPT, 2 * len(self._by_address))
            memory = self._by_address[number] = Memory(number)
        return memory


def geometry_of(tensor: Any) -> Geometry:
    """Where a strided tensor is in its storage."""
    dtype = tensor.dtype
    if dtype.is_complex and tensor.is_conj():  # the same geometry, but other values
        dtype = (dtype, "conjugated")
    shape = tensor.shape
    if type(tensor) is FakeTensor:  # its sizes may be symbolic, which are not hashable
        shape = _Symbols(map(str, shape))
        strides = tuple(map(str, tensor.stride()))
        return (str(tensor.storage_offset()), shape, strides, dtype)  # type: ignore[return-value]
    return (tensor.storage_offset(), shape, tensor.stride(), dtype)


class _Symbols(tuple[str, ...]):
    """Sizes as text."""

    __slots__ = ()

    def numel(self) -> int:
        """0: the number of elements is not known."""
        return 0


def counter_of(tensor: Any) -> int:
    """PyTorch's version counter of a tensor; 0 for inference tensors, which have none."""
    try:
        counter: int = tensor._version
    except RuntimeError:
        return 0
    return counter


def is_strided(tensor: Any) -> bool:
    """Whether a tensor occupies a single geometry of a single storage."""
    return tensor.layout is torch.strided and not tensor.is_nested
