"""HostMemory: host memory that a device writes to, in reusable blocks.

Such memory is slow to allocate, and is not freed before the process ends, since a device may still
be writing to it. Sizes are rounded up to powers of two.

Invariant: a block is given back only when the device has finished writing to it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from nodescope.events import Array

MOST_BYTES: Final = 1 << 30
"""The largest amount of memory that is held; beyond it, nothing more is captured."""
_CHUNK_BYTES: Final = 4 << 20
_LEAST_BYTES: Final = 512


class Block(NamedTuple):
    """A piece of host memory."""

    address: int
    nbytes: int

    def bytes(self, count: int) -> Array:
        """Its first bytes, as an array that shares the memory."""
        memory = (ctypes.c_ubyte * count).from_address(self.address)
        return np.frombuffer(memoryview(memory), np.uint8)


class HostMemory:
    """The blocks of the process.

    Args:
        allocate: Allocates a number of bytes, and returns their address.
    """

    def __init__(self, allocate: Callable[[int], int]) -> None:
        self._allocate = allocate
        self._free: dict[int, list[Block]] = {}
        self._lock = threading.Lock()
        self._chunk = self._left = 0
        self.held = 0
        """The number of bytes allocated from the system."""

    def take(self, nbytes: int) -> Block | None:
        """A block of at least ``nbytes``; None if there is no room."""
        size = max(_LEAST_BYTES, 1 << (nbytes - 1).bit_length()) if nbytes else _LEAST_BYTES
        with self._lock:
            free = self._free.get(size)
            if free:
                return free.pop()
            if size <= _CHUNK_BYTES // 4:
                if self._left < size and not self._grow(_CHUNK_BYTES):
                    return None
                block = Block(self._chunk, size)
                self._chunk, self._left = self._chunk + size, self._left - size
                return block
            if self.held + size > MOST_BYTES:
                return None
            self.held += size
            return Block(self._allocate(size), size)

    def give_back(self, block: Block) -> None:
        """Return a block for reuse."""
        with self._lock:
            self._free.setdefault(block.nbytes, []).append(block)

    def _grow(self, nbytes: int) -> bool:
        if self.held + nbytes > MOST_BYTES:
            return False
        while self._left >= _LEAST_BYTES:  # keep the rest of the last chunk
            size = 1 << (self._left.bit_length() - 1)
            self._free.setdefault(size, []).append(Block(self._chunk, size))
            self._chunk, self._left = self._chunk + size, self._left - size
        self._chunk, self._left = self._allocate(nbytes), nbytes
        self.held += nbytes
        return True
