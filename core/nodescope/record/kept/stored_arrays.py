"""Stored arrays: the full arrays of a recording, and which of them give way within the byte budget.

Invariant: the oldest arrays are dropped first, except those that are protected or kept longer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np

from nodescope.arrays import dtype_name
from nodescope.events import Array
from nodescope.record.kept.packing import Pack, arrays_of, seed_of, taken
from nodescope.record.measured.statistics import Integers
from nodescope.record.rows import CHANGED
from nodescope.record.schema import CHUNK_BYTES, SUMS, array_sum, chunk_sum, shape_text

# The most numbers written into a statement.
_MOST: Final = 2048
# One statement inserts chunks of up to about this size in total.
_CHUNKS_BYTES: Final = 4 << 20
_LARGE_CHUNK: Final = 1 << 16  # a chunk of this size or more has its own statement

T = TypeVar("T")

Blob = tuple[int, int, int]
"""The size, the seq and the value of a stored array."""

Accepted = dict[int, tuple[int, int, Array]]
"""Arrays to be written, with value and seq, by number."""

_SPARSEST: Final = 1 << 20  # thinning out keeps at least one in this many arrays of a weight
_SMALLEST: Final = 64  # a lasting array counts as at least this many bytes
_PACK: Final = -1  # in place of a value's id: the blob is a pack of several arrays


class _Waiting(NamedTuple):
    """A pack that is not in the file yet, and since when."""

    pack: Pack
    since_s: float


class Tables(Protocol):
    """The open transaction of a recording."""

    def insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows of equal width."""

    def insert_chunk(self, number: int, part: int, data: bytes | memoryview) -> None:
        """Insert a row of the table ``chunk``."""

    def ask(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows."""

    def add_flags(self, flags: Mapping[int, int]) -> None:
        """Add bits to the flags of executions, by seq."""


class StoredArrays:
    """The full arrays in a recording.

    Args:
        file: The recording.
        budget_bytes: Beyond this, the oldest arrays are deleted; may be raised.
        clock: Gives the time in seconds.

    Attributes:
        too_large: The number of arrays too large for a budget of this size.
        most_waiting: How many bytes of packs may wait in memory, see `add_packs`.
        waiting_bytes: How many wait.
    """

    def __init__(
        self, file: Tables, budget_bytes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._file, self._clock = file, clock
        self.budget_bytes = budget_bytes
        self.too_large = 0
        self.most_waiting = self.waiting_bytes = 0
        self._waiting: dict[int, _Waiting] = {}  # by number, oldest first
        self._waiting_before: dict[int, _Waiting] = {}
        self._nbytes = 0  # of all stored arrays
        # Blobs by number. `_blobs` may be dropped, oldest first; `_fallen` were dropped in this
        # batch; `_protected` are never dropped, see `protect`; `_lasting` last, see `keep_values`.
        self._blobs: dict[int, Blob] = {}
        self._fallen: dict[int, Blob] = {}
        self._thinned: dict[int, Blob] = {}  # as `_fallen`, but they had been lasting
        self._packs: dict[int, int] = {}  # the number of arrays in each pack
        self._protected: dict[int, Blob] = {}
        self._protected_bytes = 0
        self._spans: list[tuple[int, int]] = []
        self._lasting: dict[int, Blob] = {}
        self._weight_bytes = self._loss_bytes = 0  # of lasting arrays
        self._weights: frozenset[int] = frozenset()
        self._losses: frozenset[int] = frozenset()
        self._stride, self._seen = 1, dict[int, int]()  # one in `_stride` arrays of a weight lasts
        self._last_dropped = 0  # the newest blob dropped since the last deletion
        self._cleared = 0  # dropped blobs up to this number are deleted
        self._given_way = 0  # arrays that gave way or were found changed since the last batch
        self._before = (1, 0, 0, 0, 1, 0)
        self._next_blob = 1

    def begin(self) -> None:
        """Start a batch."""
        for number in self._fallen:
            self._packs.pop(number, None)
        self._fallen.clear()
        self._thinned.clear()
        self._before = (
            self._next_blob, self._nbytes, self.too_large, self._cleared, self._stride,
            self._given_way,
        )  # fmt: skip
        self._waiting_before = {**self._waiting}

    def roll_back(self) -> None:
        """Undo the failed batch, so that it can be written again."""
        (first, self._nbytes, self.too_large, self._cleared, self._stride,
         self._given_way) = self._before  # fmt: skip
        self._last_dropped = 0
        blobs = dict(sorted({**self._fallen, **self._blobs}.items()))
        self._blobs = _before(blobs, first)
        self._packs = _before(self._packs, first)
        self._protected = _before(self._protected, first)
        self._protected_bytes = sum([nbytes for nbytes, _, _ in self._protected.values()])
        self._lasting = _before(dict(sorted({**self._thinned, **self._lasting}.items())), first)
        sizes = [(blob[2] in self._losses, _taken(blob)) for blob in self._lasting.values()]
        self._loss_bytes = sum([taken for is_loss, taken in sizes if is_loss])
        self._weight_bytes = sum([taken for is_loss, taken in sizes if not is_loss])
        self._next_blob = first
        self._fallen.clear()
        self._thinned.clear()
        self._waiting = {**self._waiting_before}
        self.waiting_bytes = sum([waiting.pack.nbytes for waiting in self._waiting.values()])
        self._packs.update({number: item.pack.arrays for number, item in self._waiting.items()})

    def committed(self) -> None:
        """End a batch: it cannot be rolled back any more."""
        self._waiting_before.clear()

    def forget(self) -> None:
        """Let all arrays go that were to be written."""
        self._waiting.clear()
        self._waiting_before.clear()
        self.waiting_bytes = 0

    def protect(self, first: int, end: int) -> None:
        """Keep the arrays with ``first <= seq < end``, whatever the budget.

        At most half of the budget is protected; earlier protection takes precedence.
        """
        self._spans.append((first, end))
        for number, blob in [*self._blobs.items()]:
            if number not in self._packs and self._protects(blob[0], blob[1]):
                self._protected[number] = self._blobs.pop(number)
                self._protected_bytes += blob[0]

    def keep_values(self, weights: frozenset[int], losses: frozenset[int]) -> None:
        """Keep the arrays of these values longer than all others.

        Losses may take an eighth of the budget, and weights a quarter. If weights take more and
        space is needed, every second array of each weight is dropped, repeatedly if necessary. The
        arrays left are spread over the run and include the first.
        """
        self._weights, self._losses = weights, losses
        for number, blob in [*self._blobs.items()]:
            if self._lasts(blob):
                self._last(number, self._blobs.pop(number))

    def _lasts(self, blob: Blob) -> bool:
        """Whether to keep an array longer. Called once per array, as it counts those of weights."""
        value = blob[2]
        if value in self._losses:
            return 8 * (self._loss_bytes + _taken(blob)) <= self.budget_bytes
        if value not in self._weights:
            return False
        at = self._seen[value] = self._seen.get(value, -1) + 1
        return at % self._stride == 0

    def _last(self, number: int, blob: Blob) -> None:
        self._lasting[number] = blob
        if blob[2] in self._losses:
            self._loss_bytes += _taken(blob)
        else:
            self._weight_bytes += _taken(blob)

    def _thin_out(self) -> int:
        """Drop every second array of each weight; return how many were dropped."""
        places: dict[int, int] = {}
        dropped = []
        for number, blob in [*self._lasting.items()]:
            if blob[2] not in self._losses:
                at = places[blob[2]] = places.get(blob[2], -1) + 1
                if at % 2:
                    dropped.append(number)
                    self._thinned[number] = self._lasting.pop(number)
                    self._weight_bytes -= _taken(blob)
                    self._nbytes -= blob[0]
        self._stride *= 2
        for column, table in (("blob", "chunk"), ("id", "blob")):
            for start in range(0, len(dropped), _MOST):
                numbers = ",".join(map(str, dropped[start : start + _MOST]))
                self._file.ask(f"DELETE FROM {table} WHERE {column} IN ({numbers})")
        return len(dropped)

    @property
    def _outlast(self) -> bool:
        """Whether weights take more than their share and can still be thinned out."""
        return 4 * self._weight_bytes > self.budget_bytes and self._stride < _SPARSEST

    def _protects(self, nbytes: int, seq: int) -> bool:
        fits = 2 * (self._protected_bytes + nbytes) <= self.budget_bytes
        return fits and any(first <= seq < end for first, end in self._spans)

    def add(self, arrays: Sequence[tuple[int, int, Array]]) -> int:
        """Store full arrays (value, seq, array) and delete the oldest ones beyond the budget.

        Returns:
            The number of arrays dropped for the budget, including any larger than the whole budget.
        """
        fallen = 0
        accepted: Accepted = {}
        for item in arrays:
            value, seq, array = item
            if array.dtype.hasobject or array.nbytes > self.budget_bytes:
                fallen += 1
                self.too_large += 1
                continue
            fallen += self._make_room(array.nbytes, accepted)
            if self._nbytes + array.nbytes > self.budget_bytes:  # the rest must not be dropped
                fallen += 1
                continue
            blob = (array.nbytes, seq, value)
            if not self._outlives(blob):
                self._blobs[self._next_blob] = blob
            self._accept(item, accepted)
        self._write_arrays(accepted)
        return fallen

    def add_packs(self, packs: Sequence[Pack]) -> int:
        """Store packs of many arrays; otherwise like `add`.

        A pack waits in memory while all that wait take at most `most_waiting` bytes: if it gives
        way to newer ones before that, it is never written.
        """
        fallen = 0
        accepted: Accepted = {}
        for pack in packs:
            fallen += self._make_room(pack.nbytes, accepted)
            if self._nbytes + pack.nbytes > self.budget_bytes:
                fallen += pack.arrays
                continue
            number = self._next_blob
            self._blobs[number] = (pack.nbytes, pack.first_seq, _PACK)
            self._packs[number] = pack.arrays
            self._nbytes += pack.nbytes
            self._next_blob += 1
            self._waiting[number] = _Waiting(pack, self._clock())
            self.waiting_bytes += pack.nbytes
        while self.waiting_bytes > self.most_waiting:
            self._write_oldest()
        self._write_arrays(accepted)
        fallen, self._given_way = fallen + self._given_way, 0
        return fallen

    def give_way(self, nbytes: int) -> bool:
        """Between batches, drop the packs that a batch with so many bytes will replace, if they
        still wait; those with arrays that are kept longer give way when it is written.

        Returns:
            Whether the batch and what still waits take no more memory than may wait.
        """
        before = self._given_way
        while self._nbytes + nbytes > self.budget_bytes and self._blobs:
            number = next(iter(self._blobs))
            if number not in self._waiting or self._spans or self._weights or self._losses:
                break
            self._nbytes -= self._blobs.pop(number)[0]
            self._given_way += self._packs.pop(number)
            self._take_waiting(number)
        if self._given_way > before:
            self.begin()  # a failure of the next batch does not bring them back
        return self.waiting_bytes + nbytes <= min(self.most_waiting, self.budget_bytes)

    @property
    def waiting(self) -> int:
        """The number of arrays that wait to be written."""
        return sum([waiting.pack.arrays for waiting in self._waiting.values()])

    @property
    def oldest(self) -> tuple[int, float] | None:
        """The first seq of the oldest pack that waits, and since when; None if none does."""
        for pack, since_s in self._waiting.values():
            return pack.first_seq, since_s
        return None

    def first_step(self, otherwise: int) -> int:
        """The first step of the arrays that wait, if it is before another one."""
        for pack, _ in self._waiting.values():
            steps = taken((pack.first_seq, pack.last_seq, pack.outputs, pack.data)).steps
            return min(int(steps.min()), otherwise)
        return otherwise

    def write_waiting(self, most_bytes: int) -> int:
        """Write the oldest packs that wait: not many more bytes than this, but at least one.

        Returns:
            The number of arrays that the program had changed in the meantime, which were dropped.
        """
        start, before = self.waiting_bytes, self._given_way
        while self._waiting and start - self.waiting_bytes < most_bytes:
            self._write_oldest()
        lost, self._given_way = self._given_way - before, before
        return lost

    def drop_waiting(self, most_bytes: int) -> list[Pack]:
        """Drop the packs that `write_waiting` would write, and return them."""
        dropped: list[Pack] = []
        start = self.waiting_bytes
        while self._waiting and start - self.waiting_bytes < most_bytes:
            number, pack = self._take_waiting(next(iter(self._waiting)))
            self._fallen[number] = self._blobs.pop(number)
            self._nbytes -= pack.nbytes
            dropped.append(pack)
        return dropped

    def _take_waiting(self, number: int) -> tuple[int, Pack]:
        pack = self._waiting.pop(number).pack
        self.waiting_bytes -= pack.nbytes
        return number, pack

    def _write_oldest(self) -> None:
        """Write the pack that has waited longest."""
        number, waited = self._take_waiting(next(iter(self._waiting)))
        pack, content, changed = waited.gathered()
        self._flag_changed(changed)
        self._given_way += len(changed)
        if pack is None:
            self._fallen[number] = self._blobs.pop(number)
            self._nbytes -= waited.nbytes
            return
        self._blobs[number] = (pack.nbytes, pack.first_seq, _PACK)
        self._packs[number] = pack.arrays
        elements = memoryview(content)
        parts = [elements[at : at + CHUNK_BYTES] for at in range(0, pack.nbytes, CHUNK_BYTES)]
        row = (pack.first_seq, pack.last_seq, number, pack.arrays, pack.nbytes, *pack[3:5])
        self._file.insert("pack", [row])
        for nth, part in enumerate(parts):
            self._file.insert_chunk(number, nth, part)
        seed = seed_of(pack.first_seq, pack.last_seq, pack.outputs, pack.data)
        sums = [(number, nth, chunk_sum(part, seed)) for nth, part in enumerate(parts)]
        self._file.insert("checksum", [(number, number, np.array(sums, dtype=SUMS).tobytes())])

    def _flag_changed(self, seqs: Integers) -> None:
        """Note which executions produced arrays that the program wrote to."""
        if len(seqs):
            self._file.add_flags(dict.fromkeys(seqs.tolist(), CHANGED))

    def _make_room(self, nbytes: int, accepted: Accepted) -> int:
        """Drop the oldest arrays until new ones fit, or nothing is left that may be dropped.

        Args:
            nbytes: How much room is needed.
            accepted: Arrays to be written. Dropped ones are removed from it; arrays of a dropped
                pack that are kept longer are added.

        Returns:
            The number of arrays dropped.
        """
        fallen = 0
        while self._nbytes + nbytes > self.budget_bytes and (self._blobs or self._outlast):
            if self._outlast:
                fallen += self._thin_out()
                for number in self._thinned:
                    accepted.pop(number, None)
                continue
            number = next(iter(self._blobs))
            blob = self._fallen[number] = self._blobs.pop(number)
            self._nbytes -= blob[0]
            if number in self._packs:
                fallen += self._packs[number] - self._rescue(number, blob, accepted)
            else:
                fallen += 1
                accepted.pop(number, None)
            if number not in self._waiting:
                self._last_dropped = number
            else:
                self._take_waiting(number)
        return fallen

    def _rescue(self, number: int, blob: Blob, accepted: Accepted) -> int:
        """Save the arrays of a dropped pack that are kept longer; return how many."""
        rescued = 0
        if self._spans or self._weights or self._losses:
            for item in self._arrays_of(number, blob[1]):
                if self._outlives((item[2].nbytes, item[1], item[0])):
                    self._accept(item, accepted)
                    rescued += 1
        if number not in self._waiting:
            self._file.ask("DELETE FROM pack WHERE first_seq = ?", blob[1:2])
        return rescued

    def _arrays_of(self, number: int, first_seq: int) -> Iterator[tuple[int, int, Array]]:
        """Value, seq and array of everything in a pack."""
        waiting = self._waiting.get(number)
        if waiting is not None:
            pack, content, changed = waiting.pack.gathered()
            self._flag_changed(changed)
            if pack is None:
                return iter(())
            row: tuple[Any, ...] = (*pack[:2], *pack[3:5])
            return arrays_of(taken(row), bytes(content))
        row = self._file.ask(
            "SELECT first_seq, last_seq, outputs, data FROM pack WHERE first_seq = ?", (first_seq,)
        )[0]
        parts = self._file.ask("SELECT data FROM chunk WHERE blob = ? ORDER BY part", (number,))
        return arrays_of(taken(row), b"".join([part for (part,) in parts]))

    def _outlives(self, blob: Blob) -> bool:
        """Note the next array as protected or lasting; return False if it is neither."""
        if self._spans and self._protects(blob[0], blob[1]):
            self._protected[self._next_blob] = blob
            self._protected_bytes += blob[0]
        elif self._lasts(blob):
            self._last(self._next_blob, blob)
        else:
            return False
        return True

    def _accept(self, item: tuple[int, int, Array], accepted: Accepted) -> None:
        accepted[self._next_blob] = item
        self._nbytes += item[2].nbytes
        self._next_blob += 1

    def _write_arrays(self, accepted: Accepted) -> None:
        """Delete the dropped arrays, and write the accepted ones."""
        if self._last_dropped:
            self._delete_up_to(self._last_dropped)
            self._last_dropped = 0
        blobs, chunks, sums, waiting = [], [], [], 0
        for number, (value, seq, array) in accepted.items():
            spec = (dtype_name(array.dtype), shape_text(array.shape), array.nbytes)
            blobs.append((number, value, seq, *spec))
            seed = array_sum(value, seq, spec[0], array.shape)
            for part, content in enumerate(_chunks_of(array)):
                sums.append((number, part, chunk_sum(content, seed)))
                if len(content) >= _LARGE_CHUNK:
                    self._file.insert_chunk(number, part, content)
                    continue
                chunks.append((number, part, content))
                waiting += len(content)
                if waiting >= _CHUNKS_BYTES:
                    self._file.insert("chunk", chunks)
                    chunks, waiting = [], 0
        self._file.insert("blob", blobs)
        self._file.insert("chunk", chunks)
        if sums:
            packed = np.array(sums, dtype=SUMS).tobytes()
            self._file.insert("checksum", [(sums[0][0], sums[-1][0], packed)])

    def _delete_up_to(self, last: int) -> None:
        """Delete the oldest arrays up to a number, except protected and lasting ones."""
        start, kept = self._cleared + 1, (*self._protected, *self._lasting)
        self._cleared = max(last, self._cleared)
        here = sorted([number for number in kept if start <= number <= last])
        for first, end in [*_ranges(here), (last + 1, last + 1)]:
            bounds = (start, min(first - 1, last))
            if bounds[0] <= bounds[1]:
                self._file.ask("DELETE FROM chunk WHERE blob BETWEEN ? AND ?", bounds)
                self._file.ask("DELETE FROM blob WHERE id BETWEEN ? AND ?", bounds)
                self._file.ask("DELETE FROM checksum WHERE first >= ? AND last <= ?", bounds)
            start = end + 1


def _before(numbered: Mapping[int, T], first: int) -> dict[int, T]:
    """Those with numbers below ``first``."""
    return {number: item for number, item in numbered.items() if number < first}


def _taken(blob: Blob) -> int:
    """How many bytes a lasting array counts for."""
    return max(blob[0], _SMALLEST)


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges, including both ends."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def _chunks_of(array: Array) -> Iterator[bytes]:
    """The elements in C order, little-endian, in chunks; an empty array has no chunks."""
    if 0 < array.nbytes <= CHUNK_BYTES and array.dtype.isnative and sys.byteorder == "little":
        yield array.tobytes()  # most arrays
        return
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    data = little.reshape(-1).view(np.uint8)
    for start in range(0, data.size, CHUNK_BYTES):
        yield data[start : start + CHUNK_BYTES].tobytes()
