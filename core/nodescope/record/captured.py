"""Compiled functions of a run, as its recording tells of them.

Invariant: reads documents only; a recording without any has no compiled functions, and one of an
earlier release opens as it did.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import msgspec

from nodescope.errors import RecordingError
from nodescope.events import Compiled, GraphCaptured, PassApplied
from nodescope.ir.graph import Graph, Node
from nodescope.record.recording import Recording

_DECODERS: dict[str, Callable[[bytes], GraphCaptured | PassApplied | Compiled]] = {
    "graph": msgspec.msgpack.Decoder(GraphCaptured).decode,
    "pass": msgspec.msgpack.Decoder(PassApplied).decode,
    "compiled": msgspec.msgpack.Decoder(Compiled).decode,
}


class Function(msgspec.Struct, frozen=True):
    """One trace of a compiled function.

    Attributes:
        owner: The function and the number of its trace, ``train_step#1``.
        graphs: Stage and graph, in the order of the passes; the first is ``traced``, the last
            ``final``.
        passes: In the order in which they ran.
        about: See `nodescope.events.Compiled`.
    """

    owner: str
    graphs: tuple[tuple[str, Graph], ...]
    passes: tuple[PassApplied, ...]
    about: dict[str, Any]

    @property
    def traced(self) -> Graph:
        """The graph before the first pass."""
        return self.graphs[0][1]

    @property
    def final(self) -> Graph:
        """The graph that runs."""
        return self.graphs[-1][1]


def functions(recording: Recording) -> list[Function]:
    """The compiled functions of a run, in the order in which they were traced.

    Raises:
        RecordingError: The recording is damaged.
    """
    found: list[_Growing] = []
    latest: dict[str, _Growing] = {}
    owners: set[str] = set()
    told = [(seq, _read(recording, kind, data)) for kind in _DECODERS
            for seq, data in recording.documents(kind)]  # fmt: skip
    for _, each in sorted(told, key=lambda one: one[0]):
        if isinstance(each, GraphCaptured) and each.stage == "traced":
            owner = _owner(each.owner, owners)
            owners.add(owner)
            latest[each.owner] = _Growing(owner)
            found.append(latest[each.owner])
        function = latest.get(each.owner)
        if function is not None:
            function.add(each)
    return [each.done() for each in found]


def _owner(name: str, taken: Container[str]) -> str:
    """The function's name, with the number of its trace from the second on; no two are the same."""
    number = 1
    owner = name
    while owner in taken:
        number += 1
        owner = f"{name}#{number}"
    return owner


class _Growing:
    """A function while its documents come."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._graphs: list[tuple[str, Graph]] = []
        self._passes: list[PassApplied] = []
        self._about: dict[str, Any] = {}

    def add(self, each: GraphCaptured | PassApplied | Compiled) -> None:
        if isinstance(each, GraphCaptured):
            self._graphs.append((each.stage, each.graph))
        elif isinstance(each, PassApplied):
            self._passes.append(each)
        else:
            self._about = each.about

    def done(self) -> Function:
        return Function(self._owner, tuple(self._graphs), tuple(self._passes), self._about)


def _read(recording: Recording, kind: str, data: bytes) -> GraphCaptured | PassApplied | Compiled:
    try:
        return _DECODERS[kind](data)
    except msgspec.MsgspecError as error:
        raise RecordingError(
            f"{recording.path}: a document of kind {kind!r} cannot be read ({error})",
            hint="the file is damaged, or of an early development version",
        ) from error


def shown(graph: Graph) -> Graph:
    """The graph as it is shown: graphs within attributes as the names of their nodes."""
    return msgspec.structs.replace(graph, nodes=tuple(map(_shown, graph.nodes)))


def _shown(node: Node) -> Node:
    inner = {
        name: value
        for name, value in node.attrs.items()
        if isinstance(value, dict) and isinstance(value.get("nodes"), list | tuple)
    }
    if not inner:
        return node
    attrs = {name: value for name, value in node.attrs.items() if name not in inner}
    for name, body in inner.items():
        names = [str(each.get("name", "")) for each in body["nodes"] if isinstance(each, dict)]
        attrs["covers" if name == "body" and node.op == "fused" else name] = names
    return msgspec.structs.replace(node, attrs=attrs)
