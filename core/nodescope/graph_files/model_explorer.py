"""Model Explorer's JSON: one graph, or several, each in its own scope.

Invariant: JSON that holds no such graph is a `GraphError`.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from nodescope.errors import GraphError
from nodescope.graph_files.draft import Draft, Ref, scope_of
from nodescope.ir.graph import OpaqueSpec, Role, Spec, TensorSpec

_SHAPE: Final = re.compile(r"(?P<dtype>[A-Za-z_]\w*)?\s*[\[(<]?(?P<sizes>[\d?,x×*\s-]*)[\])>]?")
_DTYPE: Final = re.compile(r"[A-Za-z_]\w{0,39}")
_ROLES: Final[dict[str, Role]] = {
    "const": "constant", "constant": "constant", "pseudo_const": "constant", "input": "input",
    "placeholder": "input", "graphinputs": "input", "parameter": "parameter",
    "weight": "parameter",
}  # fmt: skip


class _Pair(msgspec.Struct):
    key: str = ""
    value: Any = ""


class _Port(msgspec.Struct):
    id: Any = ""
    attrs: list[_Pair] = []


class _Edge(msgspec.Struct, rename="camel"):
    source_node_id: Any = ""
    source_node_output_id: Any = "0"


class _Node(msgspec.Struct, rename="camel"):
    id: str | int
    label: str = ""
    namespace: str = ""
    attrs: list[_Pair] = []
    incoming_edges: list[_Edge] = []
    outputs_metadata: list[_Port] = []


class _Graph(msgspec.Struct):
    nodes: list[_Node]
    id: str = ""


def read(data: bytes | memoryview, name: str) -> Draft:
    """The graphs of a file."""
    try:
        content = msgspec.json.decode(bytes(data).removeprefix(b"\xef\xbb\xbf"))
        graphs = msgspec.convert(_graphs(content, 0), list[_Graph], strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise GraphError(str(error)[:200]) from None
    if not graphs:
        raise GraphError("it has no graphs")
    draft = Draft("model_explorer")
    for number, graph in enumerate(graphs):
        scope = scope_of((graph.id or f"graph_{number}",)) if len(graphs) > 1 else ""
        _add(draft, graph, f"{number}:" if number else "", scope)
    return draft


def _graphs(content: Any, depth: int) -> list[Any]:
    """The graphs, in any of the forms that Model Explorer accepts."""
    if depth > 8:
        return []
    if isinstance(content, list):
        return [graph for item in content for graph in _graphs(item, depth + 1)]
    if not isinstance(content, dict):
        raise GraphError("it has no graphs")
    for key in ("graphCollections", "graphs", "subgraphs"):
        if isinstance(content.get(key), list):
            return _graphs(content[key], depth + 1)
    if isinstance(content.get("nodes"), list):
        return [content]
    raise GraphError("it has no graphs")


def _add(draft: Draft, graph: _Graph, prefix: str, around: str) -> None:
    ports: dict[str, dict[str, int]] = {}
    for node in graph.nodes:
        ids = dict.fromkeys(str(port.id) for port in node.outputs_metadata)
        ports[prefix + str(node.id)] = {port: place for place, port in enumerate(ids)}
    for node in graph.nodes:
        inputs: list[Ref] = []
        controls: list[str] = []
        for edge in node.incoming_edges:
            key, port = prefix + str(edge.source_node_id), str(edge.source_node_output_id)
            if port == "control":
                controls.append(key)
                continue
            known = ports.setdefault(key, {})
            inputs.append((key, known.setdefault(port, len(known))))
        attrs = {pair.key: pair.value for pair in node.attrs}
        role = _role(node, attrs)
        outputs = {
            place: _spec(port, attrs.get("dtype"))
            for place, port in enumerate(node.outputs_metadata)
        }
        _drop_repeated(attrs, outputs)
        inside = scope_of(node.namespace.split("/"))
        draft.add(
            prefix + str(node.id), node.label or str(node.id),
            str(attrs.pop("op", "") or node.label), inputs=inputs, controls=controls, attrs=attrs,
            scope="/".join(filter(None, (around, inside))), role=role,
            outputs=outputs,
        )  # fmt: skip


def _role(node: _Node, attrs: dict[str, Any]) -> Role:
    """The role of a node, by nodescope's own attribute, or else by the label."""
    own = attrs.get("role")
    if own in ("op", "parameter", "buffer", "input", "constant"):
        for known in ("role", "family", "phase"):
            attrs.pop(known, None)
        return own  # type: ignore[no-any-return]
    return "op" if node.incoming_edges else _ROLES.get(node.label.lower(), "op")


def _drop_repeated(attrs: dict[str, Any], outputs: dict[int, Spec]) -> None:
    """Drop attributes that repeat the shape and dtype of the node's only output."""
    spec = outputs.get(0)
    if len(outputs) != 1 or not isinstance(spec, TensorSpec):
        return
    if attrs.get("dtype") == spec.dtype:
        del attrs["dtype"]
    shape = attrs.get("shape")
    if isinstance(shape, str) and _tensor(shape) == TensorSpec(spec.shape, ""):
        del attrs["shape"]


def _spec(port: _Port, dtype: Any) -> Spec:
    """The spec of an output; if the port has no dtype, the node's."""
    known = {pair.key: str(pair.value)[:500].strip() for pair in port.attrs}
    spec = _tensor(known.get("tensor_shape") or known.get("shape", ""))
    if not isinstance(spec, TensorSpec) or spec.dtype:
        return spec
    own = known.get("dtype") or (dtype if isinstance(dtype, str) else "")
    return TensorSpec(spec.shape, own if _DTYPE.fullmatch(own) else "")


def _tensor(text: str) -> Spec:
    """The spec that a shape's text describes; it may begin with a dtype."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        return OpaqueSpec(text[:80])
    dtype, sizes = match["dtype"] or "", re.split(r"[,x×*\s]+", match["sizes"].strip())
    if sizes == [""]:
        return TensorSpec((), dtype) if text.endswith(("]", ")")) else OpaqueSpec(dtype)
    known = (int(size) if size.isdecimal() and len(size) < 19 else None for size in sizes if size)
    return TensorSpec(tuple(known), dtype)
