"""Storages: which value a tensor holds, through views, writes in place and detaching.

PyTorch makes new tensor objects of the same memory all the time: when it wraps views, unpacks saved
tensors, or hands over gradients. So a value is found by its storage and by its place in it, and
holds until the storage is written to, from which on other views of it hold something new.

Invariant: no tensor and no storage is kept alive. A storage that is freed is forgotten.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import torch

from nodescope.adapters.torch.compat import FakeTensor, storage_address
from nodescope.ir.graph import Role

Geometry = tuple[int, Any, Any, Any]
"""Where a tensor is in its storage: offset, shape, strides (in elements), dtype."""

# Writes through other views that are distinguished; of more, the latest count.
MOST_WRITES = 64
# From this number of storages on, freed ones are collected.
_LEAST_SWEPT = 4096


class Owner(NamedTuple):
    """What a storage holds for a module or an optimizer.

    Attributes:
        role: ``parameter`` or ``buffer``.
        scope: The path of the module's scope, or of the optimizer's.
        label: The name there, such as ``weight``.
    """

    role: Role
    scope: str
    label: str


class Known:
    """A value at one place of a storage.

    Attributes:
        id: The value id.
        version: The storage's version that it was made at.
        token: The step that it was made in, see `Emitter.token`.
        gap: The number of the last unobserved stretch before it was made.
        counter: PyTorch's own version counter, then.
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
        serial: A number of its own.
        version: How often it was written to, as far as observed.
        known: The values, by place.
        detached: Those that left the autograd graph, by place.
        writes: The writes, the latest last.
        owner: What it is for a module or an optimizer.
        reference: Keeps the memory's entry as long as the storage lives.
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
        """Note that a value was written at a place."""
        self.version += 1
        writes = self.writes
        if writes and writes[-1].geometry == geometry:
            writes.pop()
        elif writes:  # it covers what was written there before
            writes = self.writes = [write for write in writes if write.geometry != geometry]
        writes.append(Write(self.version, id, geometry))
        del writes[:-MOST_WRITES]
        self.detached = None


class Storages:
    """The storages of a run, by their address."""

    def __init__(self) -> None:
        self._by_address: dict[int, Memory] = {}
        self._count = 0
        self._native: Any = None
        self._most = _LEAST_SWEPT

    def use(self, native: Any) -> None:
        """Let the native tap tell storages apart: without objects of Python's, which autograd would
        take for other users of its gradients.
        """
        self._native = native

    def memory(self, tensor: Any) -> Memory | None:
        """The memory of a tensor; None if it has no single one, such as a sparse tensor."""
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
        """The memory of the storage with that number of the native tap's, if it is known."""
        return self._by_address.get(number)

    def numbered(self, number: int) -> Memory | None:
        """The memory of the storage with that number of the native tap's."""
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
    if dtype.is_complex and tensor.is_conj():  # a view of the same place with other values
        dtype = (dtype, "conjugated")
    shape = tensor.shape
    if type(tensor) is FakeTensor:  # its sizes may be symbols, which have no hash
        shape = _Symbols(map(str, shape))
        strides = tuple(map(str, tensor.stride()))
        return (str(tensor.storage_offset()), shape, strides, dtype)  # type: ignore[return-value]
    return (tensor.storage_offset(), shape, tensor.stride(), dtype)


class _Symbols(tuple[str, ...]):
    """Sizes as text."""

    __slots__ = ()

    def numel(self) -> int:
        """0: how many elements there are is not known."""
        return 0


def counter_of(tensor: Any) -> int:
    """PyTorch's version counter of a tensor; 0 for inference tensors, which have none."""
    try:
        counter: int = tensor._version
    except RuntimeError:
        return 0
    return counter


def is_strided(tensor: Any) -> bool:
    """Whether a tensor is one place of one storage."""
    return tensor.layout is torch.strided and not tensor.is_nested
