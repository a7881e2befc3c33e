"""Captures of other libraries' arrays: made once, within bounds, even if the library raises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nodescope import arrays
from nodescope.events import NodeFinished
from nodescope.ir.graph import Node, TensorSpec
from nodescope.record.captures import SharedCapture, capture, known_bytes, resolved

NODE = Node(1, "op", "op", "other", outputs=(7, 8))


class Away:
    """An array elsewhere, of eight bytes."""

    def __init__(self, *, size: int | None = 1, broken: bool = False, nbytes: int = 8) -> None:
        self.size, self.broken, self.asked, self.nbytes = size, broken, 0, nbytes

    def resolve(self) -> Any:
        self.asked += 1
        return np.arange(4.0)[1:2]


class AwayOps(arrays.OpaqueValues):
    def spec(self, array: Away) -> TensorSpec:
        return TensorSpec((array.size,), "float64")

    def nbytes(self, array: Away) -> int:
        if array.broken:
            raise RuntimeError("the device is gone")
        return array.nbytes

    def capture(self, array: Away, level: Any) -> Any:
        return array


@pytest.fixture(autouse=True)
def _away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_known", {**arrays._known, Away: AwayOps()})


def finished(*outputs: Any) -> NodeFinished:
    return NodeFinished(NODE, (), outputs, 1, 1, 0, 1)


def test_a_capture_for_two_is_resolved_once_into_its_own_memory() -> None:
    away = Away()
    (content,), lost, _ = capture(finished(away), "values", 100, shared=True)
    assert (content[0], lost) == (7, 0)
    assert isinstance(content[1], SharedCapture)
    first, second = resolved(content[1]), resolved(content[1])
    assert first is second
    assert first.base is None
    assert away.asked == 1


@pytest.mark.parametrize(("room", "kept"), [(999, 0), (1000, 1), (1999, 1), (2000, 2)])
def test_what_has_no_room_is_lost(room: int, kept: int) -> None:
    captured, lost, _ = capture(finished(Away(nbytes=1000), Away(nbytes=1000)), "values", room)
    assert (len(captured), lost) == (kept, 2 - kept)


def test_what_raises_is_lost_and_the_rest_is_not() -> None:
    captured, lost, _ = capture(finished(Away(broken=True), Away()), "summary", 100)
    assert ([value for value, _ in captured], lost) == ([8], 1)


def test_sizes() -> None:
    assert known_bytes([Away(), Away(), np.zeros(2)]) == 32
    assert known_bytes([Away(), Away(size=None)]) is None
    assert known_bytes([Away(broken=True)]) is None
