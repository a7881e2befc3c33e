"""Fuse: neighbours that run over the same elements are merged into one kernel.

There are three kinds of kernels, named by ``pattern``: ``elementwise``; ``reduction``, an
elementwise loop that ends in reductions over the first or the last axes; and ``rows``, over the
last axes only, which computes further elements or results from a row's reductions. The NumPy back
end gets only the first kind, and only where a loop over tiles is faster than one call per node.

Nodes are processed in order, and each joins the kernels of its operands, nearest first.

Invariant: no result changes; the kernels' graph has no cycle; phases and devices do not mix, and
recomputed nodes stay separate; each pair of neighbours that looks fusible but is not fused has a
reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from nodescope.console_output import shape_words
from nodescope.ir.graph import Node
from nodescope.passes import graph_pass
from nodescope.passes.draft import Draft
from nodescope.passes.fusing.clusters import Clusters
from nodescope.passes.fusing.kernel import make_kernel, too_large
from nodescope.passes.fusing.roles import Role, Shape, role_of, rows_of

TILED = 1 << 18
"""Elements from which NumPy runs several nodes faster tile by tile: from then on, a float32
intermediate result (1 MiB) and its operands no longer stay in the second-level cache between
nodes.
"""
ROW = 1 << 16
"""Limit of elements in a row that a kernel traverses more than once: they must stay in the
caches.
"""


@dataclass(slots=True)
class _Group:
    """A kernel under construction.

    Attributes:
        space: The shape of its loop.
        axes: The axes of its reductions; None if it has none.
        rows: Whether anything is computed from the results of its reductions.
        reduced: Positions of nodes whose output is no larger than a reduction's.
        bits: Positions of its nodes, as a number.
        inputs, made: Value ids.
    """

    space: Shape
    axes: Shape | None
    phase: str
    device: str
    bits: int
    inputs: set[int]
    made: set[int]
    rows: bool = False
    reduced: int = 0
    nodes: list[int] = field(default_factory=list)


@graph_pass("fuse", stage=70, help="fuse neighbouring nodes over the same elements into one kernel")
def fuse(draft: Draft) -> None:
    """Build kernels, and note why other neighbours stay separate."""
    _Fusing(draft).run()


class _Fusing:
    def __init__(self, draft: Draft) -> None:
        self.draft, self.for_c = draft, draft.options.backend == "c"
        self.clusters = Clusters(draft)
        self.roles: dict[int, Role] = {}
        self.groups: dict[int, _Group] = {}
        self.makers: dict[int, int] = {}
        self.users: dict[int, int] = {}
        self.given = set(draft.outputs)
        for i, node in enumerate(self.clusters.nodes):
            bit = 1 << i
            for value in node.inputs:
                self.users[value] = self.users.get(value, 0) | bit
            for value in node.outputs:
                self.makers[value] = i
            role = role_of(draft, node)
            if role is not None:
                self.roles[i] = role
                self.groups[i] = _Group(
                    role.space, role.axes, node.phase, node.device, bit, set(node.inputs),
                    set(node.outputs), reduced=bit if role.axes else 0, nodes=[i],
                )  # fmt: skip

    def run(self) -> None:
        refused: list[tuple[int, int, str]] = []
        for i in self.roles:
            sources = {self.makers[v] for v in self.clusters.nodes[i].inputs if v in self.makers}
            for source in sorted(sources & self.roles.keys(), reverse=True):
                reason = self._fused(source, i)
                if reason:
                    refused.append((source, i, reason))
        root, nodes = self.clusters.root, self.clusters.nodes
        for source, i, reason in refused:
            if root[source] != root[i]:
                self.draft.unfused(nodes[source].id, nodes[i].id, reason)
        for cluster in sorted(self.groups):
            if root[cluster] == cluster and self.clusters.size(cluster) > 1:
                self._make(self.clusters.members(cluster), self.groups[cluster])

    def _make(self, members: list[Node], group: _Group) -> None:
        pattern = "elementwise"
        if group.axes is not None:
            pattern = "rows" if group.rows else "reduction"
        make_kernel(self.draft, members, pattern, f" over {group.space or 'a scalar'}")

    def _fused(self, source: int, user: int) -> str:
        """Merge the kernels of two neighbours, or return why not."""
        root = self.clusters.root
        first, second = root[source], root[user]
        if first == second:
            return ""
        for node in (source, user):
            if self.roles[node].reason:
                return self.roles[node].reason
        a, b = self.groups[first], self.groups[second]
        edges = [
            (before, i) for i in b.nodes for before in self.clusters.before[i]
            if a.bits >> before & 1
        ]  # fmt: skip
        reason = self._outer(a, b)
        for edge in edges:
            reason = reason or self._shapes(*edge, a, b)
        reason = reason or self._caps(a, b)
        if reason:
            return reason
        between = self.clusters.apart((first, second))
        if between is not None:
            return (f"{self.clusters.nodes[between].name} depends on one and feeds "
                    "the other: fusing them would create a cycle")  # fmt: skip
        self._join(edges, a, b)
        return ""

    def _outer(self, a: _Group, b: _Group) -> str:
        """Check phase, device, and whether fusing is worthwhile."""
        if a.phase != b.phase:
            return f"phases differ: {a.phase} and {b.phase}"
        if a.phase == "recompute":
            return "recomputed nodes are not fused, so that they run late"
        if a.device != b.device:
            return f"devices differ: {a.device} and {b.device}"
        elements = math.prod(b.space)
        if not self.for_c and elements < TILED:
            return (f"{elements:,} elements are fewer than {TILED:,}, the size from which "
                    "NumPy runs a kernel in tiles faster than node by node")  # fmt: skip
        return ""

    def _shapes(self, source: int, user: int, a: _Group, b: _Group) -> str:
        """Check whether both fit into one loop."""
        name = self.clusters.nodes[user].name
        if a.axes is None and b.axes is None:
            return "" if a.space == b.space else _differ(a.space, b.space)
        if a.axes is None:
            if a.space == b.space:
                return ""
            if self._level(b, user) and a.space == self.roles[user].out:
                return ""
            return f"{_differ(a.space, b.space)}, over axes {b.axes} of which it reduces"
        if b.axes is not None and (b.axes != a.axes or b.space != a.space):
            return (f"reductions differ: over axes {a.axes} of {shape_words(a.space)} "
                    f"and {b.axes} of {shape_words(b.space)}")  # fmt: skip
        if not self._level(a, source):
            return "" if a.space == b.space else _differ(a.space, b.space)
        # From here on, the user takes the result of a reduction.
        if a.axes[-1] != len(a.space) - 1:
            return f"{name} needs the result of the whole reduction over the first axes {a.axes}"
        row = math.prod(a.space[i] for i in a.axes)
        shape, user_space = self.roles[source].out, self.roles[user].space
        if b.axes is None and b.space == shape:
            return ""
        if b.space != a.space or (shape != rows_of(a.space, a.axes) and shape != ()):
            return f"shapes differ: {shape}, reduced from {a.space}, and {user_space}"
        if row > ROW:
            return (f"{name} goes over rows of {row:,} elements a second time, more than the "
                    f"{ROW:,} that stay in cache")  # fmt: skip
        return ""

    def _level(self, group: _Group, node: int) -> bool:
        """Whether the node's output is as small as a reduction's."""
        return bool(group.reduced >> node & 1)

    def _caps(self, a: _Group, b: _Group) -> str:
        produced, nodes, bits = a.made | b.made, (*a.nodes, *b.nodes), a.bits | b.bits
        inputs = len((a.inputs | b.inputs) - produced)
        values = [v for v in produced if v in self.given or self.users.get(v, 0) & ~bits]
        return too_large(len(nodes), inputs, len(values))

    def _join(self, edges: list[tuple[int, int]], a: _Group, b: _Group) -> None:
        reduced = a.reduced | b.reduced
        after = a.axes is not None and any(self._level(a, source) for source, _ in edges)
        if after and b.axes is None and b.space != a.space:
            reduced |= b.bits
        elif b.axes is not None and a.axes is None and a.space != b.space:
            reduced |= a.bits
        kept = self.clusters.join(tuple(self.clusters.root[index] for index in edges[0]))
        whole = a if a.axes is not None else b
        self.groups[kept] = _Group(
            whole.space, whole.axes, a.phase, a.device, a.bits | b.bits, a.inputs | b.inputs,
            a.made | b.made, a.rows or b.rows or after, reduced, [*a.nodes, *b.nodes],
        )  # fmt: skip


def _differ(first: Shape, other: Shape) -> str:
    return f"shapes differ: {shape_words(first)} and {shape_words(other)}"
