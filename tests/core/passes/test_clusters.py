"""What lies between clusters is found, whatever was merged before."""

from __future__ import annotations

import random

import pytest

from nodescope.ir.graph import Node
from nodescope.passes.fusing.clusters import Clusters
from tests.depth import some


def nodes_of(draw: random.Random, many: int) -> list[Node]:
    """Random nodes, each of which needs some before it."""
    near = draw.choice((2, 5, many))
    nodes = []
    for number in range(1, many + 1):
        before = range(max(1, number - near), number)
        inputs = draw.sample(before, min(len(before), draw.choice((0, 1, 1, 2, 3))))
        node = Node(number, f"n{number}", "add", "elementwise", tuple(inputs), outputs=(number,))
        nodes.append(node)
    return nodes


def lies_between(clusters: Clusters, chosen: list[int]) -> bool:
    """Whether a path leads out of the chosen clusters and back, by walking all of them."""
    after: dict[int, set[int]] = {}
    for place, before in enumerate(clusters.before):
        for source in before:
            after.setdefault(clusters.root[source], set()).add(clusters.root[place])
    reached = {next_ for root in chosen for next_ in after.get(root, ())} - {*chosen}
    waiting = [*reached]
    while waiting:
        for next_ in after.get(waiting.pop(), ()):
            if next_ in chosen:
                return True
            if next_ not in reached:
                reached.add(next_)
                waiting.append(next_)
    return False


@pytest.mark.parametrize("seed", some(range(200), 8))
def test_clusters_never_form_a_cycle(seed: int) -> None:
    draw = random.Random(seed)
    clusters = Clusters(nodes_of(draw, draw.choice((6, 15, 40))))  # type: ignore[arg-type]
    merged = 0
    for _ in range(60):
        roots = sorted(set(clusters.root))
        if len(roots) < 2:
            break
        chosen = draw.sample(roots, min(len(roots), draw.choice((2, 2, 3, 5))))
        between = clusters.apart(chosen)
        assert (between is not None) == lies_between(clusters, chosen)
        if between is None:
            kept = clusters.join(chosen)
            merged += 1
            assert kept == min(chosen)
            assert {clusters.root[place] for place in chosen} == {kept}
    assert merged
