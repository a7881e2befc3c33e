"""The two sides of one compiled function: which node and which value is where in either run.

Invariant: built once per function; every question is a look-up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from nodescope.compare.align import LEAF, align
from nodescope.compare.values import Pair, Reader
from nodescope.ir.graph import Node
from nodescope.record.captured import Function


class Sides:
    """A compiled function in the eager and in the compiled run.

    Attributes:
        function: The trace.
        steps: The training steps in which it ran compiled.
        eager: What the eager run executed in the first of them, in order.
        alignment: Which eager node is which traced one.
        run: The node of the compiled run by final node id.
    """

    def __init__(self, function: Function, reader: Reader) -> None:
        self.function = function
        ran = reader.run_nodes(function.final.id)
        self.steps = reader.steps(ran)
        self.eager = reader.eager_nodes(self.steps[0] if self.steps else None)
        self.alignment = align(function.traced, self.eager, reader.specs)
        self.run = _running(function, ran)
        self._reader = reader
        self._made = {value: node for node in function.final.nodes for value in node.outputs}
        self._names = {node.id: node.name for node in function.final.nodes}
        self._traced = {value: node for node in function.traced.nodes for value in node.outputs}
        self._specs = {each.id: each.spec for each in function.traced.values}

    def eager_of(self, traced: int) -> Node | None:
        """The eager node that a traced one is."""
        match = self.alignment.matches.get(traced)
        return self._reader.eager_node(match.eager) if match else None

    def pair(self, node: Node, port: int) -> Pair:
        """Where a value of a traced node is."""
        value = node.outputs[port]
        eager = self.eager_of(node.id)
        there = eager.outputs[port] if eager is not None and port < len(eager.outputs) else 0

        def found(compiled: Node | None, at: int, why: str = "") -> Pair:
            number = compiled.outputs[at] if compiled is not None else 0
            return Pair(eager, there, compiled, number, port, self._specs[value], why)

        if node.family == LEAF:
            return self._leaf(node, found)
        about = self.function.about
        final = (about.get("values") or {}).get(str(value))
        if final is not None and final in self._made:
            maker = self._made[final]
            ran = self.run.get(maker.id)
            if ran is not None:
                return found(ran, maker.outputs.index(final))
            if maker.family == LEAF and final in self._traced:
                return self._leaf(self._traced[final], found)
            why = "a constant now" if maker.family == LEAF else "its node was not recorded"
            return found(None, 0, why)
        within = (about.get("inside") or {}).get(str(value))
        if within is not None:
            name = self._names.get(within[0], "")
            return found(None, 0, f"inside the kernel {name}, which does not give it out")
        return found(None, 0, "nothing computes it any more")

    def _leaf(self, leaf: Node, found: Any) -> Pair:
        eager = self.eager_of(leaf.id)
        there = self._reader.compiled_leaf(eager.name) if eager is not None else None
        why = "" if there is not None else "an input that was not recorded"
        return found(there, 0, why)  # type: ignore[no-any-return]


def _running(function: Function, ran: Iterable[Node]) -> dict[int, Node]:
    """The node of the run for each final node: the same op and origins, in order."""
    waiting: dict[Any, list[Node]] = defaultdict(list)
    for node in ran:
        waiting[node.op, node.origin].append(node)
    found = {}
    for node in function.final.nodes:
        there = waiting.get((node.op, node.origin))
        if node.family != LEAF and there:
            found[node.id] = there.pop(0)
    return found
