"""Provenance: compilers' reports on their graphs: rewrites, fates of nodes, costs, memory.

Invariant: plain data, carried unchanged by events, recordings and messages. Ids are those of
captured graphs (`nodescope.events.GraphCaptured`).
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

Change = Literal["renamed", "rewritten", "folded", "merged", "fused", "recomputed", "eliminated"]
CHANGES: tuple[Change, ...] = get_args(Change)
"""The possible changes of a node, stated for the nodes before. ``recomputed``: the node stays, and
a copy of it also runs elsewhere.
"""

FateKind = Literal["kept"] | Change
FATES: tuple[FateKind, ...] = ("kept", *CHANGES)
Bound = Literal["memory", "compute"]


class Rewrite(msgspec.Struct, frozen=True):
    """One change of a graph.

    Attributes:
        pass_name: The pass.
        rule: The pass's rule, such as ``multiply_one``.
        change: The change to the nodes before.
        before: Ids of the changed nodes. They are removed unless they are also among ``after``, or
            ``change`` is ``recomputed``.
        after: Ids of the nodes that do their work now. If they equal ``before`` and are several,
            the nodes were only reordered, which is not a fate.
        values: For values of nodes before: the value that replaces it.
        note: Further explanation.
    """

    pass_name: str
    rule: str
    change: Change
    before: tuple[int, ...]
    after: tuple[int, ...] = ()
    values: tuple[tuple[int, int], ...] = ()
    note: str = ""

    @property
    def only_reorders(self) -> bool:
        """Whether the nodes were only reordered, each unchanged."""
        return len(self.before) > 1 and set(self.before) == set(self.after)

    def __str__(self) -> str:
        after = f" -> {', '.join(f'@{node}' for node in self.after)}" if self.after else ""
        before = ", ".join(f"@{node}" for node in self.before)
        note = f" ({self.note})" if self.note else ""
        return f"{self.pass_name}/{self.rule}: {self.change} {before}{after}{note}"


class Fate(msgspec.Struct, frozen=True):
    """The outcome of one traced node.

    Attributes:
        node: The node's id.
        kind: ``kept`` if nothing happened to it, else the last change.
        into: Ids of the final nodes that do its work; none if it was eliminated.
        by: Pass and rule of each change on its way, in order, as ``pass/rule``.
    """

    node: int
    kind: FateKind
    into: tuple[int, ...]
    by: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.kind == "kept":
            return "kept"
        into = f" into {', '.join(f'@{node}' for node in self.into)}" if self.into else ""
        return f"{self.kind}{into} by {', '.join(self.by)}"


class KernelCost(msgspec.Struct, frozen=True):
    """The estimated cost of one executed node.

    Attributes:
        flops: Arithmetic operations.
        bytes: Read and written together.
        bound: Its limiting resource on the machine that compiled it.
    """

    flops: int
    bytes: int
    bound: Bound


class MemoryReport(msgspec.Struct, frozen=True):
    """Memory of a plan's intermediate results.

    Attributes:
        planned_bytes: Size of the arena: the peak after planning.
        unplanned_bytes: The peak if each result had its own memory, released after its last use.
        total_bytes: All intermediate results together.
        in_place: Number of results that take the place of an operand.
    """

    planned_bytes: int
    unplanned_bytes: int
    total_bytes: int
    in_place: int = 0
