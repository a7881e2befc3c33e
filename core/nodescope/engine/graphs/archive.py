"""Archives: the common file format of saved graphs and programs.

A zip archive without compression: ``meta.json`` (the kind, the version of the format, shapes and
dtypes of the arrays, and data specific to the kind), ``graph.txt`` (`nodescope.ir.text`) and
``arrays/<value>.npy``. See docs/graphs.md.

Invariant: reading runs no code and takes at most a few times the file's size in memory; a file is
written whole or not at all.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import secrets
import stat
import struct
import tokenize
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

import msgspec
import numpy as np

from nodescope.console_output import shape_words
from nodescope.engine.control.scan_op import Reverse
from nodescope.engine.source import where
from nodescope.errors import GraphError, NodescopeError
from nodescope.ir import graph as ir
from nodescope.ir.dtypes import BFLOAT16, as_dtype, bfloat16
from nodescope.ir.text import parse_graph, print_graph
from nodescope.ir.verify import verify
from nodescope.ops.checking import inferred
from nodescope.ops.op import Array

Kind = Literal["graph", "program"]
T = TypeVar("T")

FORMAT = 1
READERS: dict[str, str] = {"graph": "nodescope.Graph.load", "program": "nodescope.Program.load"}
_META, _TEXT = "meta.json", "graph.txt"
_LARGEST_TEXT = 256 << 20
_MOST_MEMBERS = 1_000_000
_ENCRYPTED = 1
# What zipfile, json, NumPy and nodescope itself raise for malformed bytes.
_FAULTS = (
    zipfile.BadZipFile, struct.error, EOFError, OSError, ValueError, TypeError, AttributeError,
    LookupError, ArithmeticError, RuntimeError, MemoryError, SyntaxError, tokenize.TokenError,
)  # fmt: skip


class _Spec(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An array as meta.json declares it."""

    dtype: str
    shape: tuple[int, ...]


class _Meta(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """meta.json."""

    kind: Kind
    format: int
    arrays: dict[int, _Spec]
    about: dict[str, Any]


@dataclass(frozen=True)
class Archive:
    """The parsed content of a file.

    Attributes:
        kind: The kind of the file.
        graph: The nodes; not verified, see `verified`.
        arrays: Arrays by value id. Arrays of the graph's values have the shapes and dtypes stated
            there; ids below 0 are arrays beside the graph.
        about: Other data specific to the kind, as JSON types.
    """

    kind: Kind
    graph: ir.Graph
    arrays: dict[int, Array]
    about: dict[str, Any]


# Writing


def write(
    path: Any, kind: Kind, graph: ir.Graph, arrays: Mapping[int, Array], about: dict[str, Any]
) -> None:
    """Write a file, whole or not at all.

    Raises:
        GraphError: An attribute of a node, or a value in ``about``, cannot be written as text.
        OSError: The file system reported an error.
    """
    target = Path(path)
    specs = {str(value): (array.dtype.name, array.shape) for value, array in arrays.items()}
    meta = {"kind": kind, "format": FORMAT, "arrays": specs, "about": about}
    try:
        described = json.dumps(meta, indent=1)
    except (TypeError, ValueError) as error:
        raise GraphError(f"a file cannot hold it: {error}", source=where()) from None
    text = print_graph(graph)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with zipfile.ZipFile(part, "x", zipfile.ZIP_STORED, allowZip64=True) as archive:
            archive.writestr(_META, described)
            archive.writestr(_TEXT, text)
            for value, array in arrays.items():
                archive.writestr(_member_of(value), _npy(array))
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _member_of(value: int) -> str:
    return f"arrays/{value}.npy"


def _npy(array: Array) -> bytes:
    plain = array.view(np.uint16) if array.dtype.name == BFLOAT16 else array
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(plain), allow_pickle=False)
    return buffer.getvalue()


# Reading


class reading:
    """Turn errors inside ``with reading(path):`` into a `GraphError` that names the file."""

    def __init__(self, path: Any) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        path = self._path
        if isinstance(error, FileNotFoundError):
            raise GraphError(f"there is no file {path}", source=where()) from None
        if isinstance(error, NodescopeError):
            raise GraphError(
                f"{path} cannot be read: {error.message}", source=where(), hint=error.hint
            ) from error
        if isinstance(error, _FAULTS):
            raise GraphError(
                f"{path} is not a saved graph or program, or is damaged ({_said(error)})",
                source=where(),
            ) from error


def read(path: Any, kind: Kind | None = None) -> Archive:
    """Read a file; to be called inside `reading`.

    Args:
        path: The file.
        kind: The expected kind; any if None.

    Raises:
        GraphError: The file is of another kind, damaged, or of a newer version.
    """
    with _opened(path) as file, zipfile.ZipFile(file) as archive:
        members = _members(archive, os.fstat(file.fileno()).st_size)
        with _within(_META):
            meta = _meta(_content(archive, members, _META), kind)
        unknown = set(members) - {_META, _TEXT, *map(_member_of, meta.arrays)}
        if unknown:
            raise GraphError(f"it holds {min(unknown)!r}, which no saved {meta.kind} does")
        with _within(_TEXT):
            graph = parse_graph(_content(archive, members, _TEXT).decode())
        known = {value.id: value.tensor for value in graph.values}
        arrays: dict[int, Array] = {}
        for value, spec in meta.arrays.items():
            with _within(_member_of(value)):
                if value > 0:
                    _fits(value, spec, known)
                arrays[value] = _array(_content(archive, members, _member_of(value)), spec)
    return Archive(meta.kind, graph, arrays, meta.about)


def _opened(path: Any) -> BinaryIO:
    """A file to read. Raises `GraphError` for a pipe or a device, which may never end."""
    # Opening a pipe without a writer would block.
    file = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise GraphError("it is not a regular file", hint="copy it to a regular file first")
    return file


@contextlib.contextmanager
def _within(member: str) -> Iterator[None]:
    """Make errors name the member."""
    try:
        yield
    except NodescopeError as error:
        raise GraphError(f"{member}: {error.message}", hint=error.hint) from error
    except _FAULTS as error:
        raise GraphError(f"{member}: {_said(error)}") from error


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The archive's members, which must be stored uncompressed, so that a small file cannot
    expand.
    """
    infos = archive.infolist()
    if len(infos) > _MOST_MEMBERS:
        raise GraphError(f"it has {len(infos)} members, more than {_MOST_MEMBERS}")
    infos_by_name: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.filename
        if name in infos_by_name:
            raise GraphError(f"it contains {name!r} twice")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & _ENCRYPTED:
            raise GraphError(f"{name!r} is compressed or encrypted, which is not allowed")
        if name in (_META, _TEXT) and info.file_size > _LARGEST_TEXT:
            raise GraphError(f"{name} is larger than {_LARGEST_TEXT >> 20} MiB")
        infos_by_name[name] = info
    if sum(max(info.file_size, info.compress_size) for info in infos) > size:
        raise GraphError("its members are larger than the file")
    return infos_by_name


def _content(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], name: str) -> bytes:
    if name not in members:
        raise GraphError("it is missing")
    return archive.read(members[name])


def _meta(raw: bytes, expected: Kind | None) -> _Meta:
    meta = json.loads(raw, object_pairs_hook=_once)
    if not isinstance(meta, dict) or meta.get("kind") not in READERS:
        raise GraphError("it does not describe a saved graph or program")
    version = meta.get("format")
    if type(version) is not int or version < 1:
        raise GraphError(f"{version!r} is not a format version")
    if version > FORMAT:
        raise GraphError(
            f"it has format {version}; this nodescope reads up to {FORMAT}",
            hint="read it with a newer nodescope",
        )
    if expected is not None and meta["kind"] != expected:
        kind = meta["kind"]
        raise GraphError(
            f"it is a saved {kind}, not a saved {expected}",
            hint=f"load it with {READERS[kind]}, or with nodescope.load_graph, which reads both",
        )
    return converted(meta, _Meta)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise GraphError("an object contains a name twice")
    return members


def converted(data: Any, form: type[T]) -> T:
    """Convert JSON types to another type; keys may be numbers. Raises `GraphError`."""
    try:
        return msgspec.convert(data, form, str_keys=True)
    except msgspec.ValidationError as error:
        raise GraphError(str(error)) from None


def _fits(value: int, spec: _Spec, known: Mapping[int, ir.TensorSpec]) -> None:
    if value not in known:
        raise GraphError(f"the graph has no value %{value}")
    if (spec.shape, spec.dtype) != (known[value].shape, known[value].dtype):
        raise GraphError(
            f"it is {spec.dtype} {shape_words(spec.shape)}, which is not what the graph says: "
            f"{known[value]}"
        )


def _array(raw: bytes, spec: _Spec) -> Array:
    """The array of an .npy member; its header is checked before memory is allocated."""
    buffer = io.BytesIO(raw)
    version = np.lib.format.read_magic(buffer)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(buffer)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(buffer)
    else:
        raise GraphError(f"it has version {version} of the npy format")
    spec_dtype = as_dtype(spec.dtype)
    stored = np.dtype(np.uint16) if spec.dtype == BFLOAT16 else spec_dtype
    if dtype.hasobject or dtype.newbyteorder("=") != stored or stored.kind not in "biufc":
        raise GraphError(f"it holds elements of {dtype}, not {spec.dtype}")
    if tuple(shape) != spec.shape or min(spec.shape, default=0) < 0:
        raise GraphError(f"it has the shape {shape}, not {spec.shape}")
    size = math.prod(spec.shape)
    if len(raw) - buffer.tell() != size * dtype.itemsize:
        raise GraphError(
            f"{len(raw) - buffer.tell()} bytes do not match {dtype} {shape_words(shape)}"
        )
    flat: Array = np.frombuffer(raw, dtype, size, buffer.tell()).astype(stored).view(spec_dtype)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


# Graphs


def verified(graph: ir.Graph) -> ir.Graph:
    """The graph, if it and all bodies in it are well-formed. Raises `GraphError`."""
    if any(value.spec.dtype == BFLOAT16 for value in graph.values):
        bfloat16()  # NumPy knows the name from here on
    for with_body in with_bodies(graph):
        verify(with_body, inferred)
    return graph


def with_bodies(item: Any) -> Iterator[ir.Graph]:
    """The graphs in a value: itself, and the bodies in the attributes of its nodes."""
    if isinstance(item, ir.Graph):
        yield item
        for node in item.nodes:
            yield from with_bodies(node.attrs)
    elif isinstance(item, dict):
        for nested in item.values():
            yield from with_bodies(nested)
    elif isinstance(item, list | tuple):
        for nested in item:
            yield from with_bodies(nested)
    elif isinstance(item, Reverse):
        yield from with_bodies(msgspec.structs.astuple(item))
