"""Lifetimes: how long values are held in a given order of nodes, and how many bytes.

Fed, constant and returned values are not counted: they are held anyway. A view lives in the memory
of its base; a kernel counts as one node.

Invariant: depends only on the order and on specs; reshaping is assumed never to copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from nodescope.ir.graph import Node, TensorSpec
from nodescope.ops.traits import traits_of
from nodescope.passes.cost import VIEWS, nbytes


@dataclass(frozen=True)
class Lifetimes:
    """Lifetimes of the values of nodes in an order.

    Attributes:
        base: By value id: the value in whose memory it lives; itself unless it is a view.
        size: By base: bytes; only for counted values.
        begin, end: By base: positions of its node and of its last use, through any view.
        live: By position: bytes held while that node runs.
    """

    base: dict[int, int]
    size: dict[int, int]
    begin: dict[int, int]
    end: dict[int, int]
    live: list[int]

    @property
    def peak(self) -> int:
        """The most bytes held at once."""
        return max(self.live, default=0)

    @property
    def area(self) -> int:
        """Bytes times the number of nodes during which they are held."""
        return sum(self.live)

    def bytes_of(self, value: int) -> int:
        """The counted bytes of a value; 0 if it is held anyway."""
        return self.size.get(self.base[value], 0)

    def last(self, value: int) -> int:
        """Position of the last use of a value's memory."""
        return self.end.get(self.base[value], -1)


def lifetimes(
    nodes: Sequence[Node], spec: Callable[[int], TensorSpec], outputs: Collection[int]
) -> Lifetimes:
    """Determine the lifetimes of values in an order of nodes.

    Args:
        nodes: The nodes, each after its operands.
        spec: Returns the spec of a value.
        outputs: Values that are returned.
    """
    base: dict[int, int] = {}
    size: dict[int, int] = {}
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    for i, node in enumerate(nodes):
        for value in node.inputs:
            base_of_value = base.setdefault(value, value)
            end[base_of_value] = i
        leaf = node.is_leaf
        shares = not leaf and (node.op in VIEWS or traits_of(node.op).state == "replaces")
        for value in node.outputs:
            if shares:
                base[value] = base_of_value = base[node.inputs[-1]]
            else:
                base[value] = base_of_value = value
                begin[value] = i
                if not leaf:
                    size[value] = nbytes(spec(value))
            end[base_of_value] = i
    for value in outputs:
        size.pop(base.get(value, value), None)
    change = [0] * (len(nodes) + 1)
    for value, count in size.items():
        change[begin[value]] += count
        change[end[value] + 1] -= count
    live, now = [], 0
    for delta in change[:-1]:
        now += delta
        live.append(now)
    return Lifetimes(base, size, begin, end, live)
