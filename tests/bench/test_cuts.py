"""The cuts of the samples: complete, and as documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cuts import HAND, by_hand, graph_of
from nodescope.engine.execution.placement import TOLERANCE, Placement, placed

DOCS = Path(__file__).parents[2] / "docs" / "ray.md"


def _words(placement: Placement) -> str:
    return f"{placement.cut_bytes:,}, {placement.balance:.2f}"


@pytest.mark.parametrize(("name", "parts"), HAND)
def test_the_documented_cuts(name: str, parts: int) -> None:
    graph = graph_of(name)
    hand = by_hand(graph, parts, HAND[name, parts])
    assert set(hand.part_of.values()) == set(range(parts))
    cuts = [hand, placed(graph, parts, TOLERANCE), placed(graph, parts, 1.0)]
    row = f"| `{name}.py` | {parts} | {' | '.join(map(_words, cuts))} |"
    assert row in DOCS.read_text().replace("**", "")
