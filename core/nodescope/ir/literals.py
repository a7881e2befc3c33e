"""Literals: attributes of nodes as text, and back, exactly.

Numbers keep every bit, ``nan``, ``inf`` and ``-0.0`` included. Classes of other
layers that stand in attributes give their fields under a name (`named`).

Invariant: reading builds the values listed here and nothing else; no text is ever evaluated.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.errors import GraphError
from nodescope.ir.graph import Graph

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DTYPES = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
    "u16": "uint16", "u32": "uint32", "u64": "uint64", "f16": "float16", "f32": "float32",
    "f64": "float64", "bf16": "bfloat16", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
SHORT = {long: short for short, long in DTYPES.items()}
_NAN = struct.pack("<d", math.nan)

_named: dict[str, type] = {}
_names: dict[type, str] = {}


def named(name: str, cls: type) -> None:
    """Let a named tuple or frozen dataclass stand in attributes, as ``name(field, ...)``.

    Raises:
        GraphError: The name stands for something else.
    """
    if not IDENTIFIER.fullmatch(name) or _named.get(name, cls) is not cls or name in _FIXED:
        raise GraphError(f"literal {name!r} is taken or is not a word")
    _named[name] = cls
    _names[cls] = name


_FIXED = {"None", "True", "False", "nan", "inf", "complex", "slice", "bytes", "scalar", "array",
          "dtype", "graph"}  # fmt: skip


def fields(value: Any) -> tuple[Any, ...]:
    """The fields of a named tuple or dataclass, in order."""
    if isinstance(value, tuple):
        return tuple(value)
    return tuple(getattr(value, each.name) for each in dataclasses.fields(value))


def write(value: Any, graph: Callable[[Graph], str]) -> str:
    """A value as text.

    Args:
        graph: Writes a graph, which may stand in attributes as the body of a loop or branch.

    Raises:
        GraphError: A value of this kind has no text.
    """
    kind = type(value)
    if value is None or kind is bool:
        return repr(value)
    if kind is int:
        return str(value)
    if kind is float:
        return _float(value)
    if kind is complex:
        return f"complex({_float(value.real)}, {_float(value.imag)})"
    if kind is str:
        return json.dumps(value)
    if value is Ellipsis:
        return "..."
    if kind in _names:
        return f"{_names[kind]}({', '.join(write(each, graph) for each in fields(value))})"
    if kind is tuple:
        inner = ", ".join(write(each, graph) for each in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if kind is list:
        return f"[{', '.join(write(each, graph) for each in value)}]"
    if kind is dict:
        pairs = (f"{write(key, graph)}: {write(each, graph)}" for key, each in value.items())
        return "{" + ", ".join(pairs) + "}"
    if kind is slice:
        ends = (value.start, value.stop, value.step)
        return f"slice({', '.join(write(each, graph) for each in ends)})"
    if kind is bytes:
        return f'bytes("{value.hex()}")'
    if kind is Graph:
        return graph(value)
    if isinstance(value, np.dtype) and value.name in SHORT:
        return f"dtype({SHORT[value.name]})"
    if isinstance(value, np.generic) and value.dtype.name in SHORT:
        return f'scalar({SHORT[value.dtype.name]}, "{value.tobytes().hex()}")'
    if isinstance(value, np.ndarray) and value.dtype.name in SHORT:
        return f'array({dtype_text(value.dtype.name, value.shape)}, "{value.tobytes().hex()}")'
    raise GraphError(
        f"an attribute of {kind.__module__}.{kind.__qualname__} has no text",
        hint="use numbers, strings, tuples, slices, graphs, or nodescope.ir.literals.named",
    )


def _float(value: float) -> str:
    if value != value:
        bits = struct.pack("<d", value)
        return "nan" if bits == _NAN else f'nan("{bits.hex()}")'
    return repr(value)


def dtype_text(dtype: str, shape: tuple[int, ...] | None = None) -> str:
    """``f32[32,10]``; a dtype without short name stands in quotes."""
    name = SHORT.get(dtype) or json.dumps(dtype)
    return name if shape is None else f"{name}[{','.join(map(str, shape))}]"


class Call:
    """How ``word(...)`` is read: from the values inside the brackets."""

    @staticmethod
    def build(word: str, args: list[Any]) -> Any:
        """The value.

        Raises:
            GraphError: There is no such word, or it does not take these values.
        """
        if word in _named:
            cls = _named[word]
            try:
                return cls(*args)
            except TypeError:
                raise GraphError(f"{word} does not take {len(args)} fields") from None
        if word == "complex" and len(args) == 2 and all(type(each) is float for each in args):
            return complex(*args)
        if word == "slice" and len(args) == 3:
            return slice(*args)
        if word == "nan" and len(args) == 1:
            raw = hexed(args[0])
            if len(raw) == 8 and math.isnan(found := struct.unpack("<d", raw)[0]):
                return found
        if word == "bytes" and len(args) == 1:
            return hexed(args[0])
        raise GraphError(f"no value {word}(...) with {len(args)} parts")


def hexed(text: Any) -> bytes:
    """The bytes of a hexadecimal text. Raises `GraphError`."""
    try:
        return bytes.fromhex(text)
    except (TypeError, ValueError):
        raise GraphError("expected bytes as hexadecimal digits") from None


def array_of(dtype: str, shape: tuple[int, ...], raw: bytes) -> np.ndarray[Any, Any]:
    """An array from its bytes. Raises `GraphError` if they are too few or too many."""
    if dtype == "bfloat16":
        import ml_dtypes  # noqa: F401 (teaches NumPy the name)
    kind = np.dtype(dtype)
    if len(raw) != math.prod(shape) * kind.itemsize:
        raise GraphError(f"{len(raw)} bytes do not make {dtype} {list(shape)}")
    return np.frombuffer(raw, kind).reshape(shape).copy()
