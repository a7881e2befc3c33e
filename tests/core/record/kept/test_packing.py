"""Arrays in a row: packed arrays are restored, and damaged rows are refused."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from nodescope import native
from nodescope.record.kept import packing
from nodescope.record.measured.measured_table import values_of
from tests.core.record.measured.test_packing import FAULTS, SPECS, statistics_of
from tests.depth import some

NBYTES = [spec.nbytes for spec in SPECS]


def packed(seed: int) -> tuple[packing.Pack, list[tuple[int, int, bytes]]]:
    """Arrays in a row, and value, seq and elements of each."""
    columns, draw = statistics_of(seed)[0], random.Random(seed)
    pieces = [draw.randbytes(NBYTES[kind]) for kind in columns.kinds.tolist()]
    starts = np.cumsum([0, *map(len, pieces[:-1])])
    elements = b"".join(pieces)
    cells = zip(columns.values.tolist(), columns.seqs.tolist(), pieces, strict=True)
    return packing.packed(columns, starts, len(elements), lambda: (elements, b"")), [*cells]


@pytest.mark.parametrize("seed", range(10))
def test_packed_rows_are_unpacked_unchanged(seed: int) -> None:
    pack, cells = packed(seed)
    kept = packing.taken((pack.first_seq, pack.last_seq, pack.outputs, pack.data))
    arrays = packing.arrays_of(kept, pack.gather()[0])
    assert [(value, seq, array.tobytes()) for value, seq, array in arrays] == cells
    assert (pack.first_seq, pack.last_seq, pack.arrays) == (cells[0][1], cells[-1][1], len(cells))
    steps = statistics_of(seed)[0].steps
    assert kept.steps.tolist() == steps.tolist()


def test_damaged_rows_are_refused() -> None:
    pack, _ = packed(4)
    first, last, values = pack.first_seq, pack.last_seq, values_of(pack.outputs)
    cells = msgspec.msgpack.decode(pack.data)

    def changed(place: int, cell: object) -> bytes:
        return msgspec.msgpack.encode([*cells[:place], cell, *cells[place + 1 :]])

    def runs(number: int, count: int) -> bytes:
        return b"r" + np.array([number, count], np.int64).tobytes()

    specs = [["float32", "2,3", 25], ["object", "2,3", 48], ["float32", "2,-3", -24]]
    damages = [
        (last, values[:-1], pack.data),
        (last + 1, values, pack.data),
        *((last, values, changed(0, count)) for count in (0, -1, 119, 1 << 50, "120")),
        *((last, values, changed(1, step)) for step in ("1", None, 2.5)),
        *((last, values, changed(2, nbytes)) for nbytes in (0, -1, pack.nbytes - 1, "1")),
        *((last, values, changed(3, [spec, *cells[3][1:]])) for spec in specs),
        (last, values, changed(3, cells[3][:1])),
        *(
            (last, values, changed(place, column))
            for place in range(4, 9)
            for column in (b"", b"B", b"x" * 121, cells[place][:-1], cells[place] + b"0", None)
        ),
        *((last, values, changed(4, runs(*pair))) for pair in ((0, 121), (1, 120), (-1, 120))),
        *((last, values, changed(place, runs(-1, 120))) for place in (5, 7, 8)),
        # The bytes of the pack limit the number of arrays.
        (last, values, changed(8, runs(0, 120))),
        (last, values, pack.data[:-3]),
        (last, values, b""),
    ]
    for number, (end, outputs, data) in enumerate(damages):
        try:
            packing.unpacked(first, end, outputs, data)
        except FAULTS:
            continue
        pytest.fail(f"damage {number} was not seen")


@pytest.mark.parametrize("seed", some(range(200), 40))
def test_equal_elements_are_gathered_once(seed: int) -> None:
    """Whatever the arrays are; what is alike in part is told apart."""
    assert native.place_elements is not None
    assert native.gather_elements is not None
    draw = random.Random(seed)
    pool = [draw.randbytes(draw.choice((1, 8, 63, 64, 65, 400, 5000))) for _ in range(6)]
    for piece in pool[:3]:
        place = draw.randrange(len(piece))
        pool.append(piece[:place] + bytes([piece[place] ^ 1]) + piece[place + 1 :])
    blocks, rows, pieces = [], [], []
    for nth in range(draw.randint(1, 4)):
        block = b"before"
        for _ in range(draw.choice((0, 1, 30))):
            pieces.append(draw.choice(pool))
            rows.append([0, 0, 0, 0, 0, 0, 0, 0, 0, len(pieces[-1]), nth, len(block), 1, 0])
            block += pieces[-1]
        blocks.append((block + b"rest", 6, len(block)))
    outputs = np.array(rows, dtype=np.int64)
    nbytes, starts = native.place_elements(tuple(blocks), outputs, b"")
    memory, changed = native.gather_elements(tuple(blocks), outputs, b"", starts, nbytes)
    elements = bytes(memory)
    assert (len(elements), changed) == (nbytes, b"")
    for piece, start in zip(pieces, np.frombuffer(starts, np.int64).tolist(), strict=True):
        assert elements[start : start + len(piece)] == piece
    small = sum(len(piece) for piece in pieces if len(piece) < 64)
    assert len(elements) == small + sum(len(piece) for piece in {*pieces} if len(piece) >= 64)


@pytest.mark.parametrize(
    ("shape", "strides"), [((2, 3), (4, 24)), ((6, 1), (-4, 4)), ((0, 6), (4, 4))]
)
def test_turned_elements_stay_within_their_output(
    shape: tuple[int, int], strides: tuple[int, int]
) -> None:
    """Axes that do not fill the output's memory are not followed."""
    assert native.gather_elements is not None
    row = np.zeros(14, np.int64)
    row[9], row[11], row[12], row[13] = 24, 0, -1, 2
    content, sizes = bytes(range(24)), np.array([*shape, *strides], np.int64)
    gathered, changed = native.gather_elements(((content, 0, 24),), row, sizes, bytes(8), 24)
    assert (bytes(gathered), changed) == (content, b"")


def test_turned_elements_of_other_sizes_are_not_followed() -> None:
    assert native.gather_elements is not None
    row, content = np.zeros(14, np.int64), bytes(range(9))
    row[9], row[12], row[13] = 9, -1, 2
    sizes = np.array([3, 1, 3, 3], np.int64)
    elements, _ = native.gather_elements(((content, 0, 9),), row, sizes, bytes(8), 9)
    assert bytes(elements) == content


@pytest.mark.parametrize(
    ("place", "number"),
    [
        (10, 1),
        (10, -1),
        (11, -1),
        (11, 9),
        (9, 0),
        (9, 9),
        (9, 1 << 62),
        (13, 2),
        (13, -1),
        (13, 9),
    ],
)
def test_outputs_beyond_their_block_are_refused(place: int, number: int) -> None:
    assert native.place_elements is not None
    assert native.gather_elements is not None
    row = np.zeros(14, np.int64)
    row[9], row[11], row[place] = 8, 8, number
    with pytest.raises(ValueError, match="no outputs of these blocks"):
        native.place_elements(((bytes(24), 8, 16),), row.tobytes(), bytes(16))
    with pytest.raises(ValueError, match="no outputs of these blocks"):
        native.gather_elements(((bytes(24), 8, 16),), row.tobytes(), bytes(16), bytes(8), 8)
    with pytest.raises(ValueError, match="no block"):
        native.place_elements(((bytes(16), 0, 17),), b"", b"")


@pytest.mark.parametrize(("starts", "nbytes"), [(bytes(7), 8), (bytes(8), 9), (bytes(8), -1)])
def test_places_of_other_outputs_are_refused(starts: bytes, nbytes: int) -> None:
    assert native.gather_elements is not None
    row = np.zeros(14, np.int64)
    row[9], row[11] = 8, 8
    blocks = ((bytes(24), 8, 16),)
    assert len(native.gather_elements(blocks, row.tobytes(), b"", bytes(8), 8)[0]) == 8
    with pytest.raises(ValueError, match="no places of these outputs"):
        native.gather_elements(blocks, row.tobytes(), b"", starts, nbytes)
