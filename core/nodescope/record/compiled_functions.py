"""Compiled functions of a run, read from its recording.

Invariant: reads documents only; a recording without any has no compiled functions, and one of an
earlier release opens as before.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeVar

import msgspec

from nodescope.errors import RecordingError
from nodescope.events import Compiled, GraphCaptured, PassApplied
from nodescope.ir.attrs import plain_attrs, unpack_graph
from nodescope.ir.differences import CallLog, CrossChecked
from nodescope.ir.graph import Graph, Node
from nodescope.record import schema_1
from nodescope.record.recording import Recording

Document = GraphCaptured | PassApplied | Compiled
Told = TypeVar("Told")


_decode_check = msgspec.msgpack.Decoder(CrossChecked).decode
_decode_calls = msgspec.msgpack.Decoder(CallLog).decode
_decode_graph = msgspec.msgpack.Decoder(GraphCaptured).decode


def _graph(data: bytes) -> GraphCaptured:
    captured = _decode_graph(data)
    unpack_graph(captured.graph)
    return captured


_DECODERS: dict[str, Callable[[bytes], Document]] = {
    "graph": _graph,
    "pass": msgspec.msgpack.Decoder(PassApplied).decode,
    "compiled": msgspec.msgpack.Decoder(Compiled).decode,
}
_DECODERS_BEFORE: dict[str, Callable[[bytes], Document]] = {
    **_DECODERS,
    "graph": schema_1.decode_captured,
    "compiled": schema_1.decode_compiled,
}


class CompiledFunction(msgspec.Struct, frozen=True):
    """One trace of a compiled function.

    Attributes:
        owner: The function and the number of its trace, ``train_step#1``.
        graphs: Stage and graph, in the order of the passes; the first is ``traced``, the last
            ``final``.
        passes: In the order in which they ran.
        compiled: The result of compiling; for a graph that was never compiled if the run ended
            first.
    """

    owner: str
    graphs: tuple[tuple[str, Graph], ...]
    passes: tuple[PassApplied, ...]
    compiled: Compiled

    @property
    def traced(self) -> Graph:
        """The graph before the first pass."""
        return self.graphs[0][1]

    @property
    def final(self) -> Graph:
        """The graph that runs."""
        return self.graphs[-1][1]


def functions(recording: Recording) -> list[CompiledFunction]:
    """The compiled functions of a run, in the order in which they were traced.

    Raises:
        RecordingError: The recording is damaged.
    """
    growing: list[_Growing] = []
    latest: dict[str, _Growing] = {}
    owners: set[str] = set()
    documents = [(seq, _read(recording, kind, data)) for kind in _DECODERS
                 for seq, data in recording.documents(kind)]  # fmt: skip
    for _, document in sorted(documents, key=lambda row: row[0]):
        if isinstance(document, GraphCaptured) and document.stage == "traced":
            owner = _owner(document.owner, owners)
            owners.add(owner)
            latest[document.owner] = _Growing(owner)
            growing.append(latest[document.owner])
        function = latest.get(document.owner)
        if function is not None:
            function.add(document)
    return [function.done() for function in growing]


def captured_graphs(recording: Recording) -> list[GraphCaptured]:
    """The graphs of compiled functions, in the order in which they were captured.

    Raises:
        RecordingError: The recording is damaged.
    """
    documents = (_read(recording, "graph", data) for _, data in recording.documents("graph"))
    return [document for document in documents if isinstance(document, GraphCaptured)]


def cross_checked(recording: Recording) -> CrossChecked | None:
    """How the calls of compiled functions compare with their traces; None if unchecked.

    Raises:
        RecordingError: The recording is damaged.
    """
    return _last(recording, "check", _decode_check)


def called(recording: Recording) -> CallLog | None:
    """Arguments and results of each call of a compiled function; None if they were not logged.

    Raises:
        RecordingError: The recording is damaged.
    """
    return _last(recording, "calls", _decode_calls)


def _last(recording: Recording, kind: str, decode: Callable[[bytes], Told]) -> Told | None:
    documents = recording.documents(kind)
    if not documents:
        return None
    try:
        return decode(documents[-1][1])
    except (msgspec.MsgspecError, ValueError) as error:
        raise RecordingError(f"the recording is damaged: {error}") from None


def _owner(name: str, used_names: Container[str]) -> str:
    """The function's name, numbered from its second trace on; names are unique."""
    number = 1
    owner = name
    while owner in used_names:
        number += 1
        owner = f"{name}#{number}"
    return owner


class _Growing:
    """A function whose documents are still being read."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._graphs: list[tuple[str, Graph]] = []
        self._passes: list[PassApplied] = []
        self._compiled = Compiled(owner, backend="")

    def add(self, document: Document) -> None:
        if isinstance(document, GraphCaptured):
            self._graphs.append((document.stage, document.graph))
        elif isinstance(document, PassApplied):
            self._passes.append(document)
        else:
            self._compiled = document

    def done(self) -> CompiledFunction:
        return CompiledFunction(
            self._owner, tuple(self._graphs), tuple(self._passes), self._compiled
        )


def _read(recording: Recording, kind: str, data: bytes) -> Document:
    try:
        decoders = _DECODERS_BEFORE if recording.schema == schema_1.VERSION else _DECODERS
        return decoders[kind](data)
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError) as error:
        raise RecordingError(
            f"{recording.path}: a document of kind {kind!r} cannot be read ({error})",
            hint="the file is damaged, or of an early development version",
        ) from error


def shown(graph: Graph) -> Graph:
    """The graph for display: graphs within attributes are replaced by the names of their nodes."""
    return msgspec.structs.replace(graph, nodes=tuple(map(_shown, graph.nodes)))


def _shown(node: Node) -> Node:
    attrs = {}
    for name, value in node.attrs.items():
        if isinstance(value, Graph):
            key = "covers" if name == "body" and node.op == "fused" else name
            attrs[key] = tuple(inner.name for inner in value.nodes)
        else:
            attrs[name] = value
    return msgspec.structs.replace(node, attrs=plain_attrs(attrs))
