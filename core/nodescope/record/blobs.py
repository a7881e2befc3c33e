"""Reading full arrays from a recording: whole, or the requested window.

Invariant: of a large array, only the chunks that contain the window are read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nodescope.events import Array
from nodescope.ir.dtypes import as_dtype
from nodescope.record.kept.kept_table import KeptTable, Stored
from nodescope.record.schema import CHUNK_BYTES, SUMS, array_sum, chunk_sum, spec_of

_LATEST: Final = 4
"""The number of cached chunks that hold several arrays."""

Window = tuple[np.ndarray[Any, np.dtype[np.float64]], tuple[int, int], tuple[int, ...]]


class BlobReader:
    """Reads tables ``blob``, ``pack`` and ``chunk``.

    Args:
        ask: Runs a query with parameters and returns all rows.
        kept: Finds arrays that are kept in packs.
    """

    def __init__(self, ask: Callable[..., list[tuple[Any, ...]]], kept: KeptTable) -> None:
        self._ask, self._kept = ask, kept
        self._chunks: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._summed: bool | None = None  # whether the file has checksums
        self._sums: tuple[int, int, dict[tuple[int, int], int]] = (0, -1, {})

    def whole(self, value: int, seq: int) -> Array | None:
        """The array, read-only, or None.

        Raises:
            ValueError: The stored bytes do not fit the stored shape.
        """
        stored = self._find(value, seq)
        if stored is None:
            return None
        array = decode(self._bytes(stored, 0, stored.nbytes), stored.dtype).reshape(stored.shape)
        array.flags.writeable = False
        return array

    def window(
        self, value: int, seq: int, index: tuple[int, ...], row: int, col: int, rows: int, cols: int
    ) -> Window | None:
        """See `Recording.array_slice`.

        Raises:
            ValueError: The stored bytes do not fit the stored shape.
        """
        stored = self._find(value, seq)
        if stored is None:
            return None
        _, dtype, shape, nbytes, *_ = stored
        size = int(np.prod(shape, dtype=np.int64))
        width = nbytes // size if size else 0
        leading = shape[:-2] if len(shape) > 2 else ()
        requested = (*index, *(0 for _ in leading))[: len(leading)]
        clamped = tuple(max(0, min(at, n - 1)) for at, n in zip(requested, leading, strict=True))
        height, breadth = (1, 1, *shape)[-2:] if len(shape) != 1 else (1, shape[0])
        if not all(leading):
            height = breadth = 0
        first, last = min(max(row, 0), height), min(max(row, 0) + max(rows, 0), height)
        left, right = min(max(col, 0), breadth), min(max(col, 0) + max(cols, 0), breadth)
        if first >= last or left >= right:
            empty = np.zeros((last - first, right - left))
            return empty, (height, breadth), clamped
        plane = 0
        for at, n in zip(clamped, leading, strict=True):
            plane = plane * n + at
        origin = plane * height * breadth
        stride = breadth * width
        if stride <= 4 * CHUNK_BYTES // (last - first):
            start = (origin + first * breadth) * width
            data = self._bytes(stored, start, start + (last - first) * stride)
            part = decode(data, dtype).reshape(last - first, breadth)[:, left:right]
        else:
            lines = [
                self._bytes(stored, start + left * width, start + right * width)
                for start in ((origin + line * breadth) * width for line in range(first, last))
            ]
            part = decode(b"".join(lines), dtype).reshape(last - first, right - left)
        return plain(part), (height, breadth), clamped

    def _find(self, value: int, seq: int) -> Stored | None:
        rows = self._ask(
            "SELECT id, dtype, shape, nbytes FROM blob WHERE value = ? AND seq = ?", value, seq
        )
        if not rows:
            return self._kept.find(value, seq)
        blob, dtype, written, nbytes = rows[0]
        if not readable(dtype):
            return None
        shape: Any = spec_of(dtype, written).shape
        return Stored(blob, dtype, shape, nbytes, 0, array_sum(value, seq, dtype, shape))

    def _bytes(self, stored: Stored, start: int, stop: int) -> bytes:
        """A part of an array's elements."""
        if start >= stop:
            return b""
        if stored.shared:
            return self._shared_bytes(stored, stored.start + start, stored.start + stop)
        blob = stored.blob
        first = start // CHUNK_BYTES
        rows = self._ask(
            "SELECT data, part FROM chunk WHERE blob = ? AND part BETWEEN ? AND ? ORDER BY part",
            blob,
            first,
            (stop - 1) // CHUNK_BYTES,
        )
        for chunk, part in rows:
            self._check(blob, part, chunk, stored.seed)
        data: bytes = rows[0][0] if len(rows) == 1 else b"".join(row[0] for row in rows)
        offset = first * CHUNK_BYTES
        return data[start - offset : stop - offset]

    def _shared_bytes(self, stored: Stored, start: int, stop: int) -> bytes:
        """The same for an array whose chunks also hold other arrays."""
        first = start // CHUNK_BYTES
        chunks: list[bytes] = []
        for part in range(first, (stop - 1) // CHUNK_BYTES + 1):
            chunks.append(self._shared_chunk(stored, part))
            if len(chunks[-1]) < CHUNK_BYTES:  # the last one, whatever the row claims
                break
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        offset = first * CHUNK_BYTES
        return data[start - offset : stop - offset]

    def _shared_chunk(self, stored: Stored, part: int) -> bytes:
        """A chunk that holds several arrays; the latest chunks are cached."""
        with self._lock:
            data = self._chunks.pop((stored.blob, part), None)
            if data is None:
                rows = self._ask(
                    "SELECT data FROM chunk WHERE blob = ? AND part = ?", stored.blob, part
                )
                data = rows[0][0] if rows else b""
                if len(data) > CHUNK_BYTES:
                    raise ValueError(f"a chunk of {len(data):,} bytes")
                self._check(stored.blob, part, data, stored.seed)
            self._chunks[stored.blob, part] = data
            if len(self._chunks) > _LATEST:
                self._chunks.popitem(last=False)
        return data

    def _check(self, blob: int, part: int, data: bytes, seed: int) -> None:
        """Compare a chunk with its checksum, if it has one.

        Raises:
            ValueError: The checksum does not match.
        """
        expected = self._sums_of(blob).get((blob, part))
        if expected is not None and chunk_sum(data, seed) != expected:
            raise ValueError("the elements of an array differ from those that were written")

    def _sums_of(self, blob: int) -> dict[tuple[int, int], int]:
        first, last, sums = self._sums
        if first <= blob <= last:
            return sums
        if self._summed is None:
            query = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'checksum'"
            self._summed = bool(self._ask(query)[0][0])
        if not self._summed:  # a file of an earlier release
            return {}
        rows = self._ask(
            "SELECT first, last, data FROM checksum WHERE first <= ? ORDER BY first DESC LIMIT 1",
            blob,
        )
        if not rows or rows[0][1] < blob:
            return {}
        packed = np.frombuffer(rows[0][2], SUMS)
        pairs = zip(packed["blob"].tolist(), packed["part"].tolist(), strict=True)
        sums = dict(zip(pairs, packed["crc"].tolist(), strict=True))
        self._sums = (rows[0][0], rows[0][1], sums)
        return sums


def readable(dtype: str) -> bool:
    """Whether arrays of a dtype of this name can be read here."""
    try:
        return not as_dtype(dtype).hasobject
    except TypeError:
        return False


def decode(data: bytes, dtype: str) -> Array:
    """Little-endian bytes as a one-dimensional array.

    Raises:
        TypeError: No dtype has that name.
        ValueError: The bytes are not a whole number of elements.
    """
    kind = as_dtype(dtype)
    return np.frombuffer(data, dtype=kind.newbyteorder("<")).astype(kind, copy=False)


def plain(elements: Array) -> Array:
    """Elements as float64; complex ones as their magnitudes."""
    with np.errstate(all="ignore"):  # infinite and huge elements stay as they are
        if elements.dtype.kind == "c":
            # Finite complex64 elements may have a magnitude beyond float32.
            elements = np.abs(elements.astype(np.result_type(elements.dtype, np.complex128)))
        return elements.astype(np.float64)
