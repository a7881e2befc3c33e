"""Clusters: which nodes are fused, without creating cycles.

A set of nodes is an integer with one bit per node; for each cluster, its predecessors are known,
with every cluster treated as one node.

Invariant: the graph of clusters has no cycle; a union that would create one is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodescope.ir.graph import Node
from nodescope.passes.draft import Draft


class Clusters:
    """The non-leaf nodes of a draft, initially each in its own cluster.

    Nodes are named by their position in ``nodes``, clusters by that of one of their nodes.

    Attributes:
        nodes: In topological order.
        index: Position of a node by its id.
        before: Per node: positions of its direct predecessors, by value or by control.
        root: Per node: its cluster.
    """

    def __init__(self, draft: Draft) -> None:
        self.nodes: list[Node] = []
        self.index: dict[int, int] = {}
        self.before: list[tuple[int, ...]] = []
        self._after: list[list[int]] = []  # per node: positions of its direct successors
        self._ancestors: list[int] = []
        makers: dict[int, int] = {}
        for node in draft:
            control = node.control_inputs
            if node.is_leaf and not control and not node.inputs:
                continue  # nothing precedes it, so no cycle leads through it
            i = len(self.nodes)
            self.index[node.id] = i
            self.nodes.append(node)
            predecessors = {makers[value] for value in node.inputs if value in makers}
            if control:
                predecessors.update(self.index[c] for c in control if c in self.index)
            for value in node.outputs:
                makers[value] = i
            ancestors = 0
            for predecessor in predecessors:
                ancestors |= self._ancestors[predecessor] | 1 << predecessor
            self.before.append(tuple(predecessors))
            self._after.append([])
            for predecessor in predecessors:
                self._after[predecessor].append(i)
            self._ancestors.append(ancestors)
        self.root = list(range(len(self.nodes)))
        self._members = {i: [i] for i in self.root}
        self._bits = [1 << i for i in self.root]

    def members(self, cluster: int) -> list[Node]:
        """The nodes of a cluster, in topological order of the draft."""
        return [self.nodes[i] for i in sorted(self._members[cluster])]

    def size(self, cluster: int) -> int:
        """The number of its nodes."""
        return len(self._members[cluster])

    def apart(self, clusters: Sequence[int]) -> int | None:
        """A node outside the clusters that depends on one of them, and on which another depends.

        Returns:
            Its position; None if the clusters can be merged.
        """
        bits = 0
        for cluster in clusters:
            bits |= self._bits[cluster]
        for cluster in clusters:
            for member in self._members[cluster]:
                for source in self.before[member]:
                    if not bits >> source & 1 and self._ancestors[self.root[source]] & bits:
                        return source
        return None

    def _leads_out(self, cluster: int, joined: set[int]) -> bool:
        """Whether a direct successor of a cluster is in none of these."""
        root, after = self.root, self._after
        return any(
            root[next_] not in joined
            for member in self._members[cluster]
            for next_ in after[member]
        )

    def join(self, clusters: Sequence[int]) -> int:
        """Merge clusters, which must not be `apart`; return the new cluster."""
        kept = min(clusters)
        bits = ancestors = 0
        for cluster in clusters:
            bits |= self._bits[cluster]
            ancestors |= self._ancestors[cluster]
        ancestors &= ~bits
        more = 0  # new predecessors for the clusters after some of the merged ones
        joined = set(clusters)
        for cluster in clusters:
            missing = ancestors & ~self._ancestors[cluster]
            if missing and self._leads_out(cluster, joined):
                more |= missing
        for cluster in clusters:
            if cluster != kept:
                absorbed = self._members.pop(cluster)
                self._members[kept] += absorbed
                for member in absorbed:
                    self.root[member] = kept
        self._bits[kept], self._ancestors[kept] = bits, ancestors
        if more:
            self._spread(kept, more)
        return kept

    def _spread(self, cluster: int, ancestors: int) -> None:
        """Add ancestors to all clusters after this one; those that have them are not followed."""
        root, known = self.root, self._ancestors
        pending = [cluster]
        while pending:
            for member in self._members[pending.pop()]:
                for next_ in self._after[member]:
                    other = root[next_]
                    if other != cluster and ancestors & ~known[other]:
                        known[other] |= ancestors
                        pending.append(other)
