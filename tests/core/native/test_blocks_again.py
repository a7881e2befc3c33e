"""Copies of outputs reuse the memory of earlier copies once nothing refers to those."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nodescope import native
from nodescope.ir.graph import Node

NODE = Node(1, "n1", "add", "elementwise", outputs=(1,))
PIECE = 4 << 20  # The size of a block, unless less memory is allowed.
SIZES = pytest.mark.parametrize("most_bytes", [4096, 1 << 20])


def sink_of(most_bytes: int) -> Any:
    assert native.NotedOutputs is not None
    return native.NotedOutputs(256, most_bytes, lambda: None, lambda: None, False)


def filled(sink: Any, number: int, size: int = 2048) -> tuple[Any, int, int]:
    """A block, with the place of the elements of one output."""
    array = np.full(size, number, dtype=np.uint8)
    assert sink(NODE, 1, 0, 0, 0, 1, (), (array,))
    block, begin, end, outputs, *_ = sink.take()
    assert outputs == 1
    assert begin < end - size
    return block, end - size, end


def address(block: Any) -> int:
    return np.frombuffer(block, np.uint8).ctypes.data


def test_what_is_taken_in_turn_shares_a_block() -> None:
    sink = sink_of(1 << 20)
    taken = [filled(sink, number) for number in range(100)]
    assert len({id(block) for block, _, _ in taken}) == 1
    places = [place for _, *ends in taken for place in ends]
    assert places == sorted(places)
    for number, (block, begin, end) in enumerate(taken):
        assert bytes(memoryview(block)[begin:end]) == bytes([number]) * 2048


def test_released_memory_is_reused() -> None:
    sink = sink_of(1 << 20)
    places = set()
    for number in range(20 * PIECE // 50_000):
        block, begin, end = filled(sink, number % 256, 48_000)
        assert bytes(memoryview(block)[begin:end]) == bytes([number % 256]) * 48_000
        places.add(address(block))
        del block
    assert len(places) == 2  # The block being filled and the one before it.


@SIZES
def test_a_block_in_use_does_not_change(most_bytes: int) -> None:
    sink = sink_of(most_bytes)
    size = most_bytes // 32
    blocks = [filled(sink, number, size) for number in range(200)]
    view, begin, end = memoryview(blocks[0][0]), *blocks.pop(0)[1:]
    blocks += [filled(sink, number, size) for number in range(200, 256)]
    for number, (block, start, last) in enumerate(blocks, 1):
        assert bytes(memoryview(block)[start:last]) == bytes([number]) * size
    assert bytes(view[begin:end]) == bytes(size)
    with pytest.raises(TypeError, match="read-only"):
        view[0] = 1


def test_a_lot_takes_no_more_than_it_may() -> None:
    taken: list[tuple[Any, ...]] = []
    assert native.NotedOutputs is not None
    sink = native.NotedOutputs(256, 4096, lambda: taken.append(sink.take()), lambda: None, False)
    for number in range(20):
        assert sink(NODE, 1, 0, 0, 0, 1, (), (np.full(1500, number, dtype=np.uint8),))
    taken.append(sink.take())
    assert [len(lot[4]) for lot in taken] == [2] * 10
    assert all(end - begin <= 4096 for _, begin, end, *_ in taken)
    assert not sink(NODE, 1, 0, 0, 0, 1, (), (np.zeros(4096, np.uint8),))  # More than the limit.


def test_nothing_is_taken_of_nothing() -> None:
    sink = sink_of(4096)
    filled(sink, 1)
    block, *others = sink.take()
    assert (len(block), *others) == (0, 0, 0, 0, [], [], b"", None, None)
