"""Statistics computed when an output is noted are those computed from its copy later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nodescope import native
from nodescope.ir.graph import Node
from nodescope.record.noted_outputs import FINITE, ORDER, OUTPUT, START, NotedLot, statistics_of
from nodescope.record.summary import BINS

DTYPES = ("?", "i1", "u2", "i4", "u8", "i8", "f2", "f4", "f8")
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40)
Array = np.ndarray[Any, Any]


def executions_of(outputs: Sequence[Array]) -> list[tuple[Array, ...]]:
    """Executions with one output each, and one with copies of all of them."""
    together = [tuple(output.copy("K") for output in outputs)] if 2 <= len(outputs) <= 4 else []
    return [*((output,) for output in outputs), *together]


def lot_of(executions: Sequence[tuple[Array, ...]], *, digests: bool) -> NotedLot:
    assert native.NotedOutputs is not None
    sink = native.NotedOutputs(256, 1 << 20, lambda: None, lambda: None, digests)
    for some in executions:
        node = Node(1, "n", "add", "elementwise", outputs=tuple(range(1, len(some) + 1)))
        assert sink(node, 1, 1, 7, 10, 30, some[:1], some)
    *taken, _ = sink.take()
    return NotedLot(*taken)


def same(outputs: Sequence[Array]) -> int:
    """Compare both ways; return how much less memory the statistics take."""
    executions = executions_of(outputs)
    copies, digests = lot_of(executions, digests=False), lot_of(executions, digests=True)
    later, at_once = (statistics_of([lot], [5]) for lot in (copies, digests))
    places = [column for column in range(OUTPUT) if column != START]
    assert np.array_equal(later.outputs[:, places], at_once.outputs[:, places])
    for name in ("executions", "identities", "shapes"):
        assert np.array_equal(getattr(later, name), getattr(at_once, name))
    # Elements that are not in C order may be added in their order in memory.
    ordered = later.outputs[:, ORDER] == 1
    assert later.moments[ordered].tobytes() == at_once.moments[ordered].tobytes()  # bit by bit
    for name in ("histograms", "previews"):
        assert getattr(later, name).tobytes() == getattr(at_once, name).tobytes()
    some = later.outputs[:, FINITE] > 0
    wanted, moments = later.moments[some], at_once.moments[some]
    most = np.abs(wanted[:, :2]).max(axis=1, keepdims=True)
    assert (np.abs(moments - wanted) <= 1e-12 * (most + np.abs(wanted))).all()
    assert later[7:] == at_once[7:]
    return copies.copied - digests.copied


@st.composite
def outputs(draw: st.DrawFn) -> Array:
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(arrays.array_shapes(min_dims=0, max_dims=3, max_side=14))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    array = np.array(rng.standard_normal(shape) * 10.0 ** draw(st.integers(-3, 3))).astype(dtype)
    if dtype.kind == "f" and array.size and draw(st.booleans()):
        array.flat[rng.integers(array.size)] = draw(st.sampled_from(SPECIAL))
    turned = array.T if draw(st.booleans()) else array
    return turned[::2] if turned.ndim and len(turned) > 1 and draw(st.booleans()) else turned


@given(st.lists(outputs(), min_size=1, max_size=5))
def test_the_statistics_are_the_same(outputs: list[Array]) -> None:
    assert same([output for output in outputs if output.size] or [np.zeros(3)]) >= 0


@pytest.mark.parametrize(
    ("output", "less"),
    [
        (np.arange(6000, dtype=np.float32), True),
        (np.arange(64, dtype=np.float32), False),  # the elements take less room
        (np.arange(6000.0).reshape(60, 100).T, True),
        (np.full(2000, 1e200), False),  # squares that float64 cannot hold need the elements
        (np.full(2000, np.nan), True),
        (np.zeros((1, 300, 1), np.int64), True),
    ],
    ids=["large", "small", "turned", "huge", "NaN", "axes of one"],
)
def test_statistics_replace_the_copy_where_they_take_less_room(output: Array, less: bool) -> None:
    assert (same([output]) > output.nbytes // 2) == less


def test_statistics_with_another_number_of_bins_are_refused() -> None:
    lot = lot_of([(np.arange(6000.0),)], digests=True)
    assert native.summarise_noted is not None
    first = np.zeros(1, np.int64).tobytes()
    with pytest.raises(ValueError, match="no block of noted executions"):
        native.summarise_noted((lot.piece,), first, 1, 1, BINS - 1)


def test_a_lot_with_a_damaged_digest_is_refused() -> None:
    lot = lot_of([(np.arange(6000.0),)], digests=True)
    block, begin, end, _ = lot.piece
    content = bytearray(memoryview(block)[begin:end])
    words = np.frombuffer(content, np.int64)
    (code,) = np.flatnonzero(words == (256 | ord("d")))
    words[code + 2] -= 8  # the bytes of the digest
    assert native.summarise_noted is not None
    with pytest.raises(ValueError, match="no block of noted executions"):
        native.summarise_noted(((bytes(content), 0, len(content)),), bytes(8), 1, 1, BINS)


@pytest.mark.parametrize("nbytes", [0, -1, -(1 << 63), 47_999])
def test_a_digest_of_another_size_is_refused(nbytes: int) -> None:
    lot = lot_of([(np.arange(6000.0),)], digests=True)
    block, begin, end, _ = lot.piece
    content = bytearray(memoryview(block)[begin:end])
    words = np.frombuffer(content, np.int64)
    (place,) = np.flatnonzero(words == 48_000)  # the bytes of the elements
    words[place] = nbytes
    assert native.summarise_noted is not None
    with pytest.raises(ValueError, match="no block of noted executions"):
        native.summarise_noted(((bytes(content), 0, len(content)),), bytes(8), 1, 1, BINS)


def test_other_numbers_than_those_in_the_block_are_refused() -> None:
    lot = lot_of(executions_of([np.arange(600.0), np.ones(3), np.zeros((2, 2))]), digests=False)
    summarise, many, outputs = native.summarise_noted, len(lot), lot.outputs
    assert summarise is not None
    assert (many, outputs) == (4, 6)
    assert summarise((lot.piece,), bytes(8), many, outputs, BINS)
    for executions, others in ((3, 6), (5, 6), (4, 5), (4, 7), (0, 0), (-1, 6), (4, 1 << 62)):
        with pytest.raises(ValueError, match=r"no block|no such number"):
            summarise((lot.piece,), bytes(8), executions, others, BINS)
    block, begin, end, _ = lot.piece
    for cut in range(8, end - begin, 8):
        with pytest.raises(ValueError, match="no block of noted executions"):
            summarise(((block, begin, end - cut),), bytes(8), many, outputs, BINS)
    with pytest.raises(ValueError, match="no block of noted executions"):
        summarise(((block, begin + 4, end),), bytes(8), many, outputs, BINS)
