"""Placement: which partition runs which node, by annotation or by the cost model.

An annotated node (``worker:1``) runs where its annotation says. Without any annotation, the nodes
are put in a line: a forward node at its own position, a backward node beside the node that it
differentiates, every other node beside its largest operand. Among the positions that balance the
work within a tolerance, the line is cut where the fewest bytes cross.

Invariant: a function of the graph alone; no result depends on it.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nodescope.engine.execution.cost import CALL_NS, nanoseconds
from nodescope.ir.graph import GIVEN, Graph, Node, TensorSpec
from nodescope.ops.calls import call_of
from nodescope.passes.cost import nbytes

TOLERANCE = 0.2
"""The range in which a cut may move to save bytes, as a fraction of an equal share of the work."""


@dataclass(frozen=True)
class Placement:
    """Where the nodes of a graph run.

    Attributes:
        parts: The partitions' names: ``worker:0``, ``worker:1``.
        part_of: By node id, the position of its partition; without leaves.
        costs: Estimated nanoseconds of each partition.
        cut_bytes: Bytes of values that go from one partition to another, counted once for each that
            receives them.
    """

    parts: tuple[str, ...]
    part_of: Mapping[int, int]
    costs: tuple[float, ...]
    cut_bytes: int

    @property
    def balance(self) -> float:
        """The cost of the most expensive partition relative to an equal share; 1 is perfect."""
        total = sum(self.costs)
        return max(self.costs) * len(self.costs) / total if total else 1.0


def placed(graph: Graph, count: int = 2, tolerance: float = TOLERANCE) -> Placement:
    """Place a graph's nodes.

    Args:
        graph: Nodes in topological order.
        count: The number of partitions, unless nodes are annotated. Fewer if there are not enough
            nodes.
        tolerance: See `TOLERANCE`.
    """
    nodes = [node for node in graph.nodes if node.op not in GIVEN]
    specs = {value.id: value.tensor for value in graph.values}
    names = sorted({name for node in nodes if (name := worker_of(node.device))}, key=_number)
    if names:
        return described(graph, names, _annotated(nodes, specs, names))
    line = _Line(graph, nodes, specs)
    cuts = line.cuts(max(count, 1), tolerance)
    part_of = {node.id: bisect.bisect_right(cuts, line.rank[node.id]) for node in nodes}
    return described(graph, [f"worker:{i}" for i in range(len(cuts) + 1)], part_of)


def described(graph: Graph, parts: Sequence[str], part_of: Mapping[int, int]) -> Placement:
    """The costs and bytes of a given placement, such as one made by hand."""
    specs = {value.id: value.tensor for value in graph.values}
    costs = [0.0] * len(parts)
    for node in graph.nodes:
        if node.id in part_of:
            costs[part_of[node.id]] += cost_of(node, specs)
    crossing = sum(nbytes(specs[value]) for value, _ in transfers(graph, part_of))
    return Placement(tuple(parts), dict(part_of), tuple(costs), crossing)


def transfers(graph: Graph, part_of: Mapping[int, int]) -> dict[tuple[int, int], None]:
    """Each value that goes to another partition, with that partition, in order of first use."""
    home = {value: part_of[node.id] for node in graph.nodes if node.id in part_of
            for value in node.outputs}  # fmt: skip
    return {
        (value, part_of[node.id]): None
        for node in graph.nodes
        if node.id in part_of
        for value in node.inputs
        if home.get(value, part_of[node.id]) != part_of[node.id]
    }


def worker_of(device: str) -> str:
    """The worker of a device: ``worker:1`` for ``worker:1/cpu:0``; ``""`` if it names none."""
    first = device.partition("/")[0]
    kind, _, number = first.partition(":")
    return f"worker:{int(number or 0)}" if kind == "worker" and (number or "0").isdigit() else ""


def cost_of(node: Node, specs: Mapping[int, TensorSpec]) -> float:
    """Estimated nanoseconds of a node; of a kernel, those of the nodes that it covers."""
    bodies = [body for body in node.attrs.values() if isinstance(body, Graph)]
    if not bodies:
        return nanoseconds(call_of(node), specs)
    costs = []
    for body in bodies:
        inner = {value.id: value.tensor for value in body.values}
        costs.append(sum(cost_of(n, inner) for n in body.nodes if n.op not in GIVEN))
    rounds: Any = node.attrs.get("length", 1)
    return CALL_NS + max(costs) * (rounds if isinstance(rounds, int) else 1)


def _number(name: str) -> int:
    return int(name.partition(":")[2])


def _annotated(
    nodes: Sequence[Node], specs: Mapping[int, TensorSpec], names: Sequence[str]
) -> dict[int, int]:
    """Place nodes without an annotation with their largest operand, or else their first user."""
    numbers = {name: i for i, name in enumerate(names)}
    part_of = {node.id: numbers[name] for node in nodes if (name := worker_of(node.device))}
    home: dict[int, int] = {}
    for node in nodes:
        known = [value for value in node.inputs if value in home]
        if node.id not in part_of and known:
            part_of[node.id] = home[max(known, key=lambda value: nbytes(specs[value]))]
        if node.id in part_of:
            home.update(dict.fromkeys(node.outputs, part_of[node.id]))
    user_part: dict[int, int] = {}
    for node in reversed(nodes):
        if node.id not in part_of:
            part_of[node.id] = next((user_part[v] for v in node.outputs if v in user_part), 0)
        user_part.update(dict.fromkeys(node.inputs, part_of[node.id]))
    return part_of


class _Line:
    """The nodes lined up: those of one rank stay together.

    Attributes:
        rank: Position in the line, by node id.
    """

    def __init__(
        self, graph: Graph, nodes: Sequence[Node], specs: Mapping[int, TensorSpec]
    ) -> None:
        # `Node.forward` names a traced node; find the compiled node that stands for it.
        owner = {of: node.id for node in nodes for of in node.origin or (node.id,)}
        self.rank: dict[int, int] = {}
        made: dict[int, int] = {}
        for place, node in enumerate(nodes):
            rank: int | None = place
            if node.phase in ("backward", "optimizer"):
                rank = self.rank.get(owner.get(node.forward or 0, 0))
                known = [value for value in node.inputs if value in made]
                if rank is None and known:
                    rank = made[max(known, key=lambda value: nbytes(specs[value]))]
            if rank is not None:
                self.rank[node.id] = rank
                made.update(dict.fromkeys(node.outputs, rank))
        users: dict[int, tuple[int, int]] = {}  # by value: bytes and rank of its largest user
        for place, node in reversed([*enumerate(nodes)]):
            if node.id not in self.rank:  # computed from feeds alone, such as momentum
                known_users = [users[value] for value in node.outputs if value in users]
                self.rank[node.id] = max(known_users)[1] if known_users else place
                made.update(dict.fromkeys(node.outputs, self.rank[node.id]))
            size = sum(nbytes(specs[value]) for value in node.outputs)
            for value in node.inputs:
                users[value] = max(users.get(value, (-1, 0)), (size, self.rank[node.id]))
        costs: dict[int, float] = {}
        for node in nodes:
            rank = self.rank[node.id]
            costs[rank] = costs.get(rank, 0.0) + cost_of(node, specs)
        self.ranks = sorted(costs)
        self.ends = list(itertools.accumulate(costs[rank] for rank in self.ranks))
        self._crossing = self._bytes(nodes, specs, made)

    def _bytes(
        self, nodes: Iterable[Node], specs: Mapping[int, TensorSpec], made: Mapping[int, int]
    ) -> list[int]:
        """Bytes that cross the line after each rank: of values, and of feeds used on both sides."""
        first, last = dict(made), dict(made)
        for node in nodes:
            rank = self.rank[node.id]
            for value in node.inputs:
                first[value] = min(first.get(value, rank), rank)
                last[value] = max(last.get(value, rank), rank)
        at = {rank: i for i, rank in enumerate(self.ranks)}
        change = [0] * (len(self.ranks) + 1)
        for value, rank in first.items():
            change[at[rank]] += nbytes(specs[value])
            change[at[last[value]]] -= nbytes(specs[value])
        return list(itertools.accumulate(change))

    def cuts(self, count: int, tolerance: float) -> list[int]:
        """The first rank of every partition but the first, ascending."""
        groups = len(self.ranks)
        count = min(count, groups)
        share = self.ends[-1] / count if groups else 0.0
        cuts: list[int] = []
        previous = 0  # number of groups before the last cut
        for nth in range(1, count):
            target, slack = nth * share, share * tolerance / 2
            low = bisect.bisect_left(self.ends, target - slack) + 1
            high = bisect.bisect_right(self.ends, target + slack)
            nearest = bisect.bisect_left(self.ends, target)
            if nearest and target - self.ends[nearest - 1] < self.ends[nearest] - target:
                nearest -= 1
            candidates = range(low, high + 1) if low <= high else (nearest + 1,)
            most = groups - (count - nth)  # each later partition gets a group, too
            allowed = [c for c in candidates if previous < c <= most]
            if not allowed:
                allowed = [min(max(candidates[0], previous + 1), most)]
            previous = min(
                allowed, key=lambda c: (self._crossing[c - 1], abs(self.ends[c - 1] - target))
            )
            cuts.append(self.ranks[previous])
        return cuts
