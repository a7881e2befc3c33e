"""Graphs drawn by Hypothesis, which shrinks failures; programs that tests start do without it.

Invariant: the same choices make the same graph.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.conformance.graphs.making import Case
from tests.conformance.graphs.random_graph import make


class Drawn:
    """Choices from Hypothesis."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))


@st.composite
def graphs(draw: Any, most: int = 25) -> Case:
    """A strategy of Hypothesis for graphs."""
    return make(Drawn(draw), "drawn", most=most)
