"""What compilers say of the graphs that they make: rewrites, fates of nodes, costs, memory.

Invariant: plain data, which events, recordings and messages carry as it is. Ids are those of
captured graphs (`nodescope.events.GraphCaptured`).
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

Change = Literal["renamed", "rewritten", "folded", "merged", "fused", "recomputed", "eliminated"]
CHANGES: tuple[Change, ...] = get_args(Change)
"""What can happen to a node, told of the nodes before. ``recomputed``: it stays, and a copy of it
runs elsewhere as well."""

FateKind = Literal["kept"] | Change
FATES: tuple[FateKind, ...] = ("kept", *CHANGES)
Bound = Literal["memory", "compute"]


class Rewrite(msgspec.Struct, frozen=True):
    """One change of a graph.

    Attributes:
        pass_name: The pass.
        rule: Which of its rules, such as ``multiply_one``.
        change: What happened to the nodes before.
        before: Ids of the nodes that the change is about. They are gone, unless they are among
            ``after`` as well, or ``change`` is ``recomputed``.
        after: Ids of the nodes that do their work now; several nodes that are all those before
            only run in another order, which is no fate.
        values: For values of nodes before: the value that stands for it now.
        note: What else there is to say, in words.
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
        """Whether the nodes only run in another order, and each is what it was."""
        return len(self.before) > 1 and set(self.before) == set(self.after)

    def __str__(self) -> str:
        after = f" -> {', '.join(f'@{node}' for node in self.after)}" if self.after else ""
        before = ", ".join(f"@{node}" for node in self.before)
        note = f" ({self.note})" if self.note else ""
        return f"{self.pass_name}/{self.rule}: {self.change} {before}{after}{note}"


class Fate(msgspec.Struct, frozen=True):
    """What became of one traced node.

    Attributes:
        node: Its id.
        kind: ``kept`` if nothing happened to it, else the last change.
        into: Ids of the final nodes that do its work; none if it is eliminated.
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
    """What one node that runs costs by the compiler's estimate.

    Attributes:
        flops: Arithmetic operations.
        bytes: Read and written together.
        bound: What limits it on the machine that compiled it.
    """

    flops: int
    bytes: int
    bound: Bound


class MemoryReport(msgspec.Struct, frozen=True):
    """What intermediate results of a plan take.

    Attributes:
        planned_bytes: The arena: the most that is held at once after planning.
        unplanned_bytes: The most that is held at once if each result gets memory of its own that
            is let go after its last use.
        total_bytes: All intermediate results together.
        in_place: Results that take the place of an operand.
    """

    planned_bytes: int
    unplanned_bytes: int
    total_bytes: int
    in_place: int = 0
