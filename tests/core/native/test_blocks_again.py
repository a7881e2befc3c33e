"""Memory for copies of outputs is used again once nobody else has it, and not before."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope import native
from nodescope.ir.graph import Node

NODE = Node(1, "n1", "add", "elementwise", outputs=(1,))
BYTES = 4096


def filled(sink: Any, number: int) -> tuple[bytes, int]:
    """A block in which the elements of one output take most of the room."""
    array = np.full(BYTES // 2, number, dtype=np.uint8)
    assert sink(NODE, 1, 0, 0, 0, 1, (), (array,))
    block, used, outputs, _, _ = sink.take()
    assert outputs == 1
    return block, used


def sink_of() -> Any:
    assert native.NotedOutputs is not None
    return native.NotedOutputs(256, BYTES, lambda: None, lambda: None)


def test_a_block_that_was_let_go_is_used_again() -> None:
    sink = sink_of()
    places, others = set(), []
    for number in range(50):
        block, used = filled(sink, number)
        assert block[used - BYTES // 2 : used] == bytes([number]) * (BYTES // 2)
        places.add(id(block))
        del block
        others.append(bytes(BYTES))  # this would take its place
    assert len(places) == 1


def test_a_block_that_somebody_has_stays_as_it_is() -> None:
    sink = sink_of()
    blocks = [filled(sink, number) for number in range(50)]
    view = memoryview(blocks.pop(0)[0])
    blocks += [filled(sink, number) for number in range(50, 100)]
    for number, (block, used) in enumerate(blocks, 1):
        assert block[used - BYTES // 2 : used] == bytes([number]) * (BYTES // 2)
    assert len({id(block) for block, _ in blocks}) == len(blocks)
    assert bytes(view).count(bytes(BYTES // 2)) >= 1
