"""Replay: runs a graph's nodes one by one through the engine, as the program once did.

Each node is a separate operation again: observed, on the tape, or recorded in another graph.

Invariant: scope, phase, forward link and source line are those of the replayed node, inside the
scope that replays it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from nodescope.engine import dispatch_mode
from nodescope.engine.run import apply
from nodescope.engine.state import current
from nodescope.engine.tensor import Tensor, make
from nodescope.ir.graph import GIVEN, Graph, Node
from nodescope.ir.scopes import placed
from nodescope.ops.calls import Scalar, call_of
from nodescope.ops.op import Array


def replay(
    graph: Graph, inputs: Sequence[Any], constants: Mapping[int, Array] | None = None
) -> list[Tensor]:
    """The graph's outputs as tensors.

    Args:
        graph: The graph to run.
        inputs: A tensor for each of the graph's inputs.
        constants: Arrays of its constants by value id.
    """
    state = current()
    observer = dispatch_mode.observer()
    values: dict[int, Any] = dict(zip(graph.inputs, inputs, strict=True))
    tensors_by_node: dict[int, Tensor] = {}  # by node id: one result, which knows its new node
    saved = (state.scope, state.phase, state.forward, state.source, state.cursor)
    base, around = state.scope, state.phase
    try:
        for node in graph.nodes:
            if node.op in GIVEN:
                if constants is not None and node.op == "constant":
                    for value in node.outputs:
                        values[value] = make(constants[value], kind="constant", name=node.name)
                continue
            scope = place(node, base)
            phase = node.phase if around == "forward" else around
            if scope != state.scope or phase != state.phase:
                state.scope, state.phase, state.cursor = scope, phase, None
            state.source = node.source
            if node.forward is not None and observer is not None:
                forward = tensors_by_node.get(node.forward)
                state.forward = None if forward is None else observer.node_id(forward)
            else:
                state.forward = saved[2]
            call = call_of(node)
            args = tuple(
                argument.value if isinstance(argument, Scalar) else values[argument]
                for argument in call.args
            )
            inline, attrs = call.op.inline, call.attrs
            if attrs.get("kept"):
                needed = {value for n in graph.nodes for value in n.inputs}
                attrs = without_kept(node, attrs, needed.union(graph.outputs))
            result: Any = apply(call.op, args, attrs) if inline is None else inline(args, attrs)
            results = result if isinstance(result, tuple) else (result,)
            values.update(zip(node.outputs, results, strict=False))
            if results:
                tensors_by_node[node.id] = results[0]
    finally:
        state.scope, state.phase, state.forward, state.source, state.cursor = saved
    return [values[value] for value in graph.outputs]


def without_kept(node: Node, attrs: dict[str, Any], needed: Collection[int]) -> dict[str, Any]:
    """The attributes of a scan without the values kept for its derivative, if they are unused.

    When run node by node, each row is on the tape separately, and eager execution does not stack
    them.
    """
    kept = attrs["kept"]
    if any(value in needed for value in node.outputs[len(node.outputs) - kept :]):
        return attrs
    body: Graph = attrs["body"]
    body = msgspec.structs.replace(body, outputs=body.outputs[: len(body.outputs) - kept])
    return {**attrs, "body": body, "kept": 0, "derivative": None}


def place(node: Node, base: str) -> str:
    """The scope of a node replayed inside of scope ``base``, as eager execution names it."""
    return placed(node.scope, node.phase, base)
