"""A graph on the wire, column by column, which is smaller than row by row if nodes are alike.

Invariant: plain data. A column of numbers takes as few bytes an entry as its largest number needs,
1, 2, 4 (unsigned) or 8 (float64), and none at all if every number is 0.
"""

from __future__ import annotations

from typing import Any

import msgspec

from nodescope.ir.graph import OpaqueSpec, Phase, Role, SourceLocation, TensorSpec


class Texts(msgspec.Struct, frozen=True):
    """A column of texts: each text once, and numbers of texts, from 0."""

    texts: tuple[str, ...]
    places: bytes


class Lists(msgspec.Struct, frozen=True):
    """A column of lists of numbers: their lengths, and their items one after the other."""

    lengths: bytes
    items: bytes


class NodeKind(msgspec.Struct, frozen=True):
    """Fields that many nodes share, as in `nodescope.ir.graph.Node`."""

    op: str
    family: str
    phase: Phase
    device: str
    graph: int
    role: Role
    dialect: str
    native: str


class NodeColumns(msgspec.Struct, frozen=True):
    """Nodes as in `nodescope.ir.graph.Node`, with the following differences.

    Attributes:
        count: Number of rows.
        seq: The seq at which each was defined.
        name: Without ``<scope>/`` where ``inside`` is 1.
        kinds, kind: Each kind once, and numbers of kinds.
        attrs, settings: Each set of attributes once, and numbers of sets. Long texts are cut short.
        sources, line: Each line of the program once, and numbers of lines.
        forward: 0 for none.
        writes: Output port, input port, output port, ….
    """

    count: int
    seq: bytes
    id: bytes
    name: Texts
    inside: bytes
    scope: Texts
    kinds: tuple[NodeKind, ...]
    kind: bytes
    inputs: Lists
    control_inputs: Lists
    outputs: Lists
    attrs: tuple[dict[str, Any], ...]
    settings: bytes
    sources: tuple[SourceLocation | None, ...]
    line: bytes
    origin: Lists
    forward: bytes
    writes: Lists


class ValueColumns(msgspec.Struct, frozen=True):
    """Values as in `nodescope.ir.graph.Value`, each with its producer.

    Attributes:
        count: Number of rows.
        name: ``""`` for the default name: the node's name for its first output, and
            ``<node>:<port>`` for the others.
        specs, spec: Each spec once, and numbers of specs.
        producer: Id of the node; 0 for a fed value.
    """

    count: int
    id: bytes
    name: Texts
    specs: tuple[TensorSpec | OpaqueSpec, ...]
    spec: bytes
    storage: bytes
    producer: bytes
