"""Outputs that are read where an array's elements lie, and the same outputs read as buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nodescope import native
from nodescope.ir.graph import Node

NODE = Node(1, "n1", "add", "elementwise", outputs=(7,))
EXAMPLE = np.zeros((2, 3, 4), np.float32)[:, ::2]
BASE = np.arange(96.0).reshape(4, 6, 4)

ARRAYS = [
    BASE, BASE.T, BASE[::2, ::-1], BASE[:, :1], BASE[1, 2, 3:], np.float32(BASE)[0], BASE > 5,
    np.array(2.5), np.array([3 + 4j]), np.zeros((3, 0)), np.zeros(1 << 14), BASE.astype(">f8"),
    np.array(["a"]), BASE.astype(np.int8), BASE.astype(np.uint16)[..., None], np.zeros([1] * 9),
    np.asfortranarray(BASE), np.broadcast_to(np.float16(2), (3, 2)),
]  # fmt: skip


def noted(array: Any, *example: Any, digests: bool) -> tuple[bool, bytes]:
    assert native.NotedOutputs is not None
    sink = native.NotedOutputs(256, 1 << 20, lambda: None, lambda: None, digests, *example)
    was_noted = sink(NODE, 1, 2, 3, 4, 5, (EXAMPLE, BASE), (array,))
    block, begin, end, *_ = sink.take()
    return was_noted, bytes(memoryview(block)[begin:end])


@pytest.mark.parametrize("digests", [False, True])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_both_ways_note_the_same(array: Any, digests: bool) -> None:
    assert native.NotedOutputs is not None, "no native core"
    assert noted(array, EXAMPLE, digests=digests) == noted(array, digests=digests)


def test_an_array_that_changes_while_room_is_made_is_not_noted() -> None:
    assert native.NotedOutputs is not None, "no native core"
    array = np.arange(600.0)

    def full() -> None:
        array.shape = (20, 30)
        sink.take()

    sink = native.NotedOutputs(256, 8192, full, lambda: None, False, EXAMPLE)
    assert sink(NODE, 1, 2, 3, 4, 5, (), (np.ones(600),))
    assert not sink(NODE, 1, 2, 3, 4, 5, (), (array,))
    assert sink(NODE, 1, 2, 3, 4, 5, (), (array,))
