"""The recording's file format: one SQLite database. `docs/recording.md` describes it.

Invariant: every name and column of the format is written here, and only the writer and the readers
of this package know them. A change that an older reader would misread raises `SCHEMA_VERSION`.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import numpy as np

from nodescope.console_output import printable
from nodescope.ir.graph import OpaqueSpec, Size, Spec, TensorSpec
from nodescope.native import crc32
from nodescope.record.summary import TensorSummary

SUFFIX = ".nscope"
# The beginning of every SQLite file, and "nscp" in it, which marks a recording.
HEADER = b"SQLite format 3\x00"
APPLICATION_ID = 0x6E736370
SCHEMA_VERSION = 6
# Arrays are stored in rows of this many bytes, so that a window of a huge one is cheap to read.
CHUNK_BYTES = 1 << 20
MAX_SOURCE_BYTES = 1 << 20
# Tables, by what is left out of a batch when the disk is full: nothing of the first two; with the
# executions, all of the third.
END = ("run", "loss", "document", "failure")
STRUCTURE = ("node", "value", "gradient", "source", "edit")
OUTPUT = ("log", "host", "call", "layout", "placed", "device", "lane", "operand")

# Stored in place of a shape if the value is not a tensor.
OPAQUE = "opaque"

# As in the first releases of this schema: a step's rows were spread over all pages.
EARLIER = (
    "CREATE TABLE summary (value INTEGER NOT NULL, seq INTEGER NOT NULL, step INTEGER NOT NULL, "
    "dtype TEXT NOT NULL, shape TEXT NOT NULL, nbytes INTEGER NOT NULL, min REAL, max REAL, "
    "mean REAL, std REAL, norm REAL, nan_count INTEGER NOT NULL, inf_count INTEGER NOT NULL, "
    "zero_count INTEGER NOT NULL, histogram BLOB NOT NULL, preview BLOB NOT NULL, "
    "PRIMARY KEY (value, seq)) STRICT, WITHOUT ROWID",
)

# A separate table: earlier recordings get it with their first branch.
BRANCH = """
CREATE TABLE IF NOT EXISTS branch (
  id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name TEXT NOT NULL, step INTEGER NOT NULL,
  at_seq INTEGER NOT NULL, how TEXT NOT NULL, data BLOB NOT NULL
) STRICT;
"""

SCHEMA = f"""{BRANCH}
CREATE TABLE run (
  id TEXT NOT NULL, name TEXT NOT NULL, argv TEXT NOT NULL, pid INTEGER NOT NULL,
  started_unix_ns INTEGER NOT NULL, level TEXT NOT NULL, writer TEXT NOT NULL,
  status INTEGER, error TEXT NOT NULL, finished_ns INTEGER, framework TEXT NOT NULL,
  framework_version TEXT NOT NULL, capabilities BLOB NOT NULL
) STRICT;
CREATE TABLE progress (
  seq INTEGER NOT NULL, time_ns INTEGER NOT NULL,
  dropped_blobs INTEGER NOT NULL, dropped_summaries INTEGER NOT NULL,
  dropped_executions INTEGER NOT NULL
) STRICT;
CREATE TABLE node (
  row INTEGER PRIMARY KEY, seq INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT NOT NULL,
  op TEXT NOT NULL, scope TEXT NOT NULL, phase TEXT NOT NULL, data BLOB NOT NULL
) STRICT;
CREATE INDEX node_seq ON node (seq);
CREATE INDEX node_id ON node (id);
CREATE TABLE value (
  row INTEGER PRIMARY KEY, seq INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT NOT NULL,
  dtype TEXT NOT NULL, shape TEXT NOT NULL, producer INTEGER, storage INTEGER NOT NULL,
  device TEXT NOT NULL, nbytes INTEGER
) STRICT;
CREATE INDEX value_seq ON value (seq);
CREATE INDEX value_id ON value (id);
CREATE TABLE gradient (
  seq INTEGER PRIMARY KEY, value INTEGER NOT NULL, gradient INTEGER NOT NULL
) STRICT;
CREATE TABLE step (
  step INTEGER PRIMARY KEY, start_seq INTEGER NOT NULL, start_ns INTEGER NOT NULL,
  end_seq INTEGER, end_ns INTEGER, observed INTEGER NOT NULL
) STRICT;
CREATE INDEX step_seq ON step (start_seq);
CREATE TABLE step_block (
  row INTEGER PRIMARY KEY, seq INTEGER NOT NULL, host INTEGER NOT NULL,
  until_ns INTEGER NOT NULL, cover_ns INTEGER NOT NULL,
  sums BLOB NOT NULL, late BLOB NOT NULL, data BLOB NOT NULL
) STRICT;
CREATE TABLE loss (
  row INTEGER PRIMARY KEY, seq INTEGER NOT NULL, step INTEGER NOT NULL, curve INTEGER NOT NULL,
  node INTEGER NOT NULL, times INTEGER NOT NULL, value REAL
) STRICT;
CREATE TABLE log (
  seq INTEGER PRIMARY KEY, step INTEGER NOT NULL, time_ns INTEGER NOT NULL,
  stream TEXT NOT NULL, text TEXT NOT NULL
) STRICT;
CREATE TABLE execution (
  seq INTEGER PRIMARY KEY, node INTEGER NOT NULL, step INTEGER NOT NULL, thread INTEGER NOT NULL,
  start_ns INTEGER NOT NULL, duration_ns INTEGER NOT NULL, flags INTEGER NOT NULL,
  times INTEGER NOT NULL
) STRICT;
CREATE INDEX execution_node ON execution (node, seq);
CREATE TABLE timed (
  first_seq INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL,
  start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, nodes BLOB NOT NULL, data BLOB NOT NULL
) STRICT;
CREATE TABLE placed (
  seq INTEGER PRIMARY KEY, worker INTEGER NOT NULL, lane INTEGER NOT NULL
) STRICT;
CREATE TABLE device (
  row INTEGER PRIMARY KEY, lane INTEGER NOT NULL, node INTEGER NOT NULL,
  called_ns INTEGER NOT NULL, start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX device_time ON device (end_ns, start_ns);
CREATE TABLE lane (lane INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
CREATE TABLE failure (seq INTEGER PRIMARY KEY, error TEXT NOT NULL) STRICT;
CREATE TABLE span (
  first_seq INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL,
  start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL
) STRICT;
CREATE TABLE host (
  row INTEGER PRIMARY KEY, kind TEXT NOT NULL, thread INTEGER NOT NULL, step INTEGER NOT NULL,
  start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL,
  function TEXT NOT NULL
) STRICT;
CREATE INDEX host_time ON host (end_ns, start_ns);
CREATE TABLE summary (
  value INTEGER NOT NULL, seq INTEGER NOT NULL, step INTEGER NOT NULL,
  dtype TEXT NOT NULL, shape TEXT NOT NULL, nbytes INTEGER NOT NULL,
  min REAL, max REAL, mean REAL, std REAL, norm REAL,
  nan_count INTEGER NOT NULL, inf_count INTEGER NOT NULL, zero_count INTEGER NOT NULL,
  histogram BLOB NOT NULL, preview BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX summary_value ON summary (value, seq);
CREATE TABLE measured (
  first_seq INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL, outputs BLOB NOT NULL,
  data BLOB NOT NULL
) STRICT;
CREATE TABLE blob (
  id INTEGER PRIMARY KEY, value INTEGER NOT NULL, seq INTEGER NOT NULL,
  dtype TEXT NOT NULL, shape TEXT NOT NULL, nbytes INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX blob_value ON blob (value, seq);
CREATE TABLE chunk (
  blob INTEGER NOT NULL, part INTEGER NOT NULL, data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX chunk_part ON chunk (blob, part);
CREATE TABLE pack (
  first_seq INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL, blob INTEGER NOT NULL,
  arrays INTEGER NOT NULL, nbytes INTEGER NOT NULL, outputs BLOB NOT NULL, data BLOB NOT NULL
) STRICT;
CREATE TABLE checksum (
  first INTEGER PRIMARY KEY, last INTEGER NOT NULL, data BLOB NOT NULL
) STRICT;
CREATE TABLE operand (
  row INTEGER PRIMARY KEY, seq INTEGER NOT NULL, port INTEGER NOT NULL, wrote INTEGER NOT NULL
) STRICT;
CREATE TABLE call (seq INTEGER PRIMARY KEY, attrs BLOB NOT NULL) STRICT;
CREATE TABLE layout (
  value INTEGER NOT NULL, seq INTEGER NOT NULL, strides TEXT NOT NULL, PRIMARY KEY (value, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE edit (
  seq INTEGER PRIMARY KEY, value INTEGER NOT NULL, at_seq INTEGER NOT NULL, step INTEGER NOT NULL,
  time_ns INTEGER NOT NULL, how TEXT NOT NULL
) STRICT;
CREATE TABLE source (file TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT;
CREATE TABLE document (
  row INTEGER PRIMARY KEY, seq INTEGER NOT NULL, kind TEXT NOT NULL, data BLOB NOT NULL
) STRICT;
"""

EXECUTION = "seq, node, step, thread, start_ns, duration_ns, flags"
RAN_LAST = (
    "SELECT max(seq) FROM execution WHERE seq <= ? AND NOT flags & 4 AND node = "  # 4: FAILED
    "(SELECT producer FROM value WHERE id = ? AND seq <= ? ORDER BY row DESC LIMIT 1)"
)
STEP_BLOCK = "row, seq, host, until_ns, cover_ns, sums, late"
HOST = "kind, thread, step, start_ns, end_ns, file, line, function"
SUMMARY = (
    "seq, step, dtype, shape, nbytes, min, max, mean, std, norm, "
    "nan_count, inf_count, zero_count, histogram, preview"
)


# For each chunk of a batch's arrays: its position, and the CRC-32 of `chunk_sum`.
SUMS = np.dtype([("blob", "<u8"), ("part", "<u4"), ("crc", "<u4")])


def array_sum(value: int, seq: int, dtype: str, shape: tuple[int, ...]) -> int:
    """The CRC-32 of the description of an array in its row of ``blob``."""
    return zlib.crc32(f"{value} {seq} {dtype} {shape_text(shape)}".encode())


def chunk_sum(data: bytes | memoryview, of_array: int) -> int:
    """The CRC-32 of a chunk of an array with that `array_sum`."""
    return crc32(data, of_array)


@lru_cache(1024)
def shape_text(shape: tuple[Size, ...]) -> str:
    """A shape as stored: ``"32,10"``, ``"?,10"``; ``""`` for a scalar."""
    return ",".join(["?" if size is None else str(size) for size in shape])


def spec_columns(spec: Spec) -> tuple[str, str, str, int | None]:
    """Columns dtype, shape, device and nbytes of table ``value``."""
    if isinstance(spec, OpaqueSpec):
        return printable(spec.type), OPAQUE, "", spec.nbytes
    return spec.dtype, shape_text(spec.shape), spec.device, None


@lru_cache(maxsize=4096)
def spec_of(dtype: str, shape: str) -> TensorSpec:
    """The spec of a stored dtype and shape.

    Raises:
        ValueError: The shape is damaged.
    """
    return _tensor_spec(dtype, shape, "")


@lru_cache(maxsize=4096)
def value_spec(dtype: str, shape: str, device: str = "", nbytes: int | None = None) -> Spec:
    """The spec in a row of table ``value``. Raises as `spec_of`."""
    if shape == OPAQUE:
        return OpaqueSpec(dtype, nbytes)
    return _tensor_spec(dtype, shape, device)


def _tensor_spec(dtype: str, shape: str, device: str) -> TensorSpec:
    sizes = shape.split(",") if shape else ()
    return TensorSpec(tuple(None if size == "?" else int(size) for size in sizes), dtype, device)


def summary_row(value: int, seq: int, step: int, summary: TensorSummary) -> tuple[Any, ...]:
    """A row of table ``summary``."""
    return (
        value,
        seq,
        step,
        summary.spec.dtype,
        shape_text(summary.spec.shape),
        summary.nbytes,
        summary.min,
        summary.max,
        summary.mean,
        summary.std,
        summary.norm,
        summary.nan_count,
        summary.inf_count,
        summary.zero_count,
        np.array(summary.histogram, dtype="<u8").tobytes(),
        np.array(summary.preview, dtype="<f8").tobytes(),
    )


def summary_of(row: tuple[Any, ...], *, blob: bool) -> TensorSummary:
    """The summary in a row with the columns ``dtype, shape, nbytes, ..., preview`` of `SUMMARY`.

    Raises:
        ValueError: The row is damaged.
    """
    dtype, shape, nbytes, low, high, mean, std, norm, nan, inf, zero, histogram, preview = row
    return TensorSummary(
        spec_of(dtype, shape),
        nbytes,
        low,
        high,
        mean,
        std,
        norm,
        nan,
        inf,
        zero,
        tuple(np.frombuffer(histogram, dtype="<u8").tolist()),
        tuple(np.frombuffer(preview, dtype="<f8").tolist()),
        blob,
    )
