"""Saved graphs: one file with a graph's text, its arrays, and what belongs to it.

A zip archive without compression: ``meta.json`` (version, variables, collections), ``graph.txt``
(the text of `nodescope.ir.text`) and ``arrays/<value>.npy``. See docs/graphs.md.

Invariant: reading builds data and runs nothing; a file is written whole or not at all.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from nodescope.engine.abstract import Abstract
from nodescope.engine.control.scan_op import Reverse
from nodescope.engine.graph import Graph
from nodescope.engine.graph_names import Variable
from nodescope.engine.operation import Operation, tensor_of
from nodescope.engine.source import where
from nodescope.engine.tensor import LEAF, SMOOTH, Tensor, make
from nodescope.errors import GraphError, NodescopeError
from nodescope.ir import graph as ir
from nodescope.ir.literals import fields
from nodescope.ir.text import parse_graph, print_graph
from nodescope.ir.verify import verify
from nodescope.ops.checking import inferred
from nodescope.ops.lowprecision import bfloat16
from nodescope.ops.op import Array

VERSION = 1
_LARGEST_TEXT = 256 << 20
_MOST_MEMBERS = 1_000_000


@dataclass
class Parts:
    """A graph taken apart: what a file holds, and what goes to another process.

    Attributes:
        graph: The nodes.
        arrays: By value id, of constants and of variables.
        variables: Value ids of the variables, with ``[initializer, trainable, chained]``.
        collections: Items as ``tensor:``, ``operation:`` or ``text:`` and a name, by collection.
    """

    graph: ir.Graph
    arrays: dict[int, Array]
    variables: dict[int, list[Any]] = field(default_factory=dict)
    collections: dict[str, list[Any]] = field(default_factory=dict)


def text_of(graph: Graph) -> str:
    """`Graph.to_text`."""
    return print_graph(graph.finish(()), ids=False)


# Taking apart and putting together


def taken_apart(graph: Graph, session: Any = None) -> Parts:
    """The graph as data. Raises `GraphError` for what has none."""
    known: Mapping[int, Array] = graph.saved
    if session is not None:
        if session.graph is not graph:
            raise GraphError("save: the session runs another graph", source=where())
        known = session.variable_values()
    if graph.hosts:
        raise GraphError(
            "save: the graph reads an optimizer's settings from this program at each run",
            source=where(), hint="save the graph without its training part",
        )  # fmt: skip
    arrays = dict(graph.arrays)
    variables = {}
    for value, each in graph.variables.items():
        variables[value] = [each.initializer, each.trainable, each.chained]
        if value in known:
            arrays[value] = known[value]
        elif each.outside is not None:
            arrays[value] = each.outside.data
    return Parts(
        msgspec.structs.replace(graph.finish(()), id=0), arrays, variables,
        {name: [_item(graph, name, each) for each in graph.get_collection(name)]
         for name in graph.get_all_collection_keys()},
    )  # fmt: skip


def _item(graph: Graph, name: str, item: Any) -> list[Any]:
    if isinstance(item, Operation) and item.graph is graph:
        return ["operation", item.node.id]
    if isinstance(item, Tensor):
        with contextlib.suppress(NodescopeError):
            return ["tensor", graph.value_here(item)]
    if item is None or isinstance(item, bool | int | float | str):
        return ["plain", item]
    raise GraphError(
        f"save: the collection {name!r} holds a {type(item).__name__}, which a file cannot",
        source=where(), hint="take it out with clear_collection first",
    )  # fmt: skip


def put_together(parts: Parts) -> Graph:
    """A graph like the one that was taken apart. Its node ids go from 1 in order.

    Raises:
        GraphError: The parts do not fit together.
    """
    data = parts.graph
    if any(each.spec.dtype == "bfloat16" for each in data.values):
        bfloat16()  # from here on NumPy knows the name
    for each in with_bodies(data):
        verify(each, inferred)
    if [node.id for node in data.nodes] != list(range(1, len(data.nodes) + 1)) or [
        each.id for each in data.values
    ] != list(range(1, len(data.values) + 1)):
        raise GraphError("the ids of nodes and values must go from 1 up")
    found = Graph()
    found.nodes.extend(data.nodes)
    found.values.extend(data.values)
    found.inputs.extend(data.inputs)
    for node in data.nodes:
        found.adopt(node)
    specs = {each.id: each.spec for each in data.values}
    for value, array in parts.arrays.items():
        spec = specs.get(value)
        if spec is None or (array.shape, array.dtype.name) != (spec.shape, spec.dtype):
            raise GraphError(f"the array of %{value} is not what the graph says")
    for value in data.constants:
        if value not in parts.arrays or found.producer(value).op != "constant":
            raise GraphError(f"the constant %{value} has no array")
        found.arrays[value] = parts.arrays[value]
    for node in data.nodes:
        if node.op == "constant" and node.outputs[0] not in found.arrays:
            raise GraphError(f"the constant {node.name!r} has no array")
    for value, (initializer, trainable, chained) in parts.variables.items():
        _variable(found, value, specs, initializer, bool(trainable), bool(chained))
        if value in parts.arrays:
            found.saved[value] = parts.arrays[value]
    _follow_states(found)
    _fill_collections(found, parts.collections)
    return found


def with_bodies(item: Any) -> Iterator[ir.Graph]:
    """The graphs in a value: itself, and the bodies in the attributes of its nodes."""
    if isinstance(item, ir.Graph):
        yield item
        for node in item.nodes:
            yield from with_bodies(node.attrs)
    elif isinstance(item, dict):
        for each in item.values():
            yield from with_bodies(each)
    elif isinstance(item, list | tuple):
        for each in item:
            yield from with_bodies(each)
    elif isinstance(item, Reverse):
        yield from with_bodies(fields(item))


def _variable(
    graph: Graph, value: Any, specs: Mapping[int, Any], initializer: Any, trainable: bool,
    chained: bool,
) -> None:  # fmt: skip
    if value not in specs or graph.producer(value).op != "parameter":
        raise GraphError(f"the variable %{value} is unknown")
    if not isinstance(initializer, int) or not 0 <= initializer <= len(graph.nodes):
        raise GraphError(f"the initializer of %{value} is unknown")
    name = graph.producer(value).name
    graph.variables[value] = Variable(
        value, name, specs[value], trainable, initializer, chained=chained
    )
    data = Abstract(specs[value], graph, value)
    edge = LEAF if data.dtype.kind in SMOOTH else None
    graph.tensors[value] = make(data, edge, kind="parameter", name=f"{name}:0")


def _follow_states(graph: Graph) -> None:
    for node in graph.nodes:
        if node.family == "update" or node.op == "read":
            base = graph.state_of.get(node.inputs[0], node.inputs[0])
            if base not in graph.variables:
                raise GraphError(f"node {node.name}: it updates what is no variable")
            graph.state_of[node.outputs[0]] = base
            if graph.variables[base].chained:
                graph.follow[node.inputs[0]] = node.id


def _fill_collections(graph: Graph, collections: Mapping[str, Any]) -> None:
    for name, items in collections.items():
        for kind, item in items:
            if kind == "operation":
                graph.add_to_collection(name, graph.get_operation_by_id(item))
            elif kind == "tensor":
                if not isinstance(item, int) or not 1 <= item <= len(graph.values):
                    raise GraphError(f"the collection {name!r} holds an unknown tensor")
                graph.add_to_collection(name, tensor_of(graph, item))
            else:
                graph.add_to_collection(name, item)


# Files


def save(graph: Graph, path: Any, session: Any = None) -> None:
    """`Graph.save`."""
    write_parts(taken_apart(graph, session), path)


def load(path: Any) -> Graph:
    """`Graph.load`."""
    return put_together(read_parts(path))


def write_parts(parts: Parts, path: Any) -> None:
    """Write a file, whole or not at all. Raises `GraphError`, or OSError of the file system."""
    target = Path(path)
    dtypes = {str(value): array.dtype.name for value, array in parts.arrays.items()}
    meta = {
        "format": "nodescope graph",
        "version": VERSION,
        "arrays": dtypes,
        "variables": {str(value): each for value, each in parts.variables.items()},
        "collections": parts.collections,
    }
    text = print_graph(parts.graph)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with zipfile.ZipFile(part, "x", zipfile.ZIP_STORED, allowZip64=True) as archive:
            archive.writestr("meta.json", json.dumps(meta, indent=1))
            archive.writestr("graph.txt", text)
            for value, array in parts.arrays.items():
                archive.writestr(f"arrays/{value}.npy", _npy(array))
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _npy(array: Array) -> bytes:
    plain = array.view(np.uint16) if array.dtype.name == "bfloat16" else array
    held = io.BytesIO()
    np.lib.format.write_array(held, np.asarray(plain), allow_pickle=False)
    return held.getvalue()


def read_parts(path: Any) -> Parts:
    """Read a file.

    Raises:
        GraphError: It is no saved graph, is damaged, or is of a newer version.
    """
    target = Path(path)
    try:
        size = target.stat().st_size
        with zipfile.ZipFile(target) as archive:
            members = _members(target, archive, size)
            meta = _meta(target, _read(archive, members, "meta.json"))
            graph = parse_graph(_read(archive, members, "graph.txt").decode())
            arrays = {
                int(value): _array(_read(archive, members, f"arrays/{value}.npy"), str(dtype))
                for value, dtype in meta["arrays"].items()
            }
            variables = {int(value): list(each) for value, each in meta["variables"].items()}
            return Parts(graph, arrays, variables, dict(meta["collections"]))
    except FileNotFoundError:
        raise GraphError(f"there is no file {target}", source=where()) from None
    except NodescopeError as error:
        raise GraphError(f"{target} cannot be read: {error.message}", source=where(),
                         hint=error.hint) from error  # fmt: skip
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError, EOFError,
            NotImplementedError, OSError) as error:  # fmt: skip
        raise GraphError(
            f"{target} is no saved graph, or is damaged ({error})", source=where()
        ) from error


def _members(target: Path, archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The archive's members; stored as they are, so that no small file becomes a large one."""
    infos = archive.infolist()
    found = {each.filename: each for each in infos}
    if len(infos) > _MOST_MEMBERS or len(found) != len(infos):
        raise GraphError("it has too many members, or two of one name")
    if any(each.compress_type != zipfile.ZIP_STORED for each in infos):
        raise GraphError("its members are compressed, as those of no saved graph are")
    if sum(each.file_size for each in infos) > size:
        raise GraphError("its members are larger than the file")
    return found


def _read(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], name: str) -> bytes:
    if name not in members:
        raise GraphError(f"{name} is missing")
    if not name.startswith("arrays/") and members[name].file_size > _LARGEST_TEXT:
        raise GraphError(f"{name} is larger than {_LARGEST_TEXT >> 20} MiB")
    return archive.read(members[name])


def _meta(target: Path, raw: bytes) -> dict[str, Any]:
    meta = json.loads(raw)
    if not isinstance(meta, dict) or meta.get("format") != "nodescope graph":
        raise GraphError("it is another kind of file")
    version = meta.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise GraphError(
            f"it has version {version}; this nodescope reads up to {VERSION}",
            hint="read it with a newer nodescope",
        )
    return meta


def _array(raw: bytes, dtype: str) -> Array:
    held = io.BytesIO(raw)
    found: Array = np.lib.format.read_array(held, allow_pickle=False)
    if held.tell() != len(raw):
        raise GraphError("an array has more bytes than it needs")
    if dtype == "bfloat16":
        found = found.view(bfloat16())
    if found.dtype.name != dtype:
        raise GraphError(f"an array is of {found.dtype}, not {dtype}")
    return found


__all__ = ["Parts", "load", "put_together", "read_parts", "save", "taken_apart", "text_of",
           "write_parts"]  # fmt: skip
