"""Program graph: the producers and readers of the values of a run, for rules.

It is built from definitions of nodes, so it is the same live and recorded, and costs nothing per
execution.

Invariant: a node has its latest definition; the readers of a value are those of all definitions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import Final

from nodescope.debug.watch.cycles import on_cycles
from nodescope.events import GraphCaptured
from nodescope.ir.capabilities import OWN
from nodescope.ir.graph import Node, SourceLocation, TensorSpec, Value
from nodescope.ops.argument_names import known_node
from nodescope.ops.traits import traits_of
from nodescope.source_files import source_text

# Ops that pass elements on, perhaps selected, reordered or converted, but with the same content.
_HANDS_ON: Final = frozenset({"astype", "copy", "positive", "getitem"})
_FORWARD: Final = ("forward", "recompute")
_MOST_ANCESTRIES: Final = 256


class ProgramGraph:
    """The program's nodes and values so far.

    Args:
        source: Returns the text of a source file; ``""`` if unknown.

    Attributes:
        nodes: By id: the node in its latest definition, with attributes by nodescope's names.
        specs: By value id: its latest shape and dtype.
        gradients: By value id: the id of its gradient.
        slopes: Ids of the values that are gradients of parameters.
        losses: Ids of the values at which backward passes began.
        ran: The nodes that ran since the last study, in order, as pairs of id and seq; at most
            `MOST_RAN`. Empty if no rule needs it any more.
        version: Increases with every new definition.
        captured: By owner: the traced graphs of compiled functions. Their nodes do not run; `runs`
            returns the nodes that run for them.
    """

    MOST_RAN: Final = 200_000

    def __init__(self, source: Callable[[str], str] = source_text) -> None:
        self.nodes: dict[int, Node] = {}
        self.specs: dict[int, TensorSpec] = {}
        self.gradients: dict[int, int] = {}
        self.slopes: set[int] = set()
        self.losses: set[int] = set()
        self.ran: list[tuple[int, int]] = []
        self.version = 0
        self.source = source
        self.captured: dict[str, ProgramGraph] = {}
        self._owners: dict[int, str] = {}
        self._makers: dict[int, int] = {}
        self._readers: dict[int, dict[int, None]] = {}
        self._to_loss: tuple[int, frozenset[int]] = (-1, frozenset())
        self._leaves: tuple[int, dict[int, list[Node]]] = (-1, {})
        self._ancestors: tuple[int, dict[int, frozenset[int]]] = (-1, {})
        self._cyclic: tuple[int, set[int]] = (-1, set())
        self._reading: dict[int, list[Node]] = {}
        self._running: tuple[int, dict[str, _Running]] = (-1, {})

    # Definitions

    def define(self, node: Node) -> None:
        """Take in a new node, or a new definition of a known one."""
        self.version += 1
        self.nodes[node.id] = known_node(node)
        for value in node.outputs:
            self._makers[value] = node.id
        for value in node.inputs:
            self._readers.setdefault(value, {})[node.id] = None
        self._reading.clear()
        if node.phase == "backward" and node.inputs and "begins" in traits_of(node.op).effects:
            self.losses.add(node.inputs[0])

    def tell(self, values: Iterable[Value]) -> None:
        """Take in shapes and dtypes."""
        for value in values:
            if isinstance(value.spec, TensorSpec):
                self.specs[value.id] = value.spec

    def paired(self, value: int, gradient: int, *, begins: bool) -> None:
        """Note a value's gradient; ``begins`` says whether a backward pass begins at the value."""
        self.version += 1
        self.gradients[value] = gradient
        held = self.maker(self.held_in(value))
        if held is not None and held.role == "parameter":
            self.slopes.add(gradient)
        if begins:
            self.losses.add(value)

    def capture(self, event: GraphCaptured) -> None:
        """Take in a captured graph of a compiled function."""
        self.version += 1
        self._owners[event.graph.id] = event.owner
        if event.stage != "traced":
            return
        traced = self.captured[event.owner] = ProgramGraph(self.source)
        traced.tell(event.graph.values)
        for node in event.graph.nodes:
            traced.define(node)

    # Questions

    def maker(self, value: int) -> Node | None:
        """The node that produces a value."""
        return self.nodes.get(self._makers.get(value, 0))

    def readers(self, value: int) -> list[Node]:
        """The nodes that read a value, in order of their first definitions."""
        known = self._reading.get(value)
        if known is None:
            nodes = self.nodes
            known = [nodes[node] for node in self._readers.get(value, ())]
            self._reading[value] = known
        return known

    def makers(self, node: Node) -> list[Node]:
        """The producers of a node's inputs, in order of ports; unknown ones are left out."""
        return [maker for maker in map(self.maker, node.inputs) if maker is not None]

    def shape(self, value: int) -> tuple[int, ...] | None:
        """The shape of a value; None if it is unknown or not fixed."""
        spec = self.specs.get(value)
        return None if spec is None or None in spec.shape else spec.shape

    def dtype(self, value: int) -> str:
        """The dtype of a value, or ``""``."""
        spec = self.specs.get(value)
        return "" if spec is None else spec.dtype

    def forward(self) -> Iterator[Node]:
        """The nodes of forward passes that compute something."""
        return (node for node in self.nodes.values() if node.phase in _FORWARD and not node.is_leaf)

    def past(self, value: int, passes: Callable[[Node], bool]) -> Node | None:
        """The producer of a value, skipping nodes that ``passes`` accepts, by their first inputs.

        If nodes of a loop read their own results, the search ends at one of them.
        """
        maker, seen = self.maker(value), set[int]()
        while maker is not None and maker.inputs and maker.id not in seen and passes(maker):
            seen.add(maker.id)
            maker = self.maker(maker.inputs[0])
        return maker

    def held_in(self, value: int) -> int:
        """The value in which this one is stored: for the result of an update, the parameter's."""
        seen = {value}
        maker = self.maker(value)
        while maker is not None and maker.writes:
            written = dict(maker.writes).get(maker.outputs.index(value))
            if written is None or maker.inputs[written] in seen:
                break
            value = maker.inputs[written]
            seen.add(value)
            maker = self.maker(value)
        return value

    def given(self, value: int) -> Node | None:
        """The node that computed a value's numbers, skipping nodes that move, copy or convert."""
        maker, seen = self.maker(value), {value}
        while maker is not None and _hands_on(maker) and maker.inputs[0] not in seen:
            seen.add(maker.inputs[0])
            maker = self.maker(maker.inputs[0])
        return maker

    def reaches_loss(self, node: Node) -> bool:
        """Whether a loss is computed from a node's result, or the node is a loss itself."""
        version, ids = self._to_loss
        if version != self.version:
            ids = frozenset(self._above(self.losses))
            self._to_loss = self.version, ids
        return node.id in ids

    def above_losses(self, without: Collection[int]) -> set[int]:
        """Ids of the nodes from which losses are computed by paths without these nodes."""
        return self._above(self.losses, without)

    def above(self, value: int) -> frozenset[int]:
        """Ids of the nodes from which a value is computed, its producer included."""
        if self._ancestors[0] != self.version:
            self._ancestors = self.version, {}
        known = self._ancestors[1]
        if value not in known:
            if len(known) == _MOST_ANCESTRIES:
                known.clear()
            known[value] = frozenset(self._above((value,)))
        return known[value]

    def comes_back(self, node: Node) -> bool:
        """Whether a node is computed from its own result, as a state is from step to step."""
        if node.writes:
            return any(node.id in self.above(value) for value in node.inputs)
        if self._cyclic[0] != self.version:
            makers = {
                number: [maker.id for maker in self.makers(reader)] if not reader.writes else []
                for number, reader in self.nodes.items()
            }
            self._cyclic = self.version, on_cycles(makers)
        return node.id in self._cyclic[1]

    def _above(self, values: Iterable[int], without: Collection[int] = ()) -> set[int]:
        ids: set[int] = set()
        todo = list(values)
        while todo:
            maker = self.maker(todo.pop())
            if maker is None or maker.id in ids or maker.id in without:
                continue
            ids.add(maker.id)
            if not maker.writes:  # a written value belongs to another step
                todo += maker.inputs
        return ids

    def leaves(self, value: int) -> list[Node]:
        """The leaves from which a value is computed."""
        if self._leaves[0] != self.version:
            self._leaves = self.version, {}
        known = self._leaves[1]
        if value not in known:
            above = sorted(self.above(value))
            known[value] = [self.nodes[node] for node in above if self.nodes[node].is_leaf]
        return known[value]

    def runs(self, owner: str, traced: Node) -> Node | None:
        """The node that runs for a compiled function's traced node, alone or fused with others."""
        if self._running[0] != self.version:
            self._running = self.version, {}
        running = self._running[1].get(owner)
        if running is None:
            running = self._running[1][owner] = _Running()
            for node in self.nodes.values():
                if self._owners.get(node.graph) == owner:
                    running.take(node)
        return running.of_origin.get(traced.id) or running.of_source.get(traced.source)

    def updates(self, node: Node) -> bool:
        """Whether a node's result is written to a variable, or becomes an input of the node."""
        todo, seen = [node], {node.id}
        while todo:
            for value in (current := todo.pop()).outputs:
                for reader in self.readers(value):
                    # Other libraries also write to intermediate results, which does not count.
                    stores = reader.writes and (
                        reader.dialect == OWN or traits_of(reader.op).updates
                    )
                    if stores or (reader.id == node.id and current is not reader):
                        return True
                    moves = reader.family == "layout" or reader.op in _HANDS_ON
                    if moves and reader.id not in seen:
                        seen.add(reader.id)
                        todo.append(reader)
        return node.id in {self._makers.get(value) for value in node.inputs}

    def kept_by(self, node: Node) -> Iterator[int]:
        """The inputs of a node that writes to variables, and their values before conversions."""
        for value in node.inputs if node.writes else ():
            yield value
            maker = self.given(value)
            if maker is not None:
                yield from maker.outputs

    def tree(self, source: SourceLocation | None) -> ast.Module | None:
        """The syntax tree of a source file; None if it is unknown."""
        return _tree(self.source(source.file)) if source is not None else None


class _Running:
    """The nodes that run for a compiled function: the first by origin, and by source line."""

    __slots__ = ("of_origin", "of_source")

    def __init__(self) -> None:
        self.of_origin: dict[int, Node] = {}
        self.of_source: dict[SourceLocation | None, Node] = {}

    def take(self, node: Node) -> None:
        for traced in node.origin:
            self.of_origin.setdefault(traced, node)
        self.of_source.setdefault(node.source, node)


def _hands_on(node: Node) -> bool:
    return bool(node.inputs) and (node.family == "layout" or node.op in _HANDS_ON)


def changes_shape_only(node: Node) -> bool:
    """Whether a node is a layout op with one input, such as a reshape."""
    return node.family == "layout" and len(node.inputs) == 1


def elementwise(node: Node) -> bool:
    """Whether each element of the result depends only on those at its position."""
    return node.family in ("elementwise", "activation") and not traits_of(node.op).updates


@lru_cache(maxsize=64)
def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text) if text else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
