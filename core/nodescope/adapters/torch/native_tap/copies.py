"""Copies: which outputs of a step are copied for the recorder, and where the copies are.

The recorder keeps the newest outputs for which it has room. Of a step that exceeds the room, it
would keep only the end, so only the end is copied.

Invariant: memory is reused only when nothing refers to the copies in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nodescope.ir.track import Elements, Track
from nodescope.record.newest.held import ENTRY_BYTES

CHUNK_BYTES: Final = 8 << 20
_ALIGNED: Final = 64
_MOST_FREE: Final = 64 << 20


class Memory:
    """Memory for copies, which returns to its pool with the last reference.

    Attributes:
        bytes: Its bytes, as an array.
    """

    __slots__ = ("_pool", "bytes")

    def __init__(self, pool: Pool, memory: np.ndarray[Any, Any]) -> None:
        self.bytes, self._pool = memory, pool

    def __del__(self) -> None:
        self._pool.give_back(self.bytes)


class Pool:
    """Memory for reuse, since the system provides fresh memory page by page."""

    def __init__(self) -> None:
        self._free: list[np.ndarray[Any, Any]] = []

    def take(self, nbytes: int) -> Memory:
        """Memory of at least ``nbytes``, at most twice that."""
        for memory in reversed(self._free):
            if nbytes <= memory.nbytes <= 2 * nbytes:
                try:
                    self._free.remove(memory)
                except ValueError:  # another thread was faster
                    continue
                return Memory(self, memory)
        return Memory(self, np.empty(nbytes, np.uint8))

    def give_back(self, memory: np.ndarray[Any, Any]) -> None:
        """Keep memory for reuse; the oldest is dropped if there is too much."""
        self._free.append(memory)
        with contextlib.suppress(IndexError):  # another thread was faster
            while sum([known.nbytes for known in self._free]) > _MOST_FREE:
                del self._free[0]


class Copies:
    """The copies of the outputs of a track.

    Args:
        track: The track.

    Attributes:
        total: The size of the copies of a step in bytes, with the padding between them.
    """

    def __init__(self, track: Track) -> None:
        self._track = track
        self._requested: tuple[int, frozenset[int]] | None = None
        self._nodes = np.repeat(
            np.array([node.id for node in track.nodes], np.int64), np.diff(track.firsts)
        )
        self._nbytes_of = np.array([known.nbytes for known in track.values], np.int64)
        self._made: dict[tuple[int, int, int], tuple[tuple[int, ...], int]] = {}
        self.total = 0

    def holds(self, most_bytes: int, nodes: frozenset[int]) -> bool:
        """Whether every output of ``nodes`` fits into ``most_bytes``; true if either is empty."""
        if not nodes or not most_bytes:
            return True
        viewed = np.isin(self._nodes, list(nodes))
        return not (self._nbytes_of[viewed] + ENTRY_BYTES > most_bytes).any()

    def within(self, most_bytes: int, nodes: frozenset[int]) -> np.ndarray[Any, Any] | None:
        """The number of bytes to copy of each output; None if the arguments are unchanged.

        Args:
            most_bytes: The number of bytes of the newest outputs that may be held.
            nodes: The nodes whose outputs are all copied.
        """
        if (most_bytes, nodes) == self._requested:
            return None
        self._requested = most_bytes, nodes
        nbytes = self._nbytes_of
        fits = nbytes + ENTRY_BYTES <= most_bytes
        kept = np.where(fits, nbytes, 0)
        later = np.cumsum((kept + ENTRY_BYTES * fits)[::-1])[::-1]
        self._copied = fits & (later <= most_bytes)
        if nodes:
            self._copied |= np.isin(self._nodes, list(nodes))
        kept = np.where(self._copied, nbytes, 0)
        spaced = -(-kept // _ALIGNED) * _ALIGNED
        self._starts = np.concatenate([[0], np.cumsum(spaced)])
        self._nbytes = kept
        self.total = int(self._starts[-1])
        self._largest = self._largest_item(spaced)
        self._made.clear()
        return kept

    def _largest_item(self, spaced: np.ndarray[Any, Any]) -> int:
        """The most memory for one operator, with the leaves before it."""
        largest = needed = 0
        for node, first, end in zip(
            self._track.nodes, self._track.firsts, self._track.firsts[1:], strict=False
        ):
            needed += int(spaced[first:end].sum())
            largest = max(largest, needed)
            needed = needed if node.is_leaf else 0
        return largest

    def room_from(self, execution: int) -> int:
        """The memory to take from ``execution`` on: a chunk, or more if one operator needs it."""
        left = self.total - int(self._starts[self._track.firsts[execution]])
        return max(min(left, CHUNK_BYTES), min(left, self._largest))

    def bytes_before(self, first: int, execution: int) -> int:
        """The memory that the copies of executions take, from ``first`` to before ``execution``."""
        at = self._track.firsts
        return int(self._starts[at[execution]] - self._starts[at[first]])

    def elements(
        self, memory: Any, first: int, end: int, begin: int,
        ready: Callable[[], None] | None = None,
    ) -> Elements:  # fmt: skip
        """The copies of the executions from ``first`` to before ``end``.

        They start at ``begin`` in the memory; ``ready`` is as in `Elements`.
        """
        key = (first, end, begin)
        made = self._made.get(key)
        if made is None:
            outputs = slice(self._track.firsts[first], self._track.firsts[end])
            starts = self._starts[outputs]
            at = starts - (starts[0] if len(starts) else 0) + begin
            places = tuple(np.where(self._copied[outputs], at, -1).tolist())
            made = places, int(self._nbytes[outputs].sum())
            if len(self._made) > 64:
                self._made.clear()
            self._made[key] = made
        return Elements(memory.bytes, made[0], made[1], memory, ready)
