"""ONNX: the structure of a model, from bytes or text.

Weights are skipped without being read, and external data is never opened. Functions are expanded
where they are called; the bodies of branches and loops are in scopes of their nodes.

Invariant: a function that calls itself is an error, and so is one that expands beyond the limits.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import MutableMapping
from typing import Any, Final

from nodescope.console_output import shape_words
from nodescope.errors import GraphError
from nodescope.graph_files.draft import Draft, Ref, scope_of, scoped
from nodescope.graph_files.messages import Message, Schema, decode, one
from nodescope.graph_files.prototext import parse
from nodescope.ir.graph import OpaqueSpec, Role, Spec, TensorSpec

SCHEMA: Final[Schema] = {
    "ModelProto": {1: ("ir_version", "int"), 2: ("producer_name", "string"),
                   3: ("producer_version", "string"), 7: ("graph", "GraphProto"),
                   25: ("functions", "FunctionProto")},
    "GraphProto": {1: ("node", "NodeProto"), 2: ("name", "string"),
                   5: ("initializer", "TensorProto"), 11: ("input", "ValueInfoProto"),
                   12: ("output", "ValueInfoProto"), 13: ("value_info", "ValueInfoProto"),
                   15: ("sparse_initializer", "SparseTensorProto")},
    "NodeProto": {1: ("input", "string"), 2: ("output", "string"), 3: ("name", "string"),
                  4: ("op_type", "string"), 5: ("attribute", "AttributeProto"),
                  7: ("domain", "string"), 9: ("metadata_props", "Entry")},
    "Entry": {1: ("key", "string"), 2: ("value", "string")},
    "AttributeProto": {1: ("name", "string"), 2: ("f", "float"), 3: ("i", "int"), 4: ("s", "bytes"),
                       5: ("t", "TensorProto"), 6: ("g", "GraphProto"), 7: ("floats", "float"),
                       8: ("ints", "int"), 9: ("strings", "bytes"), 11: ("graphs", "GraphProto"),
                       21: ("ref_attr_name", "string")},
    "TensorProto": {1: ("dims", "int"), 2: ("data_type", "int"), 8: ("name", "string")},
    "SparseTensorProto": {1: ("values", "TensorProto"), 3: ("dims", "int")},
    "FunctionProto": {1: ("name", "string"), 4: ("input", "string"), 5: ("output", "string"),
                      7: ("node", "NodeProto"), 10: ("domain", "string"),
                      12: ("value_info", "ValueInfoProto")},
    "ValueInfoProto": {1: ("name", "string"), 2: ("type", "TypeProto")},
    "TypeProto": {1: ("tensor_type", "Tensor"), 8: ("sparse_tensor_type", "Tensor"),
                  4: ("sequence_type", "Other"), 5: ("map_type", "Other"),
                  9: ("optional_type", "Other")},
    "Tensor": {1: ("elem_type", "int"), 2: ("shape", "TensorShapeProto")},
    "Other": {},
    "TensorShapeProto": {1: ("dim", "Dimension")},
    "Dimension": {1: ("dim_value", "int"), 2: ("dim_param", "string")},
}  # fmt: skip
DTYPES: Final = dict(enumerate((  # noqa: SIM905 (shorter)
    "float32 uint8 int8 uint16 int16 int32 int64 str bool float16 float64 uint32 uint64 complex64 "
    "complex128 bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz uint4 int4 "
    "float4_e2m1fn float8_e8m0fnu uint2 int2").split(), 1
))  # fmt: skip
_SCOPES: Final = "pkg.torch.onnx.name_scopes"
_QUOTED: Final = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_DEEPEST: Final = 40

Names = MutableMapping[str, Ref]


def read(data: bytes | memoryview, name: str) -> Draft:
    """The graph of a model."""
    view = memoryview(data)
    if name.lower().endswith((".onnxtxt", ".textproto")):
        text = bytes(view).decode("utf-8", "backslashreplace")
        model = parse(text, SCHEMA, "ModelProto")
    else:
        model = decode(view, SCHEMA, "ModelProto")
    if not model.get("graph"):
        raise GraphError("it has no graph")
    draft = Draft("onnx")
    reader = _Reader(draft, model)
    graph = model["graph"][-1]
    outputs = reader.body(graph, {}, "", "", ())
    for place, ref in enumerate(outputs):
        title = one(graph["output"][place], "name", "output")
        draft.add(f"output {place}", title, "output", inputs=[ref])
    return draft


class _Reader:
    def __init__(self, draft: Draft, model: Message) -> None:
        self._draft = draft
        self._functions = {
            (one(function, "domain", ""), one(function, "name", "")): function
            for function in model.get("functions", ())
        }
        self._count = 0

    def body(
        self, graph: Message, outside: Names, prefix: str, scope: str, calls: tuple[Any, ...],
        feeds: tuple[Ref, ...] = (),
    ) -> list[Ref]:  # fmt: skip
        """Add a graph. Returns the references of its outputs.

        Args:
            graph: The graph.
            outside: The references of the enclosing graphs' names.
            prefix: A prefix that makes its keys unique.
            scope: The scope that it is placed in.
            calls: The enclosing functions and nodes.
            feeds: The references of its first inputs; the others become input nodes.
        """
        names: Names = ChainMap({}, outside)
        specs = _specs(graph)
        weights = graph.get("initializer", []) + [
            {**one(item, "values", {}), "dims": item.get("dims", [])}
            for item in graph.get("sparse_initializer", ())
        ]
        for tensor in weights:
            title = one(tensor, "name", "")
            spec = _tensor(tensor)
            role: Role = "parameter" if spec.shape and "float" in spec.dtype else "constant"
            self._leaf(names, prefix, title, role, spec)
        for place, info in enumerate(graph.get("input", ())):
            title = one(info, "name", "")
            if place < len(feeds):
                names[title] = feeds[place]
            elif f"{prefix}={title}" not in self._draft.nodes:  # not an initializer's
                self._leaf(names, prefix, title, "input", specs.get(title), scope)
        self._nodes(graph.get("node", []), names, specs, prefix, scope, calls)
        missing = f"{prefix}?"
        return [
            names.get(one(info, "name", ""), (missing + one(info, "name", ""), 0))
            for info in graph.get("output", ())
        ]

    def _leaf(
        self, names: Names, prefix: str, title: str, role: Role, spec: Spec | None,
        scope: str | None = None,
    ) -> None:  # fmt: skip
        key = f"{prefix}={title}"
        own = title.rpartition("/")[2] or title or role
        outputs = {0: spec} if spec is not None else None
        self._draft.add(key, own, role, scope=scope, outputs=outputs, role=role)
        names[title] = (key, 0)

    def _nodes(
        self, nodes: list[Message], names: Names, specs: dict[str, Spec], prefix: str, scope: str,
        calls: tuple[Any, ...],
    ) -> None:  # fmt: skip
        if len(calls) > _DEEPEST:
            raise GraphError(f"functions and branches are nested more than {_DEEPEST} deep")
        keys = []
        for node in nodes:  # all names first: invalid files may have any order
            self._count += 1
            key = f"{prefix}{self._count}"
            keys.append(key)
            for port, output in enumerate(node.get("output", ())):
                if output:
                    names[output] = (key, port)
        for node, key in zip(nodes, keys, strict=True):
            self._node(node, key, names, specs, scope, calls)

    def _node(
        self, node: Message, key: str, names: Names, specs: dict[str, Spec], scope: str,
        calls: tuple[Any, ...],
    ) -> None:  # fmt: skip
        op = one(node, "op_type", "") or "?"
        place, title = _place(node, op)
        inner = "/".join(filter(None, (scope, place)))
        inputs = [
            names.get(name, (f"?{name}", 0)) for name in node.get("input", ()) if name
        ]  # fmt: skip
        domain = one(node, "domain", "")
        function = self._functions.get((domain, op))
        if function is not None:
            self._call(function, (domain, op), node, key, names, inner, title, calls)
            return
        attrs: dict[str, Any] = {"domain": domain} if domain not in ("", "ai.onnx") else {}
        for attribute in node.get("attribute", ()):
            name = one(attribute, "name", "")
            graphs = attribute.get("g", []) + attribute.get("graphs", [])
            for number, graph in enumerate(graphs):
                path = scope_of((title, f"{name}_{number}" if len(graphs) > 1 else name))
                inside = "/".join(filter(None, (inner, path)))
                inputs += self.body(graph, names, f"{key}.{name}{number}.", inside, (*calls, key))
            if not graphs:
                attrs[name] = _attribute(attribute)
        outputs = {
            port: specs[output]
            for port, output in enumerate(node.get("output", ()))
            if output in specs
        }
        for port, output in enumerate(node.get("output", ())):
            if output and port not in outputs:
                outputs[port] = OpaqueSpec("")
        role: Role = "constant" if op == "Constant" else "op"
        if op == "Constant" and node.get("attribute"):
            tensor = one(node["attribute"][0], "t", None)
            if tensor is not None:
                outputs[0] = _tensor(tensor)
        self._draft.add(
            key, title, op, scope=None if role == "constant" and not inner else inner,
            inputs=inputs, outputs=outputs, attrs=attrs, role=role,
        )  # fmt: skip

    def _call(
        self, function: Message, name: tuple[str, str], node: Message, key: str, names: Names,
        scope: str, title: str, calls: tuple[Any, ...],
    ) -> None:  # fmt: skip
        """Add the body of a function in place of a call."""
        if name in calls:
            raise GraphError(f"the function {name[1][:80]!r} calls itself: a cycle")
        inside: Names = {}
        given = node.get("input", [])
        for place, parameter in enumerate(function.get("input", ())):
            if place < len(given) and given[place]:
                inside[parameter] = names.get(given[place], (f"?{given[place]}", 0))
        path = "/".join(filter(None, (scope, scope_of((title,)))))
        self._nodes(function.get("node", []), inside, _specs(function), f"{key}.", path,
                    (*calls, name))  # fmt: skip
        for port, output in enumerate(function.get("output", ())):
            self._draft.alias((key, port), inside.get(output, (f"{key}.?{output}", 0)))


def _place(node: Message, op: str) -> tuple[str, str]:
    """A node's scope and own name, from PyTorch's metadata about modules or from its name."""
    name = one(node, "name", "")
    for entry in node.get("metadata_props", ()):
        if one(entry, "key", "") == _SCOPES:
            paths = [a or b for a, b in _QUOTED.findall(one(entry, "value", "")[:20_000])]
            if len(paths) > 1:
                return scope_of(paths[-2].split(".")), name or paths[-1]
    scope, own = scoped(name)
    return scope, own if name else op


def _specs(graph: Message) -> dict[str, Spec]:
    """The specs of the values that the file describes, by name."""
    infos = (info for key in ("input", "output", "value_info") for info in graph.get(key, ())
             if isinstance(info, dict))  # fmt: skip
    return {one(info, "name", ""): _type(one(info, "type", {})) for info in infos}


def _type(described: Message) -> Spec:
    for key in ("tensor_type", "sparse_tensor_type"):
        tensor = one(described, key, None)
        if tensor is None:
            continue
        dtype = DTYPES.get(one(tensor, "elem_type", 0), "")
        if not tensor.get("shape"):
            return OpaqueSpec(dtype)
        sizes = (one(size, "dim_value", None) for size in tensor["shape"][-1].get("dim", ()))
        return TensorSpec(tuple(None if n is None or n < 0 else n for n in sizes), dtype)
    return OpaqueSpec(next((key.removesuffix("_type") for key in described), ""))


def _tensor(tensor: Message) -> TensorSpec:
    dims = tuple(max(0, size) for size in tensor.get("dims", ())[:64])
    return TensorSpec(dims, DTYPES.get(one(tensor, "data_type", 0), ""))


def _attribute(attribute: Message) -> Any:
    if attribute.get("t"):
        spec = _tensor(attribute["t"][-1])
        return f"{spec.dtype} {shape_words(spec.shape)}"
    for key in ("floats", "ints", "strings"):
        if attribute.get(key):
            return attribute[key]
    for key in ("f", "i", "s"):
        if attribute.get(key):
            return attribute[key][-1]
    if attribute.get("ref_attr_name"):
        return f"@{attribute['ref_attr_name'][-1]}"
    return None
