"""Known storages: the storages that the Python tap has seen, each with a unique number.

Invariant: storages are referenced weakly; the entries of freed storages are removed.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from nodescope.adapters.torch.compat import storage_address as address_of


class Storage:
    """A storage that was seen.

    Attributes:
        number: Its number, which no other storage of the run gets.
        reference: A weak reference to PyTorch's object.
        is_reported: Whether the number was reported, so that `KnownStorages.freed` has to report
            that the storage was freed.
        slot, cycle: Its slot in the script, and the number of the followed step that bound it.
        version: Autograd's version counter when the script last changed the storage.
    """

    __slots__ = ("cycle", "is_reported", "number", "reference", "slot", "version")

    def __init__(self, number: int, reference: Any) -> None:
        self.number, self.reference = number, reference
        self.is_reported, self.slot, self.cycle, self.version = False, -1, 0, 0


class KnownStorages:
    """The storages of a run, by their address."""

    def __init__(self) -> None:
        self._by_address: dict[int, Storage] = {}
        self._count = 0
        self._gone: list[int] = []
        self._lock = threading.RLock()

    def storage(self, tensor: Any) -> int:
        """The number of a tensor's storage; 0 if it has no single storage."""
        try:
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):
            return 0
        address = address_of(storage)
        known = self._by_address.get(address)
        if known is None or known.reference() is not storage:
            known = self._add(address, storage)
        known.is_reported = True
        return known.number

    def _add(self, address: int, storage: Any) -> Storage:
        with self._lock:
            before = self._by_address.get(address)
            if before is not None:
                if before.reference() is storage:  # another thread was faster
                    return before
                if before.is_reported:  # it was freed, and its address reused
                    self._gone.append(before.number)
            self._count += 1
            known = self._by_address[address] = Storage(self._count, weakref.ref(storage))
            return known

    def freed(self) -> list[int]:
        """The numbers of storages that were freed since the last call."""
        with self._lock:
            gone, self._gone = self._gone, []
            for address, known in list(self._by_address.items()):
                if known.reference() is None:
                    del self._by_address[address]
                    gone.append(known.number)
            return gone

    def _sweep(self, addresses: list[int]) -> list[int]:
        """Remove freed storages whose numbers were not reported; return the addresses of the others
        that were not reported.
        """
        kept = []
        for address in addresses:
            known = self._by_address.get(address)
            if known is None or known.is_reported:
                continue
            if known.reference() is None:
                del self._by_address[address]
            else:
                kept.append(address)
        return kept
