"""Fates: the outcome of each traced node, and the origins of each final node.

Every change that a pass makes is a `Rewrite`. Following them in order gives each traced node its
fate, each final node its origins, and each traced value the value that replaces it.

Invariant: every traced node has a fate, and every final non-leaf node an origin. Ids are never
reused within one lowering.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from nodescope.ir.graph import Graph
from nodescope.ir.provenance import Fate, FateKind, Rewrite


class Unfused(msgspec.Struct, frozen=True):
    """Two nodes that look fusible, and why they were not fused.

    Attributes:
        producer, consumer: Ids of the nodes before the pass; nodes inside kernels keep them.
        reason: In words, with names and numbers.
    """

    producer: int
    consumer: int
    reason: str

    def __str__(self) -> str:
        return f"@{self.producer} and @{self.consumer} are not fused: {self.reason}"


class Provenance:
    """The derivation of a final graph from a traced one.

    Args:
        traced: The graph before the first pass.
        final: The graph after the last pass.
        rewrites: All changes between them, in order.
        values: Values of the traced graph that stand for others already; see `value`.
    """

    def __init__(self, traced: Graph, final: Graph, rewrites: Sequence[Rewrite]) -> None:
        self.traced, self.final, self.rewrites = traced, final, tuple(rewrites)
        self._stands: dict[int, int] = {}
        carriers: dict[int, list[int]] = {node.id: [node.id] for node in traced.nodes}
        origins: dict[int, set[int]] = {node.id: {node.id} for node in traced.nodes}
        by: dict[int, list[str]] = {}
        kinds: dict[int, FateKind] = {}
        stands_for: dict[int, set[int]] = {node.id: {node.id} for node in traced.nodes}
        for rewrite in self.rewrites:
            if rewrite.only_reorders:
                continue
            known: set[int] = set()
            for before in rewrite.before:
                known |= origins.get(before, set())
            for after in rewrite.after:
                origins.setdefault(after, set()).update(known)
            removed = [b for b in rewrite.before if b not in rewrite.after]
            touched: set[int] = set()
            for before in rewrite.before:
                touched |= stands_for.get(before, set())
            for traced_id in touched:
                now = carriers[traced_id]
                if rewrite.change == "recomputed":
                    now = [*now, *(a for a in rewrite.after if a not in now)]
                else:
                    kept = [n for n in now if n not in removed]
                    now = [*kept, *(a for a in rewrite.after if a not in kept)]
                carriers[traced_id] = now
                for after in rewrite.after:
                    stands_for.setdefault(after, set()).add(traced_id)
                by.setdefault(traced_id, []).append(f"{rewrite.pass_name}/{rewrite.rule}")
                kinds[traced_id] = rewrite.change
            if rewrite.change != "recomputed":
                for before in removed:
                    stands_for.pop(before, None)
            self._stands.update(rewrite.values)
        alive = {node.id for node in final.nodes}
        self._origins = {node.id: tuple(sorted(origins.get(node.id, ()))) for node in final.nodes}
        self.fates: dict[int, Fate] = {}
        for node in traced.nodes:
            into = tuple(n for n in carriers[node.id] if n in alive)
            self.fates[node.id] = Fate(
                node.id, kinds.get(node.id, "kept"), into, tuple(by.get(node.id, ()))
            )
        self._inside = {
            value: node.id
            for node in final.nodes
            if node.op == "fused"
            for member in node.attrs["body"].nodes
            for value in member.outputs
        }
        self._made = {value for node in final.nodes for value in node.outputs}

    def origin(self, node: int) -> tuple[int, ...]:
        """Ids of the traced nodes that a final node replaces."""
        return self._origins[node]

    def value(self, value: int) -> int | None:
        """The value of the final graph that replaces a traced one.

        None if there is none; `kernel` tells whether it is computed inside a kernel.
        """
        final = self._follow(value)
        return final if final in self._made else None

    def kernel(self, value: int) -> tuple[int, int] | None:
        """The kernel in which a traced value is computed, and its value in the kernel's body."""
        final = self._follow(value)
        return None if final not in self._inside else (self._inside[final], final)

    def _follow(self, value: int) -> int:
        while value in self._stands:
            value = self._stands[value]
        return value


def with_origins(graph: Graph, origins: Mapping[int, Iterable[int]]) -> Graph:
    """The graph with `Node.origin` set."""
    return msgspec.structs.replace(
        graph,
        nodes=tuple(
            msgspec.structs.replace(node, origin=tuple(origins[node.id])) for node in graph.nodes
        ),
    )
