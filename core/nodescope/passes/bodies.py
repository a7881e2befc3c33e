"""Bodies: runs the passes inside loops and branches, and hoists loop-invariant nodes.

Invariant: a body's inputs and outputs keep their meaning; anything that the loop's derivative would
need is either untouched or marked as unknown.
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
    """Look at each node that holds bodies."""
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
    found: dict[str, Any] = {}
    said: list[str] = []
    for name in _BODIES[node.op]:
        body: Graph = node.attrs[name]
        graph, rules = _lowered(draft, body, _copied(node, name))
        if graph is not body:
            found[name] = graph
            said.append(f"{len(rules)} in its {name}: {', '.join(sorted(set(rules)))}")
    if found:
        now = draft.update(node, attrs={**node.attrs, **found})
        draft.rewrite("inside", "rewritten", [now], [now], note="; ".join(said))


def _lowered(draft: Draft, graph: Graph, copied: Iterable[int]) -> tuple[Graph, list[str]]:
    """A body after the passes, with the rules that fired; the same object if none did."""
    chosen: list[str] = [each for each in _INSIDE if each in draft.chosen]
    last: list[str] = [each for each in _LAST if each in draft.chosen]
    now, arrays, done = settled(
        graph, elements_of(graph), chosen, last, draft.options, _ROUNDS, copied
    )
    rules = [f"{each.pass_name}/{each.rule}" for each in done]
    return (_body(graph, now, arrays), rules) if rules else (graph, [])


def _copied(node: Node, name: str) -> Iterable[int]:
    """Positions of a body's results that are only read: rows of stacks, and conditions."""
    if name == "condition":
        return (0,)
    return range(node.attrs["carries"], len(node.outputs)) if node.op == "scan" else ()


def elements_of(graph: Graph) -> dict[int, Array]:
    """Arrays of a body's constants, which stand in their nodes' attributes."""
    specs = {value.id: value.spec for value in graph.values}
    found: dict[int, Array] = {}
    for node in graph.nodes:
        if node.op == "constant" and "elements" in node.attrs:
            spec = specs[node.outputs[0]]
            raw = base64.b64decode(node.attrs["elements"])
            found[node.outputs[0]] = np.frombuffer(raw, as_dtype(spec.dtype)).reshape(spec.shape)
    return found


def _body(old: Graph, new: Graph, arrays: Mapping[int, Array]) -> Graph:
    """A lowered graph as a body again."""
    nodes = []
    for node in new.nodes:
        if node.op == "constant" and "elements" not in node.attrs:
            array = np.ascontiguousarray(arrays[node.outputs[0]])
            attrs = {"elements": base64.b64encode(array.tobytes()).decode()}
            node = _replace(node, attrs=attrs)
        nodes.append(_replace(node, origin=()) if node.origin else node)
    return _replace(new, id=old.id, kind=old.kind, nodes=tuple(nodes))


# What iterations share


def _hoist(draft: Draft, node_id: int) -> None:
    node = draft.node(node_id)
    body: Graph = node.attrs["body"]
    first = node.attrs["carries"] + node.attrs["columns"]
    outside = dict(zip(body.inputs[first:], node.inputs[first:], strict=True))
    constants = elements_of(body)
    moved = _same_each_time(draft, body, node.attrs["carries"], {*outside, *constants})
    if not moved:
        return
    stays = [each for each in body.nodes if each.id not in moved]
    needed = {value for each in stays for value in each.inputs} | set(body.outputs)
    handed = [each for each in moved.values() if each.outputs[0] in needed]
    if all(each.op == "broadcast_to" for each in handed):
        return
    made: list[Node] = []
    for each in moved.values():
        for value in each.inputs:
            if value not in outside:
                outside[value] = draft.constant(constants[value], like=node)
        new = draft.add(each.op, [outside[v] for v in each.inputs], each.attrs, like=node,
                        label=each.op, control=())  # fmt: skip
        outside[each.outputs[0]] = new.outputs[0]
        made.append(new)
    leaves = {
        each.id: Node(id=each.id, name=each.name, op="placeholder", family="leaf",
                      role="input", outputs=each.outputs, scope=each.scope, phase=each.phase,
                      source=each.source)
        for each in handed
    }  # fmt: skip
    nodes = tuple(
        leaves.get(each.id, each)
        for each in body.nodes
        if each.id not in moved or each.id in leaves
    )
    more = tuple(each.outputs[0] for each in handed)
    now = draft.update(
        node,
        inputs=(*node.inputs, *(outside[each] for each in more)),
        attrs=_without_derivative(node.attrs, body=_closed(body, (*body.inputs, *more), nodes)),
    )
    names = ", ".join(each.name for each in moved.values())
    draft.rewrite("hoisted", "rewritten", [now], [now, *made], note=f"{names} from its body")


def _same_each_time(draft: Draft, body: Graph, carries: int, known: set[int]) -> dict[int, Node]:
    """Nodes of a body that compute the same in each iteration, by id."""
    found: dict[int, Node] = {}
    makers = {value: node for node in body.nodes for value in node.outputs}
    ends = {v for each in body.outputs[:carries] for v in roots_of(makers.get, each)}
    for node in body.nodes:
        if not ends.isdisjoint(node.outputs):
            continue  # who gets the last carry may write to it: it is no one else's memory
        if node.is_leaf or node.family in ("control", "update") or not draft.is_pure(node):
            continue
        if node.control_inputs or len(node.outputs) != 1 or not node.inputs:
            continue
        if ops.get(node.op).outputs == 1 and all(each in known for each in node.inputs):
            found[node.id] = node
            known.update(node.outputs)
    return found


def _closed(body: Graph, inputs: tuple[int, ...], nodes: tuple[Node, ...]) -> Graph:
    made = {value for node in nodes for value in node.outputs}
    return _replace(
        body, inputs=inputs, nodes=nodes,
        values=tuple(each for each in body.values if each.id in made),
        constants=tuple(constant for constant in body.constants if constant in made),
    )  # fmt: skip


def _without_derivative(attrs: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Attributes of a loop whose inputs have other positions than its derivative knows."""
    gone = {"derivative": None, "kept": 0} if attrs.get("derivative") is not None else {}
    return {**attrs, **gone, **more}


# What a body does not use


def _prune(draft: Draft, node_id: int) -> None:
    node = draft.node(node_id)
    names = _BODIES[node.op]
    given = 1 if node.op == "cond" else 0
    fixed = sum(node.attrs[each] for each in ("carries", "columns") if each in node.attrs)
    graphs: list[Graph] = [node.attrs[each] for each in names]
    used = [
        {value for each in graph.nodes for value in each.inputs} | set(graph.outputs)
        for graph in graphs
    ]
    count = len(graphs[0].inputs)
    kept = [
        i for i in range(count)
        if i < fixed or any(graph.inputs[i] in there for graph, there in zip(graphs, used,
                                                                             strict=True))
    ]  # fmt: skip
    if len(kept) == count:
        return
    bodies = {}
    for name, graph in zip(names, graphs, strict=True):
        inputs = tuple(graph.inputs[i] for i in kept)
        gone = set(graph.inputs) - set(inputs)
        nodes = tuple(each for each in graph.nodes if gone.isdisjoint(each.outputs))
        bodies[name] = _closed(graph, inputs, nodes)
    now = draft.update(
        node,
        inputs=(*node.inputs[:given], *(node.inputs[given + i] for i in kept)),
        attrs=_without_derivative(node.attrs, **bodies),
    )
    draft.rewrite("unused_input", "rewritten", [now], [now], note=f"{count - len(kept)} of {count}")
