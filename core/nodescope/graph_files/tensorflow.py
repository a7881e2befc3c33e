"""TensorFlow: the structure of a GraphDef or SavedModel, from bytes or text.

Functions are expanded where they are called. The contents of constants are skipped without being
read.

Invariant: a function that calls itself is an error, and so is one that expands beyond the limits.
"""

from __future__ import annotations

from typing import Any, Final

from nodescope.errors import GraphError
from nodescope.graph_files.draft import Draft, Ref, scope_of, scoped
from nodescope.graph_files.messages import Message, Schema, decode, one
from nodescope.graph_files.prototext import parse
from nodescope.ir.graph import OpaqueSpec, Role, Spec, TensorSpec

SCHEMA: Final[Schema] = {
    "SavedModel": {1: ("saved_model_schema_version", "int"), 2: ("meta_graphs", "MetaGraphDef")},
    "MetaGraphDef": {2: ("graph_def", "GraphDef")},
    "GraphDef": {1: ("node", "NodeDef"), 2: ("library", "FunctionDefLibrary")},
    "NodeDef": {1: ("name", "string"), 2: ("op", "string"), 3: ("input", "string"),
                4: ("device", "string"), 5: ("attr", "Entry")},
    "Entry": {1: ("key", "string"), 2: ("value", "AttrValue")},
    "AttrValue": {1: ("list", "ListValue"), 2: ("s", "bytes"), 3: ("i", "int"), 4: ("f", "float"),
                  5: ("b", "int"), 6: ("type", "int"), 7: ("shape", "TensorShapeProto"),
                  8: ("tensor", "TensorProto"), 9: ("placeholder", "string"),
                  10: ("func", "NameAttrList")},
    "ListValue": {2: ("s", "bytes"), 3: ("i", "int"), 4: ("f", "float"), 5: ("b", "int"),
                  6: ("type", "int"), 7: ("shape", "TensorShapeProto"),
                  9: ("func", "NameAttrList")},
    "NameAttrList": {1: ("name", "string")},
    "TensorShapeProto": {2: ("dim", "Dim"), 3: ("unknown_rank", "int")},
    "Dim": {1: ("size", "int")},
    "TensorProto": {1: ("dtype", "int"), 2: ("tensor_shape", "TensorShapeProto")},
    "FunctionDefLibrary": {1: ("function", "FunctionDef")},
    "FunctionDef": {1: ("signature", "OpDef"), 3: ("node_def", "NodeDef"), 4: ("ret", "Ret")},
    "OpDef": {1: ("name", "string"), 2: ("input_arg", "ArgDef"), 3: ("output_arg", "ArgDef")},
    "ArgDef": {1: ("name", "string"), 3: ("type", "int")},
    "Ret": {1: ("key", "string"), 2: ("value", "string")},
}  # fmt: skip
DTYPES: Final[dict[Any, str]] = dict(enumerate((  # noqa: SIM905 (shorter)
    "float32 float64 int32 uint8 int16 int8 str complex64 int64 bool qint8 quint8 qint32 bfloat16 "
    "qint16 quint16 uint16 complex128 float16 resource variant uint32 uint64 float8_e5m2 "
    "float8_e4m3fn").split(), 1
)) | {29: "int4", 30: "uint4"}  # fmt: skip
_WORDS: Final = {"float": "float32", "double": "float64", "half": "float16", "string": "str"}
_PARAMETERS: Final = frozenset({"VariableV2", "Variable", "VarHandleOp", "VariableV1"})
_INPUTS: Final = frozenset({"Placeholder", "PlaceholderV2", "_Arg", "PlaceholderWithDefault"})
_HIDDEN: Final = frozenset({"_output_shapes", "T", "dtype", "value", "shape", "_class"})
_DEEPEST: Final = 40
_MOST_PORT: Final = 10_000

Ports = dict[str, dict[tuple[str, int], int]]
"""The port of an output by node, then by the output's name and the index within it."""


def read(data: bytes | memoryview, name: str) -> Draft:
    """The graph of a file."""
    view = memoryview(data)
    graph = _parsed(view) if name.lower().endswith(".pbtxt") else _decoded(view)
    draft = Draft("tensorflow")
    functions: dict[str, Message] = {}
    for library in graph.get("library", ()):
        for function in library.get("function", ()):
            functions[one(one(function, "signature", {}), "name", "")] = function
    reader = _Reader(draft, functions)
    nodes = graph.get("node", [])
    reader.nodes(nodes, "", "", {}, ())
    if not draft.nodes and functions:  # exported by Keras: all nodes are in functions
        for title, function in functions.items():
            reader.function(function, f"{title}.", scope_of((title,)), [], (title,))
    return draft


def _decoded(view: memoryview) -> Message:
    # A SavedModel begins with its version, a number; a GraphDef with a message.
    if view[0] == 8:
        model = decode(view, SCHEMA, "SavedModel")
        graphs: list[Message] = [graph for meta in model.get("meta_graphs", ())
                  for graph in meta.get("graph_def", ())]  # fmt: skip
        if not graphs:
            raise GraphError("it is neither a GraphDef nor a SavedModel")
        return graphs[0]
    return decode(view, SCHEMA, "GraphDef")


def _parsed(view: memoryview) -> Message:
    text = bytes(view).decode("utf-8", "backslashreplace")
    if "meta_graphs" in text[:10_000]:
        model = parse(text, SCHEMA, "SavedModel")
        graphs: list[Message] = [graph for meta in model.get("meta_graphs", ())
                  for graph in meta.get("graph_def", ())]  # fmt: skip
        if graphs:
            return graphs[0]
    return parse(text, SCHEMA, "GraphDef")


class _Reader:
    def __init__(self, draft: Draft, functions: dict[str, Message]) -> None:
        self._draft = draft
        self._functions = functions

    def nodes(
        self, nodes: list[Message], prefix: str, scope: str, arguments: dict[str, Ref],
        calls: tuple[str, ...],
    ) -> Ports:  # fmt: skip
        """Add nodes. Returns the ports of outputs that are named as in functions."""
        if len(calls) > _DEEPEST:
            raise GraphError(f"functions are nested more than {_DEEPEST} deep")
        ports: Ports = {}
        for node in nodes:
            self._node(node, prefix, scope, arguments, calls, ports)
        return ports

    def function(
        self, function: Message, prefix: str, scope: str, given: list[Ref], calls: tuple[str, ...]
    ) -> list[Ref]:
        """Add a function's body. Returns the references of its outputs."""
        signature = one(function, "signature", {})
        arguments: dict[str, Ref] = {}
        for place, argument in enumerate(signature.get("input_arg", ())):
            name = one(argument, "name", "")
            if place < len(given):
                arguments[name] = given[place]
                continue
            key = f"{prefix}={name}"
            spec = OpaqueSpec(_dtype(one(argument, "type", 0)))
            self._draft.add(key, name, "input", scope=scope, outputs={0: spec}, role="input")
            arguments[name] = (key, 0)
        ports = self.nodes(function.get("node_def", []), prefix, scope, arguments, calls)
        returned = {one(r, "key", ""): one(r, "value", "") for r in function.get("ret", ())}
        return [
            _ref(returned.get(one(output, "name", ""), "?"), prefix, arguments, ports)
            for output in signature.get("output_arg", ())
        ]

    def _node(
        self, node: Message, prefix: str, scope: str, arguments: dict[str, Ref],
        calls: tuple[str, ...], ports: Ports,
    ) -> None:  # fmt: skip
        name, op = one(node, "name", ""), one(node, "op", "") or "?"
        attrs = {one(entry, "key", ""): one(entry, "value", {}) for entry in node.get("attr", ())}
        key = prefix + name
        inputs, controls = [], []
        for text in node.get("input", ()):
            if text.startswith("^"):
                controls.append(prefix + text[1:])
            else:
                inputs.append(_ref(text, prefix, arguments, ports))
        place, title = scoped(name)
        inner = "/".join(filter(None, (scope, place)))
        called = op if op in self._functions else _called(attrs.get("f", {}))
        if called in self._functions:
            if called in calls:
                raise GraphError(f"the function {called[:80]!r} calls itself: a cycle")
            path = "/".join(filter(None, (inner, scope_of((title,)))))
            outputs = self.function(
                self._functions[called], f"{key}/", path, inputs, (*calls, called)
            )
            for port, ref in enumerate(outputs):
                self._draft.alias((key, port), ref)
            return
        role: Role = (
            "constant" if op == "Const" else "parameter" if op in _PARAMETERS
            else "input" if op in _INPUTS else "op"
        )  # fmt: skip
        self._draft.add(
            key, title, op, scope=inner, inputs=inputs, controls=controls,
            outputs=_outputs(op, attrs), role=role, device=one(node, "device", ""),
            attrs={
                name: _attribute(value) for name, value in attrs.items() if name not in _HIDDEN
            },
        )  # fmt: skip


def _ref(text: str, prefix: str, arguments: dict[str, Ref], ports: Ports) -> Ref:
    """Resolve ``node`` or ``node:port``; in functions also ``argument``, ``node:output:index``."""
    name, *rest = text.split(":")
    if not rest and name in arguments:
        return arguments[name]
    number = int(rest[-1]) if rest and rest[-1].isdecimal() and len(rest[-1]) < 6 else 0
    if number > _MOST_PORT:
        raise GraphError(f"an output number {number:,}, beyond {_MOST_PORT:,}")
    if len(rest) < 2:
        return prefix + name, number
    outputs = ports.setdefault(name, {})
    return prefix + name, outputs.setdefault((rest[0], number), max(len(outputs), number))


def _outputs(op: str, attrs: dict[str, Message]) -> dict[int, Spec]:
    """The specs of a node's outputs, from Grappler's shapes or some operators' attributes."""
    dtype = next((_dtype(one(attrs[key], "type", 0)) for key in ("dtype", "T", "DstT", "Tidx")
                  if attrs.get(key, {}).get("type")), "")  # fmt: skip
    shapes = one(attrs.get("_output_shapes", {}), "list", {}).get("shape", [])
    if shapes:
        return {port: _spec(shape, dtype) for port, shape in enumerate(shapes)}
    tensor = one(attrs.get("value", {}), "tensor", None)
    if op == "Const" and tensor is not None:
        shape = one(tensor, "tensor_shape", {})
        return {0: _spec(shape, _dtype(one(tensor, "dtype", 0)))}
    shape = one(attrs.get("shape", {}), "shape", None)
    if shape is not None and op in _INPUTS | _PARAMETERS:
        return {0: _spec(shape, dtype)}
    return {0: OpaqueSpec(dtype)} if op not in ("NoOp", "Assert") else {}


def _spec(shape: Message, dtype: str) -> Spec:
    if one(shape, "unknown_rank", 0):
        return OpaqueSpec(dtype)
    sizes = [one(size, "size", 0) for size in shape.get("dim", ())[:64]]
    known = (n if isinstance(n, int) and 0 <= n < 1 << 62 else None for n in sizes)
    return TensorSpec(tuple(known), dtype)


def _dtype(code: Any) -> str:
    if isinstance(code, int):
        return DTYPES.get(code - 100 if code > 100 else code, "")
    word = str(code).removeprefix("DT_").removesuffix("_REF").lower()
    return _WORDS.get(word, word)[:40]


def _called(value: Message) -> str:
    return str(one(one(value, "func", {}), "name", ""))


def _attribute(value: Message) -> Any:
    for key in ("s", "i", "f", "placeholder"):
        if value.get(key):
            return value[key][-1]
    if value.get("b"):
        return bool(value["b"][-1])
    if value.get("type"):
        return _dtype(value["type"][-1])
    if value.get("shape"):
        return str(_spec(value["shape"][-1], "")).strip()
    if value.get("func"):
        return _called(value)
    items = one(value, "list", {})
    for key in ("s", "i", "f", "b"):
        if items.get(key):
            return items[key]
    return [_dtype(code) for code in items["type"][:64]] if items.get("type") else None
