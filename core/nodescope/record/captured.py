"""Compiled functions of a run, as its recording tells of them.

Invariant: reads documents only; a recording without any has no compiled functions, and one of an
earlier release opens as it did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from nodescope.errors import RecordingError
from nodescope.events import Compiled, GraphCaptured, PassApplied
from nodescope.ir.graph import Graph, Node
from nodescope.record.recording import Recording

T = TypeVar("T")

_graph = msgspec.msgpack.Decoder(GraphCaptured).decode
_pass = msgspec.msgpack.Decoder(PassApplied).decode
_about = msgspec.msgpack.Decoder(Compiled).decode


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
    graphs: dict[str, list[tuple[str, Graph]]] = {}
    for each in _read(recording, "graph", _graph):
        graphs.setdefault(each.owner, []).append((each.stage, each.graph))
    passes: dict[str, list[PassApplied]] = {}
    for one in _read(recording, "pass", _pass):
        passes.setdefault(one.owner, []).append(one)
    about = {each.owner: each.about for each in _read(recording, "compiled", _about)}
    return [
        Function(owner, tuple(found), tuple(passes.get(owner, ())), about.get(owner, {}))
        for owner, found in graphs.items()
        if found[0][0] == "traced"
    ]


def _read(recording: Recording, kind: str, decode: Callable[[bytes], T]) -> list[T]:
    try:
        return [decode(data) for _, data in recording.documents(kind)]
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
