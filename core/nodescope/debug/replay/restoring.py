"""Restoring: a recorded node as the call that it was.

A recording holds attributes as plain data. What text and lists stood for is known by the op and the
attribute's name; bodies of kernels and loops stand in the captured graphs.

Invariant: reads a fixed notation and evaluates nothing; what it does not know stays as it is, and
the op's own impl refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from nodescope import ops
from nodescope.ir.graph import Graph, Node
from nodescope.ops.index import Port
from nodescope.ops.op import Op

_COMPLEX = re.compile(r"\(?[-+0-9.einfa]*[0-9fn]j\)?")
_LONG = re.compile(r"-?\d{19,}")
_SLICE = re.compile(r"slice\(([^,]*), ([^,]*), ([^,]*)\)")
_DTYPE = re.compile(r"dtype\('([a-z0-9]+)'\)")
_BODIES = ("body", "then", "otherwise", "condition")


def restored(node: Node, attrs: Mapping[str, Any]) -> Node:
    """The node with its attributes as its op takes them."""
    op = ops.get(node.op)
    found = {name: _restored(op, name, value) for name, value in attrs.items()}
    return msgspec.structs.replace(node, attrs=found)


def bodies_missing(node: Node) -> str:
    """Which graph a node needs that its attributes do not hold, or ``""``."""
    op = ops.get(node.op)
    if op.family not in ("kernel", "control"):
        return ""
    wanted = {"fused": ("body",), "scan": ("body",), "cond": ("then", "otherwise"),
              "while_loop": ("condition", "body")}.get(node.op, ())  # fmt: skip
    lacking = [name for name in wanted if not isinstance(node.attrs.get(name), Graph)]
    return lacking[0] if lacking else ""


def _restored(op: Op, name: str, value: Any) -> Any:
    if name == "index":
        return index_of(value)
    if name in _BODIES and isinstance(value, dict):
        return _body(value)
    if name == "derivative" and op.name == "scan":
        return None  # only its vjp asks for it
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if isinstance(value, str):
        if _LONG.fullmatch(value):
            return int(value)
        if _COMPLEX.fullmatch(value):
            return complex(value)
        if (found := _SLICE.fullmatch(value)) is not None:
            return slice(*map(_number, found.groups()))
        if (found := _DTYPE.fullmatch(value)) is not None:
            return found[1]
    return value


def _body(value: dict[str, Any]) -> Graph:
    graph = msgspec.convert(value, Graph)
    nodes = tuple(restored(each, each.attrs) for each in graph.nodes)
    return msgspec.structs.replace(graph, nodes=nodes)


def index_of(value: Any) -> tuple[Any, ...]:
    """An index from its text, ``0, ::2, index_0, ...``, or from the list that msgpack made of it.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, str):
        return tuple(_item(each.strip()) for each in value.split(",")) if value else ()
    return tuple(_element(each) for each in value)


def _item(text: str) -> Any:
    if text == "...":
        return Ellipsis
    if text.startswith("index_"):
        return Port(int(text[6:]))
    if ":" in text:
        ends = [_number(each) if each else None for each in text.split(":")]
        return slice(*ends)
    return _number(text)


def _element(each: Any) -> Any:
    if isinstance(each, list | tuple):
        return Port(int(each[0]))
    if each == "Ellipsis":
        return Ellipsis
    if isinstance(each, str) and (found := _SLICE.fullmatch(each)) is not None:
        return slice(*map(_number, found.groups()))
    return each


def _number(text: str) -> Any:
    return (
        {"None": None, "True": True, "False": False}.get(text) if text[:1] in "NTF" else int(text)
    )
