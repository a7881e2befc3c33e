"""Sides: where the nodes and values of one compiled function are in the eager and compiled run.

Invariant: built once per function and step; every query is a look-up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nodescope.compare.align import Called, align
from nodescope.compare.calls import calls
from nodescope.compare.values import Pair, PairReader
from nodescope.ir.graph import Node
from nodescope.record.compiled_functions import CompiledFunction


class Sides:
    """A compiled function in the eager and in the compiled run.

    Attributes:
        function: The trace of the function.
        steps: The training steps in which it ran compiled.
        eager: The nodes that the eager run executed in the first of them, in order.
        alignment: The matches of traced nodes with eager nodes.
        run: By final node id: the node of the compiled run.
    """

    def __init__(
        self,
        function: CompiledFunction,
        reader: PairReader,
        beside: Sequence[CompiledFunction],
        at: int | None = None,
    ) -> None:
        """Match the nodes of ``function``.

        Args:
            function: The trace of the function.
            reader: Reads both recordings.
            beside: All compiled functions of the compiled run.
            at: The step in which nodes are matched; if None, the first one in which it ran.
        """
        self.function, self._beside = function, beside
        ran = reader.run_nodes(function.final.id)
        self.steps = reader.steps(ran)
        step = at if at is not None else self.steps[0] if self.steps else None
        self.eager = reader.eager_nodes(step)
        self._eager_by_id = reader.as_of(step).nodes
        base, before = _calls_before(function, reader, step, beside)
        specs = reader.as_of(step).specs
        self.alignment = align(function.traced, self.eager, specs, base=base, before=before)
        self.run = _running(function, ran)
        self._reader = reader
        self._fed = _fed(function, self.run)
        self._made = {value: node for node in function.final.nodes for value in node.outputs}
        self._names = {node.id: node.name for node in function.final.nodes}
        self._traced = {value: node for node in function.traced.nodes for value in node.outputs}
        self._specs = {value.id: value.spec for value in function.traced.values}

    def matched_in(self, step: int) -> Sides:
        """The same function, matched with the eager run's nodes in another step."""
        return Sides(self.function, self._reader, self._beside, step)

    def eager_of(self, traced: int) -> Node | None:
        """The eager node that matches a traced node."""
        match = self.alignment.matches.get(traced)
        return self._eager_by_id.get(match.eager) if match else None

    def kernel_of(self, traced: Node) -> Node | None:
        """The final node that computes a traced node; None if there is none."""
        for value in traced.outputs:
            final = self.function.compiled.values.get(value)
            if final is not None and final in self._made:
                return self._made[final]
            inside = self.function.compiled.inside.get(value)
            if inside is not None:
                return next((n for n in self.function.final.nodes if n.id == inside[0]), None)
        return None

    def pair(self, node: Node, port: int) -> Pair:
        """The locations of a traced node's output in both runs."""
        value = node.outputs[port]
        eager = self.eager_of(node.id)
        eager_value = eager.outputs[port] if eager is not None and port < len(eager.outputs) else 0

        def pair_of(compiled: Node | None, at: int, why: str = "") -> Pair:
            number = compiled.outputs[at] if compiled is not None else 0
            return Pair(eager, eager_value, compiled, number, port, self._specs[value], why)

        if node.is_leaf:
            return self._leaf(node, pair_of)
        compiled = self.function.compiled
        final = compiled.values.get(value)
        if final is not None and final in self._made:
            maker = self._made[final]
            ran = self.run.get(maker.id)
            if ran is not None:
                return pair_of(ran, maker.outputs.index(final))
            if maker.is_leaf and final in self._traced:
                return self._leaf(self._traced[final], pair_of)
            why = "now a constant" if maker.is_leaf else "its node was not recorded"
            return pair_of(None, 0, why)
        kernel = compiled.inside.get(value)
        if kernel is not None:
            name = self._names.get(kernel[0], "")
            return pair_of(None, 0, f"inside the kernel {name}, which does not output it")
        return pair_of(None, 0, "no longer computed")

    def _leaf(self, leaf: Node, pair_of: Any) -> Pair:
        eager = self.eager_of(leaf.id)
        counterpart = self._reader.compiled_leaf(self._fed.get(leaf.outputs[0], 0))
        if counterpart is None and eager is not None:
            counterpart = self._reader.leaf_like(eager)
        why = "" if counterpart is not None else "an input that was not recorded"
        return pair_of(counterpart, 0, why)  # type: ignore[no-any-return]


def _calls_before(
    function: CompiledFunction,
    reader: PairReader,
    step: int | None,
    beside: Sequence[CompiledFunction],
) -> tuple[str | None, list[Called]]:
    """The scope of the function's first call in a step, and the calls before it."""
    if step is None:
        return None, []
    traced = {call.final.id: call.traced for call in beside}
    finals = {call.final.id: call.final for call in beside}
    before: list[Called] = []
    for call in calls(reader.compiled_nodes(step), finals):
        if call.graph == function.final.id:
            return call.base, before
        before.append(Called(traced[call.graph], call.base))
    return None, before


def _fed(function: CompiledFunction, run: Mapping[int, Node]) -> dict[int, int]:
    """By value of the final graph: the value of the run, for inputs of executed nodes."""
    values_by_final: dict[int, int] = {}
    for node in function.final.nodes:
        ran = run.get(node.id)
        if ran is not None and len(ran.inputs) == len(node.inputs):
            for final, value in zip(node.inputs, ran.inputs, strict=True):
                values_by_final.setdefault(final, value)
    return values_by_final


def _running(function: CompiledFunction, ran: Iterable[Node]) -> dict[int, Node]:
    """By final node id: the run's node with the same op and origins, matched in order."""
    waiting: dict[Any, list[Node]] = defaultdict(list)
    for node in ran:
        waiting[node.op, node.origin].append(node)
    running = {}
    for node in function.final.nodes:
        candidates = waiting.get((node.op, node.origin))
        if not node.is_leaf and candidates:
            running[node.id] = candidates.pop(0)
    return running
