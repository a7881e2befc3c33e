"""Conversion of a recording's graph to columns.

Invariant: pure functions over the rows of a `GraphTable`; equal texts, attributes and specs are
sent once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodescope.ir.attrs import decode_attrs, plain_attrs
from nodescope.ir.graph import SourceLocation
from nodescope.record.graph_table import EncodedNode, ValueCells
from nodescope.record.schema import value_spec
from nodescope_server.wire.graph_messages import Lists, NodeColumns, NodeKind, Texts, ValueColumns

# Longer texts in attributes are sent only when a user looks at the node.
LONGEST_TEXT: Final = 256
_MOST_ITEMS: Final = 64
# The widths of numbers, by the largest that fits.
_WIDTHS: Final = ((1 << 8, "u1"), (1 << 16, "<u2"), (1 << 32, "<u4"))
_decode_source: Final = msgspec.msgpack.Decoder(SourceLocation | None).decode

Key = TypeVar("Key", bound=Hashable)


def numbers(column: Sequence[int] | NDArray[np.int64]) -> bytes:
    """A column of whole numbers in as few bytes as it needs."""
    table = np.asarray(column, dtype=np.int64)
    least, largest = int(table.min(initial=0)), int(table.max(initial=0))
    if least == largest == 0:
        return b""
    fits = (dtype for limit, dtype in _WIDTHS if least >= 0 and largest < limit)
    return table.astype(next(fits, "<f8")).tobytes()


def _distinct(column: Sequence[Key]) -> tuple[tuple[Key, ...], bytes]:
    """Each distinct entry, in order of appearance, and a column of their numbers."""
    entries = tuple(dict.fromkeys(column))
    if len(entries) <= 1:
        return entries, b""
    place = dict(zip(entries, range(len(entries)), strict=True))
    return entries, numbers(np.fromiter(map(place.__getitem__, column), np.int64, len(column)))


def _texts(column: Sequence[str]) -> Texts:
    return Texts(*_distinct(column))


def _lists(column: Sequence[Sequence[int]]) -> Lists:
    if not any(column):
        return Lists(b"", b"")
    lengths = np.fromiter(map(len, column), np.int64, len(column))
    total = int(lengths.sum())
    items = np.fromiter(chain.from_iterable(column), np.int64, total)
    return Lists(numbers(lengths), numbers(items))


def node_columns(seqs: Sequence[int], nodes: Sequence[EncodedNode]) -> NodeColumns:
    """Definitions of nodes, with the seq of each definition."""

    def column(*fields: str) -> list[Any]:
        return list(map(attrgetter(*fields), nodes))

    scopes = column("scope")
    inside = [
        len(scope) > 0 and name.startswith(scope + "/") for name, scope in column("name", "scope")
    ]
    ends = [
        node.name[len(node.scope) + 1 :] if within else node.name
        for node, within in zip(nodes, inside, strict=True)
    ]
    kinds, kind = _distinct(column(*NodeKind.__struct_fields__))
    encoded, settings = _distinct(list(map(bytes, column("attrs"))))
    sources, line = _distinct(list(map(bytes, column("source"))))
    return NodeColumns(
        count=len(nodes),
        seq=numbers(seqs),
        id=numbers(column("id")),
        name=_texts(ends),
        inside=numbers(inside),
        scope=_texts(scopes),
        kinds=tuple(NodeKind(*cells) for cells in kinds),
        kind=kind,
        inputs=_lists(column("inputs")),
        control_inputs=_lists(column("control_inputs")),
        outputs=_lists(column("outputs")),
        attrs=tuple(short_attrs(plain_attrs(decode_attrs(attrs))) for attrs in encoded),
        settings=settings,
        sources=tuple(map(_decode_source, sources)),
        line=line,
        origin=_lists(column("origin")),
        forward=numbers([forward or 0 for forward in column("forward")]),
        writes=_lists([tuple(chain.from_iterable(pairs)) for pairs in column("writes")]),
    )


def short_attrs(attrs: dict[str, Any]) -> dict[str, Any]:
    """Attributes with long texts and lists cut short; the same object if none is long."""
    if not any(map(_is_long, attrs.values())):
        return attrs
    return {
        name: f"{str(value)[:LONGEST_TEXT]}…" if _is_long(value) else value
        for name, value in attrs.items()
    }


def _is_long(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) > _MOST_ITEMS or any(map(_is_long, value))
    return isinstance(value, str) and len(value) > LONGEST_TEXT


def value_columns(rows: Sequence[ValueCells], nodes: Sequence[EncodedNode]) -> ValueColumns:
    """Values, which ``nodes`` produce.

    Raises:
        ValueError: A dtype or shape is damaged.
    """
    usual = _usual_names(nodes)
    ids, names, dtypes, shapes, producers, storages, devices, sizes = (
        list(zip(*rows, strict=True)) if rows else [()] * 8
    )
    specs, spec = _distinct(list(zip(dtypes, shapes, devices, sizes, strict=True)))
    return ValueColumns(
        count=len(rows),
        id=numbers(ids),
        name=_texts(
            [
                "" if name == expected else name
                for name, expected in zip(names, map(usual.get, ids), strict=True)
            ]
        ),
        specs=tuple(value_spec(*cells) for cells in specs),
        spec=spec,
        storage=numbers(storages),
        producer=numbers([producer or 0 for producer in producers]),
    )


def _usual_names(nodes: Sequence[EncodedNode]) -> dict[int, str]:
    """The default name of each value: its node's name, for later outputs with the port."""
    if all(len(node.outputs) <= 1 for node in nodes):
        return {node.outputs[0]: node.name for node in nodes if node.outputs}
    return {
        value: f"{node.name}:{port}" if port else node.name
        for node in nodes
        for port, value in enumerate(node.outputs)
    }
