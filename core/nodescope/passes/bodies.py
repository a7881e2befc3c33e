"""Bodies: runs the passes inside loops and branches, and hoists loop-invariant nodes.

Invariant: a body's inputs and outputs keep their meaning; everything that the loop's derivative
would need is either untouched or marked as unknown.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from nodescope import ops
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import Graph, Node
from nodescope.ops.op import Array
from nodescope.passes import Rule, graph_pass
from nodescope.passes.dce import eliminate_dead
from nodescope.passes.draft import Draft
from nodescope.passes.own import roots_of
from nodescope.passes.pipeline import settled

_replace = msgspec.structs.replace
_BODIES: Final = {"scan": ("body",), "while_loop": ("condition", "body"),
                  "cond": ("then", "otherwise")}  # fmt: skip
_INSIDE: Final = ("dce", "fold", "cse", "reshape", "broadcast", "simplify", "strength")
_LAST: Final = ("bodies", "own")
_ROUNDS: Final = 3


@graph_pass(
    "bodies",
    stage=48,
    help="the same inside loops and branches; move what all iterations share out of the loop",
    rules=(
        Rule("inside", "apply the exact passes inside a body"),
        Rule("hoisted", "compute what is the same in every iteration once, before the scan"),
        Rule("unused_input", "remove inputs that a body does not use"),
        Rule("unused", "remove nodes that computed only such inputs"),
    ),
)
def improve_bodies(draft: Draft) -> None:
    """Improve each node that contains bodies."""
    for node in draft:
        if node.op in _BODIES:
            _inside(draft, node.id)
            if node.op == "scan" and node.attrs["length"] > 1:
                _hoist(draft, node.id)
            _prune(draft, node.id)
    if any(rewrite.rule == "unused_input" for rewrite in draft.rewrites) and "dce" in draft.chosen:
        eliminate_dead(draft)


# The passes inside


def _inside(draft: Draft, node_id: int) -> None:
    node = draft.node(node_id)
    new_bodies: dict[str, Any] = {}
    notes: list[str] = []
    for name in _BODIES[node.op]:
        body: Graph = node.attrs[name]
        graph, rules = _lowered(draft, body, _copied(node, name))
        if graph is not body:
            new_bodies[name] = graph
            notes.append(f"{len(rules)} in its {name}: {', '.join(sorted(set(rules)))}")
    if new_bodies:
        now = draft.update(node, attrs={**node.attrs, **new_bodies})
        draft.rewrite("inside", "rewritten", [now], [now], note="; ".join(notes))


def _lowered(draft: Draft, graph: Graph, copied: Iterable[int]) -> tuple[Graph, list[str]]:
    """A body after the passes, with the rules that fired; the same object if none did."""
    chosen: list[str] = [pass_name for pass_name in _INSIDE if pass_name in draft.chosen]
    last: list[str] = [pass_name for pass_name in _LAST if pass_name in draft.chosen]
    now, arrays, done = settled(
        graph, elements_of(graph), chosen, last, draft.options, _ROUNDS, copied
    )
    rules = [f"{rewrite.pass_name}/{rewrite.rule}" for rewrite in done]
    return (_body(graph, now, arrays), rules) if rules else (graph, [])


def _copied(node: Node, name: str) -> Iterable[int]:
    """Positions of a body's results that are only read: rows of stacks, and conditions."""
    if name == "condition":
        return (0,)
    return range(node.attrs["carries"], len(node.outputs)) if node.op == "scan" else ()


def elements_of(graph: Graph) -> dict[int, Array]:
    """Arrays of a body's constants, which are stored in their nodes' attributes."""
    specs = {value.id: value.spec for value in graph.values}
    elements: dict[int, Array] = {}
    for node in graph.nodes:
        if node.op == "constant" and "elements" in node.attrs:
            spec = specs[node.outputs[0]]
            raw = base64.b64decode(node.attrs["elements"])
            elements[node.outputs[0]] = np.frombuffer(raw, as_dtype(spec.dtype)).reshape(spec.shape)
    return elements


def _body(old: Graph, new: Graph, arrays: Mapping[int, Array]) -> Graph:
    """A lowered graph turned back into a body."""
    nodes = []
    for node in new.nodes:
        if node.op == "constant" and "elements" not in node.attrs:
            array = np.ascontiguousarray(arrays[node.outputs[0]])
            attrs = {"elements": base64.b64encode(array.tobytes()).decode()}
            node = _replace(node, attrs=attrs)
        nodes.append(_replace(node, origin=()) if node.origin else node)
    return _replace(new, id=old.id, kind=old.kind, nodes=tuple(nodes))


# Loop-invariant nodes


def _hoist(draft: Draft, node_id: int) -> None:
    node = draft.node(node_id)
    body: Graph = node.attrs["body"]
    first = node.attrs["carries"] + node.attrs["columns"]
    outside = dict(zip(body.inputs[first:], node.inputs[first:], strict=True))
    constants = elements_of(body)
    moved = _same_each_time(draft, body, node.attrs["carries"], {*outside, *constants})
    if not moved:
        return
    stays = [n for n in body.nodes if n.id not in moved]
    needed = {value for n in stays for value in n.inputs} | set(body.outputs)
    handed = [n for n in moved.values() if n.outputs[0] in needed]
    if all(n.op == "broadcast_to" for n in handed):
        return
    hoisted: list[Node] = []
    for hoisted_node in moved.values():
        for value in hoisted_node.inputs:
            if value not in outside:
                outside[value] = draft.constant(constants[value], like=node)
        new = draft.add(
            hoisted_node.op,
            [outside[v] for v in hoisted_node.inputs],
            hoisted_node.attrs,
            like=node,
            label=hoisted_node.op,
            control=(),
        )
        outside[hoisted_node.outputs[0]] = new.outputs[0]
        hoisted.append(new)
    leaves = {
        n.id: Node(id=n.id, name=n.name, op="placeholder", family="leaf",
                      role="input", outputs=n.outputs, scope=n.scope, phase=n.phase,
                      source=n.source)
        for n in handed
    }  # fmt: skip
    nodes = tuple(leaves.get(n.id, n) for n in body.nodes if n.id not in moved or n.id in leaves)
    more = tuple(n.outputs[0] for n in handed)
    now = draft.update(
        node,
        inputs=(*node.inputs, *(outside[value] for value in more)),
        attrs=_without_derivative(node.attrs, body=_closed(body, (*body.inputs, *more), nodes)),
    )
    names = ", ".join(n.name for n in moved.values())
    draft.rewrite("hoisted", "rewritten", [now], [now, *hoisted], note=f"{names} from its body")


def _same_each_time(draft: Draft, body: Graph, carries: int, known: set[int]) -> dict[int, Node]:
    """Nodes of a body that compute the same in each iteration, by id."""
    invariant: dict[int, Node] = {}
    makers = {value: node for node in body.nodes for value in node.outputs}
    ends = {v for value in body.outputs[:carries] for v in roots_of(makers.get, value)}
    for node in body.nodes:
        if not ends.isdisjoint(node.outputs):
            continue  # the receiver of the last carry may write to it: it needs its own memory
        if node.is_leaf or node.family in ("control", "update") or not draft.is_pure(node):
            continue
        if node.control_inputs or len(node.outputs) != 1 or not node.inputs:
            continue
        if ops.get(node.op).outputs == 1 and all(value in known for value in node.inputs):
            invariant[node.id] = node
            known.update(node.outputs)
    return invariant


def _closed(body: Graph, inputs: tuple[int, ...], nodes: tuple[Node, ...]) -> Graph:
    produced = {value for node in nodes for value in node.outputs}
    return _replace(
        body, inputs=inputs, nodes=nodes,
        values=tuple(value for value in body.values if value.id in produced),
        constants=tuple(constant for constant in body.constants if constant in produced),
    )  # fmt: skip


def _without_derivative(attrs: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Attributes of a loop whose input positions no longer match its derivative's."""
    derivative_attrs = (
        {"derivative": None, "kept": 0} if attrs.get("derivative") is not None else {}
    )
    return {**attrs, **derivative_attrs, **more}


# Unused inputs of a body


def _prune(draft: Draft, node_id: int) -> None:
    node = draft.node(node_id)
    names = _BODIES[node.op]
    leading = 1 if node.op == "cond" else 0
    fixed = sum(node.attrs[attr] for attr in ("carries", "columns") if attr in node.attrs)
    graphs: list[Graph] = [node.attrs[name] for name in names]
    used = [
        {value for n in graph.nodes for value in n.inputs} | set(graph.outputs) for graph in graphs
    ]
    count = len(graphs[0].inputs)
    kept = [
        i
        for i in range(count)
        if i < fixed
        or any(
            graph.inputs[i] in used_inputs for graph, used_inputs in zip(graphs, used, strict=True)
        )
    ]
    if len(kept) == count:
        return
    bodies = {}
    for name, graph in zip(names, graphs, strict=True):
        inputs = tuple(graph.inputs[i] for i in kept)
        dropped = set(graph.inputs) - set(inputs)
        nodes = tuple(n for n in graph.nodes if dropped.isdisjoint(n.outputs))
        bodies[name] = _closed(graph, inputs, nodes)
    now = draft.update(
        node,
        inputs=(*node.inputs[:leading], *(node.inputs[leading + i] for i in kept)),
        attrs=_without_derivative(node.attrs, **bodies),
    )
    draft.rewrite("unused_input", "rewritten", [now], [now], note=f"{count - len(kept)} of {count}")
