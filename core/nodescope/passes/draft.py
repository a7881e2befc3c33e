"""Draft: a graph while it is being changed by a pass.

A new node takes the position of the node given as ``like``; when the draft is finished, the nodes
are sorted topologically, otherwise keeping their order.

Invariant: every change is recorded; a graph that no pass changed is returned as the same object.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from nodescope import ops
from nodescope.ir.graph import Graph, Node, Phase, TensorSpec, Value
from nodescope.ir.provenance import Change, Rewrite
from nodescope.ops.checking import inferred
from nodescope.ops.op import Array, Op
from nodescope.ops.traits import traits_of
from nodescope.passes.fates import Unfused

_replace = msgspec.structs.replace


class Draft:
    """A graph being changed.

    Args:
        graph: The initial graph.
        arrays: The graph's constants by value id.
        fresh: Returns ids for new nodes and values, unique in this lowering.
        pass_name: The current pass.
        options: The options; see `nodescope.passes.pipeline.LoweringOptions`.
        traced: The graph before the first pass; the graph itself if None.
        chosen: Names of all passes that run.

    Attributes:
        inputs: Value ids that are fed.
        outputs: Value ids that are returned, by position.
        rewrites: The changes so far.
        known: Results of analyses, by kind, valid for the graph at the start of a pass.
        inside: Whether this is a body, whose constants are kept as elements in C order.
        copied: Positions of outputs whose memory is never visible, because each is copied.
    """

    def __init__(
        self,
        graph: Graph,
        arrays: Mapping[int, Array],
        fresh: Callable[[], int],
        pass_name: str,
        options: Any,
        traced: Graph | None = None,
        chosen: Sequence[str] = (),
    ) -> None:
        self._graph, self._fresh = graph, fresh
        self.pass_name, self.options = pass_name, options
        self.traced, self.chosen = traced or graph, tuple(chosen)
        self.inputs, self.outputs = graph.inputs, list(graph.outputs)
        self.rewrites: list[Rewrite] = []
        self.notes: list[str] = []
        self.apart: list[Unfused] = []
        self.known: dict[type, Any] = {}
        self.inside = False
        self.copied: frozenset[int] = frozenset()
        self._arrays = dict(arrays)
        self._values = {value.id: value for value in graph.values}
        self._nodes = {node.id: node for node in graph.nodes}
        self._place: dict[int, tuple[int, int]] = {
            node.id: (i, 0) for i, node in enumerate(graph.nodes)
        }
        self._count = itertools.count(1)
        self._producers = {value: node.id for node in graph.nodes for value in node.outputs}
        self._users: dict[int, dict[int, None]] = {}
        self._waiting: dict[int, dict[int, None]] = {}
        for node in graph.nodes:
            self._link(node)
        self._names = {node.name for node in graph.nodes}
        self._order: list[int] | None = None
        self._changed = False

    def begin(self, pass_name: str) -> None:
        """Begin another pass on the result of the previous one."""
        self.pass_name = pass_name
        self.rewrites, self.notes, self.apart = [], [], []

    # Queries

    def __iter__(self) -> Iterator[Node]:
        """The current nodes, in an order in which each follows its operands.

        Nodes removed during the iteration are skipped; nodes added during it are not included.
        """
        for node in self._sorted():
            now = self._nodes.get(node.id)
            if now is not None:
                yield now

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, node: int) -> Node:
        """The current node with an id."""
        return self._nodes[node]

    def __contains__(self, node: object) -> bool:
        """Whether a node with this id still exists."""
        return node in self._nodes

    def producer(self, value: int) -> Node | None:
        """The node that produces a value; None if it is fed."""
        producer = self._producers.get(value)
        return None if producer is None else self._nodes[producer]

    def users(self, value: int) -> tuple[Node, ...]:
        """The nodes that take a value, each once."""
        return tuple(self._nodes[user] for user in self._users.get(value, ()))

    def waiting(self, node: int) -> tuple[Node, ...]:
        """The nodes that wait for a node without taking one of its values."""
        return tuple(self._nodes[waiter] for waiter in self._waiting.get(node, ()))

    def is_output(self, value: int) -> bool:
        """Whether the graph returns the value."""
        return value in self.outputs

    def is_used(self, value: int) -> bool:
        """Whether a node takes the value, or the graph returns it."""
        return bool(self._users.get(value)) or value in self.outputs

    def only_user(self, value: int) -> Node | None:
        """The only node that takes a value, if there is exactly one and the value is not
        returned.
        """
        users = self._users.get(value, {})
        if len(users) != 1 or value in self.outputs:
            return None
        return self._nodes[next(iter(users))]

    def spec(self, value: int) -> TensorSpec:
        """Shape and dtype of a value."""
        return self._values[value].tensor

    def value(self, value: int) -> Value:
        """A value by id."""
        return self._values[value]

    def array(self, value: int) -> Array | None:
        """The content of a constant; None for any other value."""
        return self._arrays.get(value)

    def is_pure(self, node: Node) -> bool:
        """Whether the node is a pure function of its inputs, without side effects."""
        return _pure(node.op)

    # Changes

    def add(
        self,
        op: str,
        inputs: Sequence[int],
        attrs: Mapping[str, Any] | None = None,
        *,
        like: Node,
        label: str = "",
        specs: Sequence[TensorSpec] | None = None,
        outputs: Sequence[int] | None = None,
        control: Sequence[int] | None = None,
        scope: str | None = None,
        phase: Phase | None = None,
    ) -> Node:
        """Add a node. Its scope, phase, device, source and forward node are those of ``like``.

        Args:
            attrs: The op's attributes, with Python scalar operands under their ports' names.
            label: The last part of its name; the op's name if empty.
            specs: Specs of its outputs; inferred by the op if None.
            outputs: Existing values that it produces from now on; their node must be removed in the
                same `rewrite`. New values if None.
            control: Nodes that it waits for; those of ``like`` if None.
            scope, phase: Overrides for those of ``like``.
        """
        definition: Op = ops.get(op)
        scope = like.scope if scope is None else scope
        name = self._name(scope, label or op)
        known = dict(attrs or {})
        if outputs is None:
            node = Node(id=0, name=name, op=op, family=definition.family, inputs=tuple(inputs),
                        attrs=known)  # fmt: skip
            specs_out = specs or inferred(node, tuple(map(self.spec, inputs)))
            assert specs_out is not None, f"{op} does not declare its outputs"
            value_ids = []
            for port, spec in enumerate(specs_out):
                value = Value(self._fresh(), spec, f"{name}:{port}" if port else name)
                self._values[value.id] = value
                value_ids.append(value.id)
            outputs = value_ids
        node = Node(
            id=self._fresh(), name=name, op=op, family=definition.family, inputs=tuple(inputs),
            control_inputs=like.control_inputs if control is None else tuple(control),
            outputs=tuple(outputs), attrs=known, scope=scope, phase=phase or like.phase,
            device=like.device, source=like.source, forward=like.forward, role=definition.role,
            writes=definition.writes,
        )  # fmt: skip
        self._insert(node, like)
        return node

    def constant(self, array: Array, *, like: Node, label: str = "constant") -> int:
        """Add a constant; return the value id of its leaf."""
        spec = TensorSpec(array.shape, array.dtype.name)
        node = self.add("constant", (), {}, like=like, label=label, specs=(spec,), control=())
        self._arrays[node.outputs[0]] = array
        return node.outputs[0]

    def update(self, node: Node, **fields: Any) -> Node:
        """Change fields of a node (inputs, attrs, control_inputs, name); it keeps its id.

        Record it with `rewrite`, with the node both before and after.
        """
        before = self._nodes[node.id]
        now = self._nodes[node.id] = _replace(before, **fields)
        if now.inputs != before.inputs or now.control_inputs != before.control_inputs:
            self._unlink(before)
            self._link(now)
            self._order = None
        self._changed = True
        return now

    def rewrite(
        self,
        rule: str,
        change: Change,
        before: Sequence[Node],
        after: Sequence[Node] = (),
        values: Mapping[int, int] | None = None,
        note: str = "",
    ) -> None:
        """Replace values by others, and remove the nodes before that are not among those after.

        Args:
            rule: The rule of the pass.
            change: The change to the nodes before.
            before: The nodes concerned.
            after: The nodes that take over their work. For a node that vanishes because its result
                is one of its inputs, leave it empty or name the input's node.
            values: Old value to new: users of the old one take the new one from now on.
            note: Further remarks.
        """
        for old, new in (values or {}).items():
            self._redirect(old, new)
        kept = {node.id for node in after}
        if change != "recomputed":
            removed = [n for n in before if n.id not in kept and n.id in self._nodes]
            for node in removed:  # they may need one another
                self._unlink(self._nodes[node.id])
            for node in removed:
                self._remove(self._nodes[node.id], [n.id for n in after])
        self.rewrites.append(
            Rewrite(
                self.pass_name, rule, change, tuple(node.id for node in before),
                tuple(node.id for node in after), tuple((values or {}).items()), note,
            )
        )  # fmt: skip
        self._changed = True

    def give_out(self, position: int, value: int) -> None:
        """Return another value at a position of the outputs."""
        self.outputs[position] = value
        self._changed = True

    def note(self, text: str) -> None:
        """Add a remark for `explain` that is not a change, such as why two nodes were not
        merged.
        """
        self.notes.append(text)

    def unfused(self, producer: int, consumer: int, reason: str) -> None:
        """Note why two nodes, by id, do not run as one kernel."""
        self.apart.append(Unfused(producer, consumer, reason))

    def fresh(self) -> int:
        """An unused id for a node or a value inside a kernel."""
        return self._fresh()

    def reorder(self, order: Sequence[int]) -> None:
        """Reorder the nodes, as far as each still follows its operands.

        Args:
            order: The id of every node, once.
        """
        self._place = {node: (i, 0) for i, node in enumerate(order)}
        self._order = None
        self._changed = True

    # Result

    def finish(self) -> tuple[Graph, dict[int, Array]]:
        """The graph with its constants; the same object if nothing was changed."""
        if not self._changed:
            return self._graph, self._arrays
        nodes = tuple(self._sorted())
        produced = {value for node in nodes for value in node.outputs}
        used = produced.union(self.inputs, self.outputs)
        used.update(value for node in nodes for value in node.inputs)
        values = tuple(self._values[value] for value in sorted(used))
        self._arrays = {value: array for value, array in self._arrays.items() if value in produced}
        self._graph = _replace(
            self._graph, nodes=nodes, values=values, outputs=tuple(self.outputs),
            constants=tuple(sorted(self._arrays)),
        )  # fmt: skip
        self._place = {node.id: (i, 0) for i, node in enumerate(nodes)}
        self._changed = False
        self.known.clear()
        return self._graph, self._arrays

    # Internals

    def _sorted(self) -> list[Node]:
        if not self._changed:
            return list(self._graph.nodes)
        nodes, place = self._nodes, self._place
        if self._order is None:
            order = sorted(nodes, key=place.__getitem__)
            self._order = order if self._follows(order) else self._topological()
        return [nodes[node_id] for node_id in self._order]

    def _follows(self, order: Sequence[int]) -> bool:
        """Whether each node follows its operands."""
        producers, nodes = self._producers, self._nodes
        done: set[int] = set()
        for node_id in order:
            node = nodes[node_id]
            for value in node.inputs:
                maker = producers.get(value)
                if maker is not None and maker not in done:
                    return False
            for other in node.control_inputs:
                if other not in done and other in nodes:
                    return False
            done.add(node_id)
        return True

    def _topological(self) -> list[int]:
        """The ids of the nodes, each after its operands, otherwise by place."""
        nodes, place = self._nodes, self._place
        needs: dict[int, int] = {}
        behind: dict[int, list[int]] = {}
        ready: list[tuple[tuple[int, int], int]] = []
        for node in nodes.values():
            before = {self._producers[v] for v in node.inputs if v in self._producers}
            before.update(control for control in node.control_inputs if control in nodes)
            before.discard(node.id)
            needs[node.id] = len(before)
            for earlier in before:
                behind.setdefault(earlier, []).append(node.id)
            if not before:
                ready.append((place[node.id], node.id))
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            _, current = heapq.heappop(ready)
            order.append(current)
            for waiter in behind.get(current, ()):
                needs[waiter] -= 1
                if not needs[waiter]:
                    heapq.heappush(ready, (place[waiter], waiter))
        assert len(order) == len(nodes), f"{self.pass_name}: the graph has a cycle"
        return order

    def _name(self, scope: str, label: str) -> str:
        base = f"{scope}/{label}" if scope else label
        name, i = base, 0
        while name in self._names:
            i += 1
            name = f"{base}_{i}"
        self._names.add(name)
        return name

    def _insert(self, node: Node, like: Node) -> None:
        self._nodes[node.id] = node
        self._place[node.id] = (self._place[like.id][0], next(self._count) - (1 << 40))
        for value in node.outputs:
            self._producers[value] = node.id
        self._link(node)
        self._order = None
        self._changed = True

    def _link(self, node: Node) -> None:
        for value in node.inputs:
            self._users.setdefault(value, {})[node.id] = None
        for control in node.control_inputs:
            self._waiting.setdefault(control, {})[node.id] = None

    def _unlink(self, node: Node) -> None:
        for value in node.inputs:
            self._users.get(value, {}).pop(node.id, None)
        for control in node.control_inputs:
            self._waiting.get(control, {}).pop(node.id, None)

    def _redirect(self, old: int, new: int) -> None:
        assert self._values[old].spec == self._values[new].spec, (
            f"{self.pass_name}: %{new} {self._values[new].spec} cannot stand for "
            f"%{old} {self._values[old].spec}"
        )
        for node in self.users(old):
            self.update(node, inputs=tuple(new if v == old else v for v in node.inputs))
        self.outputs = [new if value == old else value for value in self.outputs]

    def _remove(self, node: Node, instead: Iterable[int]) -> None:
        for value in node.outputs:
            produces = self._producers.get(value) == node.id
            used = produces and (self._users.get(value) or value in self.outputs)
            assert not used, f"{self.pass_name}: {node.name} is removed, but %{value} is still used"
            if produces:
                del self._producers[value]
            self._arrays.pop(value, None)
        self._unlink(node)
        for waiter_id in tuple(self._waiting.pop(node.id, ())):
            waiter = self._nodes[waiter_id]
            before = [c for c in waiter.control_inputs if c != node.id]
            more = [*instead] or [*node.control_inputs]
            control = tuple(dict.fromkeys([*before, *(c for c in more if c != waiter_id)]))
            self.update(waiter, control_inputs=control)
        del self._nodes[node.id]
        self._names.discard(node.name)
        self._order = None
        self._changed = True


@functools.cache
def _pure(op: str) -> bool:
    return not ops.get(op).is_leaf and not traits_of(op).updates


def same_number(first: float, other: float) -> bool:
    """Whether two numbers are equal, and zeros of the same sign."""
    return bool(first == other) and np.signbit(first) == np.signbit(other)
