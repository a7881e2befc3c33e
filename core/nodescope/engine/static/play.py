"""Play: runs the nodes of a traced function one by one through the engine, as the plain function
would.

Used under observation, and where the values are needed on the tape.

Invariant: each node has the scope, phase, forward link, source line and history that it has when
the function runs eagerly in the same place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from nodescope.engine import dispatch_mode
from nodescope.engine.execution.node_by_node import without_kept
from nodescope.engine.run import apply
from nodescope.engine.state import State, current
from nodescope.engine.static.tracing import Traced
from nodescope.engine.tensor import Tensor, alias
from nodescope.ir.graph import GIVEN, Node, Phase
from nodescope.ir.scopes import join
from nodescope.ops.calls import Scalar, call_of

_new = Tensor.__new__


def play(
    traced: Traced,
    nodes: Sequence[Node],
    values: dict[int, Any],
    needed: set[int],
    *,
    phase: Phase | None = None,
    needed_values: Collection[int] = (),
) -> None:
    """Run nodes; put their results into ``values``.

    Args:
        traced: The trace that the nodes belong to.
        values: Tensors (or Python numbers) by value id, including all operands of the nodes.
        needed: Ids of the nodes on which results depend. Others run only to be shown; if one fails,
            it is shown as failed without further effect.
        phase: The phase of all nodes; their own if None.
        needed_values: Values needed after the nodes.
    """
    state, observer = current(), dispatch_mode.observer()
    saved = (state.scope, state.phase, state.forward, state.source, state.cursor, state.recording)
    base, recording = state.scope, state.recording
    stood: dict[int, tuple[str, int]] = {}
    pairs: dict[int, list[int]] = {}
    used = {value for node in nodes for value in node.inputs}.union(needed_values)
    if observer is not None:
        for value, gradient in traced.builder.gradients.items():
            pairs.setdefault(gradient, []).append(value)
    try:
        for node in nodes:
            if node.op in GIVEN:
                _leaf(traced, node, values, stood, observer)
                continue
            if node.id not in needed and not all(value in values for value in node.inputs):
                continue  # the node of an operand has failed
            _place(state, node, base, phase, stood, traced)
            state.recording = recording
            try:
                results = _call(traced, node, values, state, used)
            except Exception:
                if node.id in needed:
                    raise
                continue
            for value, result in zip(node.outputs, results, strict=False):
                values[value] = result
                if observer is not None:
                    _seen(observer, node, result, stood)
                    for of in pairs.get(value, ()):
                        if values.get(of).__class__ is Tensor:
                            observer.pair(values[of], result)
    finally:
        (state.scope, state.phase, state.forward, state.source, state.cursor,
         state.recording) = saved  # fmt: skip


def _call(
    traced: Traced, node: Node, values: Mapping[int, Any], state: State, used: set[int]
) -> Any:
    recorded, histories = traced.builder.taped.get(node.id, (False, ()))
    state.recording = state.recording and recorded
    call = call_of(node)
    args: list[Any] = []
    tensors = 0
    for argument in call.args:
        if isinstance(argument, Scalar):
            args.append(argument.value)
            continue
        value = values[argument]
        has_edge = value.__class__ is Tensor and value.edge is not None
        if has_edge and not all(histories[tensors : tensors + 1]):
            value = alias(value)
        tensors += 1
        args.append(value)
    inline, attrs = call.op.inline, call.attrs
    if attrs.get("kept"):
        attrs = without_kept(node, attrs, used)
    result: Any = (
        apply(call.op, tuple(args), attrs) if inline is None else inline(tuple(args), attrs)
    )
    return result if isinstance(result, tuple) else (result,)


def _leaf(
    traced: Traced, node: Node, values: dict[int, Any], stood: dict[int, tuple[str, int]],
    observer: Any,
) -> None:  # fmt: skip
    value = node.outputs[0]
    if value not in values and node.op == "constant":
        original = traced.builder.originals[value]
        new_tensor = _new(Tensor)
        new_tensor.data, new_tensor.edge = original.data, None
        for slot in ("_kind", "_name"):
            if hasattr(original, slot):
                setattr(new_tensor, slot, getattr(original, slot))
        values[value] = new_tensor
        if observer is not None and id(original) in traced.builder.made:
            observer.leaf(new_tensor)
    tensor_now = values.get(value)
    if observer is not None and tensor_now.__class__ is Tensor:
        _seen(observer, node, tensor_now, stood)


def _seen(observer: Any, node: Node, tensor: Any, stood: dict[int, tuple[str, int]]) -> None:
    """Remember the scope and the id of the node that the observer recorded for a node's results."""
    entry = observer.identity.by_value.get(getattr(tensor, "_vid", 0))
    if entry is not None and node.id not in stood:
        stood[node.id] = (entry.node.scope, entry.node.id)


def _place(
    state: State, node: Node, base: str, phase: Phase | None, stood: dict[int, tuple[str, int]],
    traced: Traced,
) -> None:  # fmt: skip
    """Set the thread's place to where the plain function would be."""
    target_phase = phase or node.phase
    forward = None
    if node.phase == "backward":
        of = stood.get(node.forward) if node.forward is not None else None
        if of is not None:
            outer = join("backward", traced.builder.nodes[node.forward - 1].scope).rstrip("/")  # type: ignore[operator]
            inner = node.scope.removeprefix(outer).lstrip("/")
            scope, forward = join(join("backward", of[0]).rstrip("/"), inner).rstrip("/"), of[1]
        elif node.forward is not None:
            inner = node.scope.removeprefix("backward").lstrip("/")
            scope = join(join("backward", base).rstrip("/"), inner).rstrip("/")
        else:
            scope = node.scope
    elif node.phase == "optimizer" or not base:
        scope = node.scope or base
    else:
        scope = join(base, node.scope).rstrip("/")
    if scope != state.scope or target_phase != state.phase or state.cursor is None:
        state.scope, state.phase, state.cursor = scope, target_phase, None
    state.forward, state.source = forward, node.source
