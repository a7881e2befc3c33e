"""Attributes of nodes: their values, their one encoding, and their text.

In memory an attribute is the value that the op takes: None, a bool, number, text, tuple, slice,
``...``, dtype, NumPy scalar or array, graph; or one of the structs below, for values without a
Python type. When encoded, a value without a MessagePack type is a struct with the tag ``attr``; in
the text of a graph it is that tag with its fields in brackets, ``slice(0, 8, None)``. Both are
exact: numbers keep every bit, including ``nan``, ``inf`` and ``-0.0``.

Invariant: reading builds the values listed here and nothing else; no text is ever evaluated.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from nodescope.console_output import printable
from nodescope.errors import GraphError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import Graph, Node

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DTYPES = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
    "u16": "uint16", "u32": "uint32", "u64": "uint64", "f16": "float16", "f32": "float32",
    "f64": "float64", "bf16": "bfloat16", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
SHORT = {long: short for short, long in DTYPES.items()}
_NAN = struct.pack("<d", math.nan)
_LONGEST_TEXT = 1000
_MOST_BYTES = 1 << 16


class Attribute(msgspec.Struct, frozen=True, tag_field="attr", tag=str.lower):
    """An attribute value without a MessagePack type."""

    def value(self) -> Any:
        """The value that the op takes. Raises `ValueError` or `TypeError` if it does not exist."""
        return self


class Complex(Attribute, frozen=True):
    """A complex number."""

    real: float
    imag: float

    def value(self) -> complex:
        """The number."""
        return complex(self.real, self.imag)


class BigInt(Attribute, frozen=True):
    """An integer of more than 64 bits, in decimal digits."""

    digits: str

    def value(self) -> int:
        """The number."""
        return int(self.digits)


class Dtype(Attribute, frozen=True):
    """A dtype by NumPy's name; by the given name if NumPy does not have it."""

    name: str

    def value(self) -> Any:
        """NumPy's dtype, if NumPy has it."""
        try:
            return as_dtype(self.name)
        except TypeError:
            return self


class Slice(Attribute, frozen=True):
    """``start:stop:step`` of an index."""

    start: Any
    stop: Any
    step: Any

    def value(self) -> slice:
        """Python's slice."""
        return slice(unpacked(self.start), unpacked(self.stop), unpacked(self.step))


class Ellipsis_(Attribute, frozen=True, tag="ellipsis"):
    """``...`` in an index."""

    def value(self) -> Any:
        """Python's ellipsis."""
        return Ellipsis


class Port(Attribute, frozen=True):
    """The index array at this input port, within an index; ports count from the indexed array."""

    port: int

    def __repr__(self) -> str:
        return f"index_{self.port}"


class Device(Attribute, frozen=True):
    """A device by the framework's name, ``cuda:0``."""

    name: str

    def __str__(self) -> str:
        return self.name


class Layout(Attribute, frozen=True):
    """A memory layout by the framework's name, ``channels_last``."""

    name: str

    def __str__(self) -> str:
        return self.name


class GraphRef(Attribute, frozen=True):
    """A graph stored elsewhere: the body of a kernel, loop or branch."""

    id: int

    def __str__(self) -> str:
        return f"graph {self.id}"


class Scalar(Attribute, frozen=True, tag="scalar"):
    """A NumPy scalar: its dtype's name and its bytes, little-endian."""

    dtype: str
    data: bytes

    def value(self) -> Any:
        """NumPy's scalar."""
        return array_of(self.dtype, (), self.data)[()]


class ArrayAttr(Attribute, frozen=True, tag="array"):
    """A small NumPy array: dtype, shape and bytes, little-endian and in C order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def value(self) -> Any:
        """NumPy's array."""
        return array_of(self.dtype, self.shape, self.data)


class Opaque(Attribute, frozen=True):
    """A value of which only the text is known. A node with one cannot be run again."""

    text: str

    def __str__(self) -> str:
        return self.text


_STRUCTS: dict[str, type[Attribute]] = {}


def named(cls: type[Attribute]) -> type[Attribute]:
    """Allow a struct of another layer in attributes, under its tag.

    Raises:
        GraphError: The tag is already in use.
    """
    tag = tag_of(cls)
    if not IDENTIFIER.fullmatch(tag) or tag in _FIXED or _STRUCTS.get(tag, cls) is not cls:
        raise GraphError(f"literal {tag!r} is taken or is not a word")
    _STRUCTS[tag] = cls
    return cls


def tag_of(struct: Attribute | type[Attribute]) -> str:
    """The tag of a struct when encoded, and in text."""
    return str(struct.__struct_config__.tag)


_FIXED = {"None", "True", "False", "nan", "inf", "bytes", "graph"}
for _struct in (
    Complex, BigInt, Dtype, Slice, Ellipsis_, Port, Device, Layout, GraphRef, Scalar, ArrayAttr,
    Opaque,
):  # fmt: skip
    named(_struct)


def packed(value: object) -> Any:
    """The struct for a value without a MessagePack type; `Opaque` for unknown values."""
    if isinstance(value, complex) and type(value) is complex:
        return Complex(value.real, value.imag)
    if isinstance(value, slice):
        return Slice(value.start, value.stop, value.step)
    if value is Ellipsis:
        return Ellipsis_()
    if isinstance(value, np.dtype):
        return Dtype(value.name)
    if isinstance(value, np.generic) and value.dtype.name in SHORT:
        return Scalar(value.dtype.name, _little(value))
    if isinstance(value, np.ndarray) and value.dtype.name in SHORT and value.nbytes <= _MOST_BYTES:
        return ArrayAttr(value.dtype.name, value.shape, _little(value))
    return Opaque(_text_of(value))


def _little(value: Any) -> bytes:
    return np.asarray(value, value.dtype.newbyteorder("<")).tobytes()


def _text_of(value: object) -> str:
    try:
        if isinstance(value, np.ndarray):
            return f"array {value.dtype} {list(value.shape)}"
        return printable(repr(value)[:_LONGEST_TEXT])
    except Exception:  # a user's broken repr must not lose the node
        return f"<{type(value).__name__}>"


_encoder = msgspec.msgpack.Encoder(enc_hook=packed)


def encode(payload: object) -> bytes:
    """MessagePack of any data with attributes; text that is not valid Unicode gets escapes."""
    try:
        return _encoder.encode(payload)
    except (OverflowError, UnicodeEncodeError):
        return _encoder.encode(
            _within(msgspec.to_builtins(payload, enc_hook=packed, builtin_types=(bytes,)))
        )


def _within(payload: Any) -> Any:
    if isinstance(payload, dict):
        return {_within(key): _within(value) for key, value in payload.items()}
    if isinstance(payload, list | tuple):
        return [_within(value) for value in payload]
    if isinstance(payload, int) and not -(1 << 63) <= payload < 1 << 64:
        return BigInt(str(payload))
    if isinstance(payload, str):
        return printable(payload)
    return payload


_READ = frozenset({int, float, str, bool, type(None)})
_PLAIN = _READ | {bytes}


def unpacked(value: Any) -> Any:
    """The encoded value, from the data that MessagePack reads.

    Raises:
        ValueError, TypeError: The data is damaged.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list or kind is tuple:
        return tuple(map(unpacked, value))
    if kind is not dict:
        return value
    tag = value.get("attr")
    if tag == "graph":
        return unpack_graph(msgspec.convert(value, Graph))
    struct_type = _STRUCTS.get(tag) if isinstance(tag, str) else None
    if struct_type is not None:
        return msgspec.convert(value, struct_type).value()
    if tag is not None:
        return Opaque(f"{tag} of another version")
    return {key: unpacked(item) for key, item in value.items()}


def unpack(attrs: dict[str, Any]) -> dict[str, Any]:
    """Decode the attributes of a node in place. Raises as `unpacked`."""
    for name, value in attrs.items():
        if type(value) not in _PLAIN:
            attrs[name] = unpacked(value)
    return attrs


def unpack_graph(graph: Graph) -> Graph:
    """Decode the attributes of a graph's nodes in place. Raises as `unpacked`."""
    for node in graph.nodes:
        unpack(node.attrs)
    return graph


_node_decoder = msgspec.msgpack.Decoder(Node)
_attrs_decoder = msgspec.msgpack.Decoder(dict[str, Any])


def decode_node(data: bytes) -> Node:
    """A node from `encode`. Raises as `unpacked`, or `msgspec.MsgspecError`."""
    node = _node_decoder.decode(data)
    if node.attrs:
        unpack(node.attrs)
    return node


def decode_attrs(data: bytes) -> dict[str, Any]:
    """Attributes from `encode`. Raises as `unpacked`, or `msgspec.MsgspecError`."""
    return unpack(_attrs_decoder.decode(data))


def opaque_in(value: Any) -> str:
    """The text of the first value inside that cannot be run again, or ``""``."""
    if isinstance(value, Opaque | GraphRef):
        return str(value)
    if isinstance(value, tuple | list):
        return next(filter(None, map(opaque_in, value)), "")
    return ""


def plain(name: str, value: Any) -> Any:
    """A value in readable form: numbers, text, lists. An index as written in brackets."""
    if name == "index" and isinstance(value, tuple):
        return ", ".join(map(_index_text, value))
    if isinstance(value, tuple | list):
        return [plain("", item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    return value if _is_plain(value) else str(value)


def _is_plain(value: Any) -> bool:
    """Whether any reader of MessagePack or JSON understands it."""
    return type(value) in _READ and not (type(value) is int and not -(1 << 63) <= value < 1 << 64)


def plain_attrs(attrs: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a node in readable form; the same object if they already are."""
    if all(map(_is_plain, attrs.values())):
        return attrs
    return {name: plain(name, value) for name, value in attrs.items()}


def _index_text(item: Any) -> str:
    if isinstance(item, slice):
        ends = [str(end) if end is not None else "" for end in (item.start, item.stop)]
        return ":".join([*ends, str(item.step)] if item.step is not None else ends)
    return "..." if item is Ellipsis else repr(item) if isinstance(item, Port) else str(item)


# Text


def write(value: Any, graph: Callable[[Graph], str]) -> str:
    """A value as text.

    Args:
        graph: Writes a graph, which may be an attribute: the body of a loop or branch.

    Raises:
        GraphError: A value of this kind cannot be written as text.
    """
    kind = type(value)
    if value is None or kind is bool:
        return repr(value)
    if kind is int:
        return str(value)
    if kind is float:
        return _float(value)
    if kind is str:
        return json.dumps(value)
    if value is Ellipsis:
        return "..."
    if kind is tuple:
        inner = ", ".join(write(item, graph) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if kind is list:
        return f"[{', '.join(write(item, graph) for item in value)}]"
    if kind is dict:
        pairs = (f"{write(key, graph)}: {write(item, graph)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if kind is bytes:
        return f'bytes("{value.hex()}")'
    if kind is Graph:
        return graph(value)
    attribute = value if isinstance(value, Attribute) else packed(value)
    if isinstance(attribute, Dtype) and attribute.name in SHORT:
        return f"dtype({SHORT[attribute.name]})"
    if isinstance(attribute, Scalar):
        return f'scalar({SHORT[attribute.dtype]}, "{attribute.data.hex()}")'
    if isinstance(attribute, ArrayAttr):
        return f'array({dtype_text(attribute.dtype, attribute.shape)}, "{attribute.data.hex()}")'
    if isinstance(attribute, Opaque) and attribute is not value:
        raise GraphError(
            f"an attribute of {kind.__module__}.{kind.__qualname__} has no text",
            hint="use numbers, strings, tuples, slices, graphs, or nodescope.ir.attrs.named",
        )
    parts = ", ".join(write(field, graph) for field in msgspec.structs.astuple(attribute))
    return f"{tag_of(attribute)}({parts})"


def _float(value: float) -> str:
    if value != value:
        bits = struct.pack("<d", value)
        return "nan" if bits == _NAN else f'nan("{bits.hex()}")'
    return repr(value)


def dtype_text(dtype: str, shape: tuple[int | None, ...] | None = None) -> str:
    """``f32[32,10]``, ``f32[?,10]``; a dtype without a short name is quoted."""
    name = SHORT.get(dtype) or json.dumps(dtype)
    if shape is None:
        return name
    return f"{name}[{','.join('?' if size is None else str(size) for size in shape)}]"


def built(word: str, fields: list[Any]) -> Any:
    """The value of ``word(field, ...)``, as `write` wrote it.

    Raises:
        GraphError: The word is unknown, or does not take these fields.
    """
    struct_type = _STRUCTS.get(word)
    if struct_type is not None:
        try:
            attribute = msgspec.convert(
                dict(zip(struct_type.__struct_fields__, fields, strict=True)) | {"attr": word},
                struct_type,
            )
            return attribute.value()
        except (TypeError, ValueError):
            raise GraphError(f"{word} does not take {len(fields)} fields like these") from None
    if word == "nan" and len(fields) == 1:
        raw = hexed(fields[0])
        if len(raw) == 8 and math.isnan(number := struct.unpack("<d", raw)[0]):
            return number
    if word == "bytes" and len(fields) == 1:
        return hexed(fields[0])
    raise GraphError(f"no value {word}(...) with {len(fields)} parts")


def hexed(text: Any) -> bytes:
    """The bytes of a hexadecimal text. Raises `GraphError`."""
    try:
        return bytes.fromhex(text)
    except (TypeError, ValueError):
        raise GraphError("expected bytes as hexadecimal digits") from None


def array_of(dtype: str, shape: tuple[int, ...], raw: bytes) -> np.ndarray[Any, Any]:
    """An array from its bytes. Raises `GraphError` if they are too few or too many."""
    kind = as_dtype(dtype)
    if len(raw) != math.prod(shape) * kind.itemsize:
        raise GraphError(f"{len(raw)} bytes do not make {dtype} {list(shape)}")
    return np.frombuffer(raw, kind).reshape(shape).copy()
