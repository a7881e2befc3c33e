"""Recordings of schema 1: their contents in the form that later versions read.

In schema 1, attributes were plain data; the meaning of text and lists followed from the attribute's
name. Nodes had no roles, and their family said what they wrote.

Invariant: reads a fixed notation and evaluates nothing; unknown text stays unchanged and is refused
by the op's own impl. Nothing is written: a file of schema 1 keeps its schema.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from nodescope.events import Compiled, GraphCaptured
from nodescope.ir import attrs
from nodescope.ir.graph import Graph, Node, usual_role, usual_writes
from nodescope.ir.provenance import Fate, KernelCost, MemoryReport

VERSION = 1
# Tables that differ from the current ones; `step` as made by all releases but the last of this
# schema.
TABLES = {
    "run": "CREATE TABLE run (id TEXT NOT NULL, name TEXT NOT NULL, argv TEXT NOT NULL, "
    "pid INTEGER NOT NULL, started_unix_ns INTEGER NOT NULL, level TEXT NOT NULL, "
    "writer TEXT NOT NULL, status INTEGER, error TEXT NOT NULL, finished_ns INTEGER) STRICT",
    "value": "CREATE TABLE value (row INTEGER PRIMARY KEY, seq INTEGER NOT NULL, "
    "id INTEGER NOT NULL, name TEXT NOT NULL, dtype TEXT NOT NULL, shape TEXT NOT NULL, "
    "producer INTEGER) STRICT",
}
EARLIER = (
    *TABLES.values(),
    "CREATE TABLE step (step INTEGER PRIMARY KEY, start_seq INTEGER NOT NULL, "
    "start_ns INTEGER NOT NULL, end_seq INTEGER, end_ns INTEGER) STRICT",
)


def statements(version: int, current: str) -> str:
    """The table definitions of a version, derived from the current ones."""
    if version != VERSION:
        return current
    for table, statement in TABLES.items():
        current = re.sub(rf"CREATE TABLE {table} \([^;]*\) STRICT", statement, current)
    return current


_COMPLEX = re.compile(r"\(?[-+0-9.einfa]*[0-9fn]j\)?")
_LONG = re.compile(r"-?\d{19,}")
_SLICE = re.compile(r"slice\(([^,]*), ([^,]*), ([^,]*)\)")
_DTYPE = re.compile(r"dtype\('([a-z0-9]+)'\)")
_BODIES = ("body", "then", "otherwise", "condition")

_node_decoder = msgspec.msgpack.Decoder(Node)
_attrs_decoder = msgspec.msgpack.Decoder(dict[str, Any])


def decode_node(data: bytes) -> Node:
    """A row of table ``node``. Raises `msgspec.MsgspecError` or `ValueError`."""
    return upgraded(_node_decoder.decode(data))


def decode_attrs(data: bytes) -> dict[str, Any]:
    """A row of table ``call``. Raises `msgspec.MsgspecError` or `ValueError`."""
    return _attributes(_attrs_decoder.decode(data))


def upgraded(node: Node) -> Node:
    """A node with its role, its writes, and its attributes in the form that its op expects."""
    return msgspec.structs.replace(
        node,
        attrs=_attributes(node.attrs),
        role=usual_role(node.op, node.family),
        writes=usual_writes(node.family),
    )


def graph_of(plain: dict[str, Any]) -> Graph:
    """A graph in a document. Raises `msgspec.MsgspecError` or `ValueError`."""
    for value in plain["values"]:
        value["spec"]["kind"] = "tensor"
    graph = msgspec.convert(plain, Graph)
    return msgspec.structs.replace(graph, nodes=tuple(map(upgraded, graph.nodes)))


def _attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(name, value) for name, value in attributes.items()}


def _value(name: str, value: Any) -> Any:
    if name == "index":
        return index_of(value)
    if name in _BODIES:
        if isinstance(value, dict):
            return graph_of(value)
        return attrs.Opaque(value) if isinstance(value, str) else value
    if name == "derivative":
        return None  # only a vjp needs it
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if isinstance(value, str):
        if _LONG.fullmatch(value):
            return int(value)
        if _COMPLEX.fullmatch(value):
            return complex(value)
        if (match := _SLICE.fullmatch(value)) is not None:
            return slice(*map(_number, match.groups()))
        if (match := _DTYPE.fullmatch(value)) is not None:
            return match[1]
    return value


def index_of(value: Any) -> tuple[Any, ...]:
    """An index from its text, ``0, ::2, index_0, ...``, or from the list that msgpack made.

    Raises:
        ValueError: The text is not an index.
    """
    if isinstance(value, str):
        return tuple(_item(item.strip()) for item in value.split(",")) if value else ()
    return tuple(map(_element, value))


def _item(text: str) -> Any:
    if text == "...":
        return Ellipsis
    if text.startswith("index_"):
        return attrs.Port(int(text[6:]))
    if ":" in text:
        return slice(*(_number(end) if end else None for end in text.split(":")))
    return _number(text)


def _element(item: Any) -> Any:
    if isinstance(item, list | tuple):
        return attrs.Port(int(item[0]))
    if item == "Ellipsis":
        return Ellipsis
    if isinstance(item, str) and (match := _SLICE.fullmatch(item)) is not None:
        return slice(*map(_number, match.groups()))
    return item


def _number(text: str) -> Any:
    known = {"None": None, "True": True, "False": False}
    return known[text] if text in known else int(text)


class _Details(msgspec.Struct, frozen=True):
    """Details of `Compiled` in schema 1, where they were not fields of their own."""

    backend: str
    fallback: str
    fates: tuple[Fate, ...]
    origins: dict[int, tuple[int, ...]]
    values: dict[int, int]
    inside: dict[int, tuple[int, int]]
    unfused: tuple[str, ...]
    costs: dict[int, KernelCost]
    memory: dict[str, int]
    compile_ms: float


class _CompiledBefore(msgspec.Struct, frozen=True, tag="Compiled"):
    """`Compiled` in older recordings, where ids used as keys are text."""

    owner: str
    about: _Details


_decode_compiled = msgspec.msgpack.Decoder(Compiled).decode
_decode_compiled_before = msgspec.msgpack.Decoder(_CompiledBefore, strict=False).decode


def decode_compiled(data: bytes) -> Compiled:
    """A document of kind ``compiled``. Raises `msgspec.MsgspecError`."""
    try:
        return _decode_compiled(data)
    except msgspec.ValidationError as error:
        try:
            before = _decode_compiled_before(data)
        except msgspec.ValidationError:
            raise error from None
    about = before.about
    return Compiled(
        before.owner, about.backend, about.fallback, about.fates, about.origins, about.values,
        about.inside, about.unfused, about.costs,
        msgspec.convert(about.memory, MemoryReport) if about.memory else None,
        round(about.compile_ms * 1e6),
    )  # fmt: skip


def decode_captured(data: bytes) -> GraphCaptured:
    """A document of kind ``graph``. Raises `msgspec.MsgspecError`, `KeyError` or `TypeError`."""
    plain = msgspec.msgpack.decode(data)
    return GraphCaptured(graph_of(plain["graph"]), plain["owner"], plain["stage"])
