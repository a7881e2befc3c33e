"""Executions in columns: packed rows are restored, and damaged ones are refused."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import pytest

from nodescope.errors import RecordingError
from nodescope.events import GraphExtended
from nodescope.ir.graph import Node
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.timed.collected import Collected, unpacked
from nodescope.record.timed.packing import MOST, Row
from nodescope.record.timed.packing import unpacked as unpack

Times = list[tuple[int, int, int, int, int]]


def random_times(seed: int, many: int) -> Times:
    draw = random.Random(seed)
    widths = [draw.choice((0, 1, 200, 60_000, 1 << 31, 1 << 40)) for _ in range(5)]
    low = draw.choice((0, -5, 1 << 62))
    node = draw.choice((0, 1 << 30, -(1 << 40)))
    times: Times = []
    at = 0
    for _ in range(many):
        at += draw.randint(-min(widths[3], at), widths[3])
        times.append((
            node + draw.randint(0, widths[0]), draw.randint(0, widths[1]) // (1 + at % 3),
            low + draw.randint(0, widths[2]), at, at + draw.randint(0, widths[4]),
        ))  # fmt: skip
    return times


def collect(lots: list[tuple[int, Times]], ran: dict[int, int]) -> Collected:
    batch = Collected(ran)
    for first, times in lots:
        batch.add(first, times)
    assert batch.close() == []
    assert batch.end_ns == max(row[4] for _, times in lots for row in times)
    return batch


@pytest.mark.parametrize("seed", range(25))
def test_packed_rows_are_unpacked_unchanged(seed: int) -> None:
    times = random_times(seed, 300)
    ran = {times[0][0]: 41}
    expected = []
    counts = dict(ran)
    lots, seq = [], 1 << 40
    for start in range(0, 300, 60):
        lots.append((seq, times[start : start + 60]))
        for node, step, thread, begin, end in lots[-1][1]:
            counts[node] = counts.get(node, 0) + 1
            expected.append([seq, node, step, thread, begin, end - begin, 0, counts[node]])
            seq += 1
        seq += seed  # Other records take these numbers.
    batch = collect(lots, ran)
    assert len(batch) == 300
    (row,) = batch.rows
    assert unpacked(row).tolist() == expected
    assert row[:2] == (expected[0][0], expected[-1][0])
    assert row[2:4] == (min(row[4] for row in expected), max(row[4] + row[5] for row in expected))
    assert ran == counts


def test_a_common_run_takes_few_bytes() -> None:
    times = [(1 + at % 100, at // 100, 1 << 60, 5000 * at, 5000 * at + 900) for at in range(20_000)]
    (row,) = collect([(1, times)], {}).rows
    assert len(row[4]) + len(row[5]) < 6 * len(times)


def test_rows_hold_no_more_than_readers_take() -> None:
    batch = collect([(1 + at, [(1, 1, 1, at, at)] * 255) for at in range(0, 255 * 700, 255)], {})
    sizes = [len(unpacked(row)) for row in batch.rows]
    assert sum(sizes) == 255 * 700
    assert max(sizes) <= MOST
    assert all(before[1] < row[0] for before, row in zip(batch.rows, batch.rows[1:], strict=False))


def test_few_are_rows_of_their_own() -> None:
    ran = {7: 1}
    batch = Collected(ran)
    batch.add(5, [(7, 1, 2, 30, 40), (7, 1, 2, 50, 61)])
    assert batch.close() == [(5, 7, 1, 2, 30, 10, 0, 2), (6, 7, 1, 2, 50, 11, 0, 3)]
    assert (batch.rows, ran) == ([], {7: 3})


def damages(row: Row) -> list[tuple[int, int, list[int], bytes]]:
    """Rows whose description does not fit their contents."""
    nodes = np.frombuffer(row[4], np.int64).tolist()
    cells = msgspec.msgpack.decode(row[5])

    def changed(place: int, cell: object) -> bytes:
        return msgspec.msgpack.encode([*cells[:place], cell, *cells[place + 1 :]])

    first, last = row[:2]
    many = np.array([[1, MOST - 1]], np.int64)
    return [
        (first, last, nodes[:-1], row[5]),
        (first, last + 1, nodes, row[5]),
        (first + 1, last, nodes, row[5]),
        *((first, last, nodes, changed(0, count)) for count in (0, -1, 299, 1 << 50, "300")),
        *((first, last, nodes, changed(1, step)) for step in (1 << 63, (1 << 64) - 1)),
        *(
            (first, last, nodes, changed(place, column))
            for place in range(3, 10)
            for column in (b"", b"B", b"x" * 301, cells[place][:-1], cells[place] + b"0", None)
        ),
        (first, last, nodes, changed(7, b"r" + np.array([[5, 300]], np.int64).tobytes())),
        (first, last, nodes, changed(8, b"r" + np.array([[5, 300]], np.int64).tobytes())),
        *(
            (first, last, nodes, changed(3, b"r" + np.array(pairs, np.int64).tobytes()))
            for pairs in ([[1, 300]], [[0, 1], [1, 1 << 62]], [[0, 301]], [[0, 301], [1, -1]])
        ),
        (first, last, nodes, changed(4, b"r" + np.array([[-1, 300]], np.int64).tobytes())),
        (first, last, nodes, changed(4, b"r" + many.tobytes())),
        (first, last, nodes, row[5][:-3]),
        (first, last, nodes, b""),
    ]


def test_damaged_rows_are_refused() -> None:
    (row,) = collect([(10, random_times(1, 300))], {}).rows
    for first, last, nodes, data in damages(row):
        with pytest.raises((ValueError, OverflowError, IndexError, msgspec.MsgspecError)):
            unpack(first, last, np.array(nodes, np.int64), data)


def recorded(path: Path) -> Path:
    recorder = Recorder(path, level="timing")
    nodes = tuple(Node(number, f"n{number}", "exp", "elementwise") for number in range(1, 5))
    recorder.emit(GraphExtended(nodes, ()))
    note = recorder.times_sink()
    assert note is not None
    for start in range(1000):
        note(1 + start % 4, 1, 7, start, start + 1)
        if start % 250 == 249:
            assert recorder.flush(30)
    assert recorder.close()
    return path


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE timed SET nodes = x'00'",
        "UPDATE timed SET nodes = zeroblob(80)",
        "UPDATE timed SET data = x'93'",
        "UPDATE timed SET last_seq = last_seq + 300",
        "UPDATE timed SET last_seq = first_seq - 1",
        "UPDATE timed SET data = (SELECT data FROM timed ORDER BY first_seq DESC LIMIT 1)",
    ],
)
def test_a_damaged_file_is_refused_in_one_way(damage: str, tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope")
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM timed").fetchone()[0] >= 4
        if damage.endswith("LIMIT 1)"):  # Put the executions of the last row into the first one.
            damage += " WHERE first_seq = (SELECT min(first_seq) FROM timed)"
            database.execute("UPDATE timed SET data = zeroblob(9) WHERE first_seq > 600")
        database.execute(damage)
        database.commit()
    for ask in (
        lambda recording: recording.executions(),
        lambda recording: recording.state_at(900),
        lambda recording: recording.history(1),
        lambda recording: recording.costs(),
        lambda recording: recording.timeline(0, 2000, 10),
    ):
        with Recording.open(path) as recording, pytest.raises(RecordingError, match="damaged"):
            ask(recording)
