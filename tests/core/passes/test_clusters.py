"""Nodes between clusters are found, whatever was merged before."""

from __future__ import annotations

import random
from typing import Any

import pytest

from nodescope.ir.graph import Node
from nodescope.passes.fusing.clusters import Clusters
from tests.depth import some


def nodes_of(draw: random.Random, many: int) -> list[Node]:
    """Random nodes, each depending on some earlier ones."""
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


class Counted(list[int]):
    """The predecessors of clusters, with a count of reads."""

    reads = 0

    def __getitem__(self, place: Any) -> Any:
        self.reads += 1
        return super().__getitem__(place)


def reads_of_merging(steps: int) -> int:
    """Of a chain in which each link has a branch of its own, which is merged into it."""
    nodes = []
    for link in range(1, 3 * steps, 3):
        branch, total = link + 1, link + 2
        needs = {link: (link - 3,) if nodes else (), branch: (), total: (link, branch)}
        nodes += [
            Node(id, f"n{id}", "add", "elementwise", inputs, outputs=(id,))
            for id, inputs in needs.items()
        ]
    clusters = Clusters(nodes)  # type: ignore[arg-type]
    clusters._ancestors = counted = Counted(clusters._ancestors)
    for place in range(0, 3 * steps - 3, 3):
        assert clusters.apart((place, place + 1)) is None
        clusters.join((place, place + 1))
    return counted.reads


def test_merging_looks_at_what_changes_and_at_nothing_else() -> None:
    few, many = reads_of_merging(50), reads_of_merging(400)
    assert many < 10 * few
