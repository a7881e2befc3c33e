"""Statistics in columns: packed rows are restored, and damaged ones are refused."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nodescope import native
from nodescope.errors import RecordingError
from nodescope.record.measured import packing
from nodescope.record.measured.measured_table import values_of
from nodescope.record.measured.statistics import OutputSpec, Statistics, joined
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.schema import summary_row
from nodescope.record.summary import BINS, PREVIEW, summarise
from nodescope.record.timed.packing import column_of_rows, rows_of
from tests.core.record.runs import chain, finished

SPECS = (
    OutputSpec("float32", "2,3", 24),
    OutputSpec("bool", "", 1),
    OutputSpec("uint64", "9", 72),
    OutputSpec("float64", "1,1", 8),
)
ANY = st.integers(0, 63).map(lambda bits: (1 << bits) - 1) | st.integers(-(1 << 63), (1 << 63) - 1)
FAULTS = (ValueError, OverflowError, IndexError, msgspec.MsgspecError)


def statistics_of(seed: int, many: int = 120) -> tuple[Statistics, list[Any]]:
    """Statistics in columns, and the rows that they stand for."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    low, seq, step = draw.choice((0, -7, 1 << 60)), draw.choice((1, 1 << 50)), draw.choice((0, 9))
    kinds, summaries, heads = [], [], []
    for _ in range(many):
        kind = draw.randrange(len(SPECS))
        shape = tuple(map(int, SPECS[kind].shape.split(","))) if SPECS[kind].shape else ()
        array = np.asarray(rng.standard_normal(shape) * 9).astype(SPECS[kind].dtype)
        if array.dtype.kind == "f" and draw.random() < 0.3:
            array[...] = draw.choice((np.nan, np.inf, 0.0, array.flat[0]))
            array.flat[-1] = draw.choice((np.nan, 1.0))
        seq += draw.choice((0, 1, 300))
        step += draw.random() < 0.1
        heads.append((low + draw.randrange(40), seq, step))
        kinds.append(kind)
        summaries.append(summarise(array))
    values, seqs, steps = np.array(heads, dtype=np.int64).T
    moments = [[s.min or 0, s.max or 0, s.mean or 0, s.std or 0, s.norm or 0] for s in summaries]
    previews = np.zeros((many, PREVIEW))
    histograms = np.zeros((many, BINS), dtype=np.int64)
    for at, summary in enumerate(summaries):
        previews[at, : len(summary.preview)] = summary.preview
        histograms[at, : len(summary.histogram)] = summary.histogram
    counts = np.array([(s.nan_count, s.inf_count, s.zero_count) for s in summaries]).T
    columns = Statistics(
        seqs, values, steps, np.array(kinds), SPECS, *counts, np.array(moments), histograms,
        previews,
    )  # fmt: skip
    return columns, [summary_row(*h, s) for h, s in zip(heads, summaries, strict=True)]


@pytest.mark.parametrize("seed", range(20))
def test_packed_rows_are_unpacked_unchanged(seed: int) -> None:
    columns, rows = statistics_of(seed)
    assert repr(columns.rows()) == repr(rows)
    first, last, values, data = packing.packed(columns)
    assert (first, last) == (rows[0][1], rows[-1][1])
    pack = packing.unpacked(first, last, values_of(values), data)
    assert repr(pack.rows()) == repr(rows)
    some = np.array([3, 0, 77])
    assert repr(pack.rows(some)) == repr([rows[at] for at in some])


def test_several_lots_are_one_row() -> None:
    (first, rows), (second, more) = statistics_of(1), statistics_of(2)
    second = second._replace(specs=SPECS[::-1], kinds=len(SPECS) - 1 - second.kinds)
    assert repr(joined([first, second]).rows()) == repr(rows + more)


@pytest.mark.parametrize("core", [True, False])
def test_rows_are_as_narrow_as_their_numbers(core: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not core:
        monkeypatch.setattr(native, "column_of_rows", lambda rows: None)
    most = [0, 1, 255, 256, 65_535, 65_536, (1 << 32) - 1, 1 << 32, (1 << 63) - 1]
    rows = np.zeros((3 * len(most), 4), np.int64)
    for row, number in enumerate([*most, *most[::-1], *most]):
        rows[row, row % 4] = number
    packed = column_of_rows(rows)
    assert len(packed) == 1 + len(rows) + 4 * 3 * (3 + 2 * 2 + 4 * 2 + 8 * 2)
    assert np.array_equal(rows_of(packed, len(rows), 4), rows)
    negative = np.array([[-1, 2], [3, 4]])
    assert np.array_equal(rows_of(column_of_rows(negative), 2, 2), negative)


@given(
    hnp.arrays(np.int64, st.tuples(st.integers(1, 40), st.integers(1, 5)), elements=ANY),
    st.sampled_from([np.int64, np.uint32]),
)
def test_the_core_packs_rows_as_python_does(rows: np.ndarray[Any, Any], kind: Any) -> None:
    rows = rows.astype(kind)
    with pytest.MonkeyPatch.context() as patch:
        native_rows = column_of_rows(rows)
        patch.setattr(native, "column_of_rows", lambda rows: None)
        assert column_of_rows(rows) == native_rows
    assert np.array_equal(rows_of(native_rows, *rows.shape), rows)


def test_a_common_output_takes_few_bytes() -> None:
    columns, rows = statistics_of(3, 8000)
    size = sum(len(part) for part in packing.packed(columns) if isinstance(part, bytes))
    assert size < 150 * len(rows)  # A row in the table ``summary`` takes 440 bytes.


def damages(row: packing.Row) -> list[tuple[int, int, list[int], bytes]]:
    """Rows whose description does not fit their contents."""
    first, last, values, data = row
    seen, cells = values_of(values).tolist(), msgspec.msgpack.decode(data)

    def changed(place: int, cell: object) -> bytes:
        return msgspec.msgpack.encode([*cells[:place], cell, *cells[place + 1 :]])

    def runs(*pairs: tuple[int, int]) -> bytes:
        return b"r" + np.array(pairs, np.int64).tobytes()

    ones, bins = bytes([1] * 119), bytes(120 * BINS)
    histograms = [
        b"w" + ones + b"\x01" + bins + b"0",
        b"w" + ones + b"\x01" + bins[1:],
        b"w" + ones + b"\x03" + bins + bytes(2 * BINS),
        b"w" + ones + b"\x02" + bins,
        b"w" + ones + b"\x08" + bins[BINS:] + b"\xff" * (8 * BINS),
        b"w" + ones,
        b"w",
    ]
    specs = [
        ["float32", "2,3", 25], ["float32", "0", 0], ["object", "2,3", 48], ["complex64", "3", 24],
        ["float32", "2,-3", -24], ["float32", "9999999999999,2", 8 * 9999999999999],
        ["float32", "²", 8], ["float32", "?", 4], ["float32", "2,", 8], ["float32", 3, 4],
    ]  # fmt: skip
    return [
        (first, last, seen[:-1], data),
        (first, last + 1, seen, data),
        (first + 1, last, seen, data),
        *((first, last, seen, changed(0, count)) for count in (0, -1, 119, 1 << 50, "120")),
        *((first, last, seen, changed(1, step)) for step in ("1", None, 2.5)),
        *((first, last, seen, changed(2, [spec, *cells[2][1:]])) for spec in specs),
        (first, last, seen, changed(2, cells[2][:1])),
        *(
            (first, last, seen, changed(place, column))
            for place in range(3, 13)
            for column in (b"", b"B", b"x" * 121, cells[place][:-1], cells[place] + b"0", None)
        ),
        *((first, last, seen, changed(3, runs(pair))) for pair in ((0, 121), (1, 120), (-1, 120))),
        (first, last, seen, changed(4, runs((-1, 120)))),
        (first, last, seen, changed(6, runs((4, 120)))),
        *((first, last, seen, changed(place, runs((-1, 120)))) for place in (7, 8, 9)),
        *((first, last, seen, changed(place, runs((100, 120)))) for place in (7, 8, 9)),
        (first, last, seen, changed(11, b"b" + b"\xff" * (120 * BINS))),
        *((first, last, seen, changed(11, column)) for column in histograms),
        (first, last, seen, data[:-3]),
        (first, last, seen, b""),
    ]


def test_damaged_rows_are_refused() -> None:
    row = packing.packed(statistics_of(4)[0])
    for number, (first, last, values, data) in enumerate(damages(row)):
        try:
            packing.unpacked(first, last, np.array(values, np.int64), data)
        except FAULTS:
            continue
        pytest.fail(f"damage {number} was not seen")


def recorded(path: Path) -> Path:
    recorder = Recorder(path, level="summary")
    graph = chain(["a", "b", "c"])
    recorder.emit(graph)
    for at in range(900):
        recorder.emit(finished(graph.nodes[at % 3], np.full((2, 3), at, np.float32), at=at))
        if at % 100 == 99:
            assert recorder.flush(30)
    assert recorder.close()
    return path


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE measured SET outputs = x'00'",
        "UPDATE measured SET outputs = zeroblob(80)",
        "UPDATE measured SET data = x'93'",
        "UPDATE measured SET last_seq = last_seq + 300",
        "UPDATE measured SET last_seq = first_seq - 1",
    ],
)
def test_a_damaged_file_is_refused_in_one_way(damage: str, tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope")
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM measured").fetchone()[0], "no native core"
        database.execute(damage)
        database.commit()
    questions: tuple[Callable[[Recording], object], ...] = (
        lambda recording: recording.latest_at(1),
        lambda recording: recording.means(2),
        lambda recording: recording.kept_of([3]),
        lambda recording: recording.history(1),
        lambda recording: recording.statistics.at(900),
    )
    for ask in questions:
        with Recording.open(path) as recording, pytest.raises(RecordingError, match="damaged"):
            ask(recording)
