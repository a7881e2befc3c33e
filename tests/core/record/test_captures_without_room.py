"""Arrays of other libraries for which the queue has no room: their statistics are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nodescope import arrays
from nodescope.events import NodeFinished
from nodescope.ir.graph import Node
from nodescope.record.captures import capture, resolved
from nodescope.record.summary import TensorSummary


class Elsewhere:
    """An array of another library."""

    def __init__(self, elements: Any) -> None:
        self.elements = elements


class ElsewhereArrays(arrays.OpaqueValues):
    def nbytes(self, array: Any) -> int:
        return int(array.elements.nbytes)

    def capture(self, array: Any, level: Any) -> Any:
        return array.elements.copy()


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_known", {**arrays._known, Elsewhere: ElsewhereArrays()})


def finished(*outputs: Any) -> NodeFinished:
    node = Node(1, "mm", "matmul", "matmul", outputs=tuple(range(1, len(outputs) + 1)))
    return NodeFinished(node, (), outputs, 1, 0, 0, 1)


def test_statistics_are_kept_where_elements_have_no_room() -> None:
    large, small = Elsewhere(np.arange(1000.0)), Elsewhere(np.ones(3))
    captured, lost, reduced = capture(finished(large, small), "values", 100)
    assert (lost, reduced) == (0, 1)
    statistics, whole = (resolved(content) for _, content in captured)
    assert isinstance(statistics, TensorSummary)
    assert statistics.max == 999
    assert whole.tolist() == [1, 1, 1]


def test_what_was_requested_as_statistics_is_not_reduced() -> None:
    assert capture(finished(Elsewhere(np.arange(1000.0))), "summary", 100)[1:] == (0, 0)
