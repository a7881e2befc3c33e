"""A server in this process, and its two kinds of clients: a program and a page.

Invariant: sockets and recordings are real; every wait has a limit, and nothing sleeps.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
import numpy as np
import uvicorn
from websockets.sync.client import ClientConnection, connect

from nodescope import events, protocol
from nodescope.ir.graph import Node, SourceLocation, TensorSpec, Value
from nodescope.link import messages
from nodescope.protocol import RunInfo, SessionInfo
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope_server import listen, wire
from nodescope_server.app import App, Config, create_app
from nodescope_server.wire.graph_messages import Lists, NodeColumns, Texts, ValueColumns
from tests.unencrypted import NO_CERTIFICATES

T = TypeVar("T")

WAIT_S = 60.0
BEARER = "bearer-of-the-test"


class _Server(uvicorn.Server):
    """A server that reports when it has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.ready.set()


class Live:
    """A running server."""

    def __init__(self, app: App, port: int) -> None:
        self.app = app
        self.port = port
        self.base = f"http://127.0.0.1:{port}"
        self.cookie = {"Cookie": f"{app.guard.cookie_name}={app.keys.cookie}"}

    def get(self, path: str, **more: Any) -> httpx.Response:
        """Send a GET request as a program."""
        headers = {"Authorization": f"Bearer {BEARER}"}
        return httpx.get(
            self.base + path, headers=headers, timeout=WAIT_S, verify=NO_CERTIFICATES, **more
        )

    def socket(self, path: str, headers: dict[str, str], **more: Any) -> ClientConnection:
        """Open a WebSocket."""
        # Newer versions of websockets connect when the context is entered; older ones are
        # connected already.
        return connect(
            f"ws://127.0.0.1:{self.port}{path}",
            additional_headers=headers,
            open_timeout=WAIT_S,
            close_timeout=2,  # A killed server does not answer.
            max_size=None,
            compression=None,
            proxy=None,
            **more,
        ).__enter__()


@contextlib.contextmanager
def serving(**config: Any) -> Iterator[Live]:
    """Run a server on a free port, in a thread."""
    listener = listen.bind(0)
    port = listener.getsockname()[1]
    app = create_app(Config(port=port, bearer=BEARER, **config))
    server = _Server(listen.uvicorn_config(app))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        assert server.ready.wait(WAIT_S)
        yield Live(app, port)
    finally:
        server.should_exit = True
        thread.join(WAIT_S)
        assert not thread.is_alive()


class Page:
    """A browser's end of ``/api/stream``."""

    def __init__(
        self, live: Live, *, protocol_version: int = protocol.PROTOCOL_VERSION, client: str = "test"
    ) -> None:
        self.socket = live.socket("/api/stream", {**live.cookie, "Origin": live.base})
        self.pushes: list[Any] = []
        self._numbers = itertools.count(1)
        self._decode = msgspec.msgpack.Decoder(wire.ServerMessage).decode
        self.hello = self.ask(wire.Initialize(client, protocol_version))

    def ask(self, body: Any) -> Any:
        """Send a request and wait for its answer; messages before it are kept in `pushes`."""
        number = next(self._numbers)
        self.socket.send(msgspec.msgpack.encode(wire.Request(number, body)))
        while True:
            message = self._next()
            if isinstance(message, wire.Response):
                assert message.id == number
                return message.body
            self.pushes.append(message)

    def subscribe(self, run: str, seq: int = 0) -> wire.Snapshot:
        """Follow a run from its snapshot."""
        assert self.ask(wire.Subscribe(run, seq)) == wire.Done()
        return self.wait(wire.Snapshot)

    def wait(self, kind: type[T], when: Callable[[T], bool] = lambda _: True) -> T:
        """Wait for the next push of a kind, and drop those before it."""
        while True:
            message = self.pushes.pop(0) if self.pushes else self._next()
            if isinstance(message, kind) and when(message):
                return message

    def records_until(self, seq: int) -> list[wire.Records]:
        """All batches up to the one that reaches ``seq``."""
        results = [self.wait(wire.Records)]
        while results[-1].seq < seq:
            results.append(self.wait(wire.Records))
        return results

    def _next(self) -> Any:
        return self._decode(self.socket.recv(WAIT_S))

    def close(self) -> None:
        self.socket.close()


def seqs(columns: wire.ExecutionColumns) -> list[int]:
    """The seqs of executions."""
    return numbers_in(columns.seq, columns.count)


def numbers_in(column: bytes, count: int) -> list[int]:
    """A column's numbers: an entry has as many bytes as the largest needs, none if all are 0."""
    if not column:
        return [0] * count
    dtype = {1: "u1", 2: "<u2", 4: "<u4", 8: "<f8"}[len(column) // count]
    return np.frombuffer(column, dtype).astype(int).tolist()  # type: ignore[no-any-return]


def _texts_in(column: Texts, count: int) -> list[str]:
    return [column.texts[place] for place in numbers_in(column.places, count)]


def _lists_in(column: Lists, count: int) -> list[tuple[int, ...]]:
    lengths = numbers_in(column.lengths, count)
    items = iter(numbers_in(column.items, sum(lengths)))
    return [tuple(itertools.islice(items, length)) for length in lengths]


def nodes_in(columns: NodeColumns) -> list[tuple[int, Node]]:
    """The definitions of nodes in columns, each with its seq."""
    count = columns.count
    rows = zip(
        numbers_in(columns.seq, count),
        numbers_in(columns.id, count),
        _texts_in(columns.name, count),
        numbers_in(columns.inside, count),
        _texts_in(columns.scope, count),
        numbers_in(columns.kind, count),
        numbers_in(columns.settings, count),
        numbers_in(columns.line, count),
        numbers_in(columns.forward, count),
        *(
            _lists_in(lists, count)
            for lists in (
                columns.inputs, columns.control_inputs, columns.outputs, columns.origin,
                columns.writes,
            )
        ),
        strict=True,
    )  # fmt: skip
    return [
        (
            seq,
            Node(
                id=number,
                name=f"{scope}/{name}" if inside else name,
                scope=scope,
                attrs=columns.attrs[settings],
                source=columns.sources[line],
                forward=forward or None,
                inputs=inputs,
                control_inputs=control_inputs,
                outputs=outputs,
                origin=origin,
                writes=tuple(zip(writes[::2], writes[1::2], strict=True)),
                **msgspec.structs.asdict(columns.kinds[kind]),
            ),
        )
        for seq, number, name, inside, scope, kind, settings, line, forward,
            inputs, control_inputs, outputs, origin, writes in rows
    ]  # fmt: skip


def values_in(columns: ValueColumns, nodes: Sequence[Node]) -> list[wire.ProducedValue]:
    """The values in columns; ``nodes`` produce them."""
    usual = {
        value: f"{node.name}:{port}" if port else node.name
        for node in nodes
        for port, value in enumerate(node.outputs)
    }
    count = columns.count
    rows = zip(
        numbers_in(columns.id, count),
        _texts_in(columns.name, count),
        numbers_in(columns.spec, count),
        numbers_in(columns.storage, count),
        numbers_in(columns.producer, count),
        strict=True,
    )
    return [
        wire.ProducedValue(
            Value(number, columns.specs[spec], name or usual.get(number, ""), storage),
            producer or None,
        )
        for number, name, spec, storage, producer in rows
    ]


class Program:
    """A debuggee: a real recorder that the test feeds, and the debuggee's end of ``/link``."""

    def __init__(
        self, live: Live, folder: Path, *, level: events.Level = "values", number: int = 1
    ) -> None:
        self.live = live
        self.run = RunInfo(
            id=f"{number:016x}",
            name=f"train_{number}.py",
            level=level,
            pid=4242,
            started_unix_ns=1_700_000_000_000_000_000,
            recording=str(folder / f"{number}.nscope"),
        )
        self.recorder = Recorder(self.run.recording, level=level)
        self.clock = itertools.count(1_000, 1_000)
        self._nodes = itertools.count(1)
        self.recorder.emit(
            events.RunStarted(self.run.id, self.run.name, (), 4242, self.run.started_unix_ns)
        )
        self.socket: ClientConnection | None = None
        self.version = 0

    def connect(self, *, protocol_version: int = protocol.PROTOCOL_VERSION) -> Any:
        """Send a hello, and return the answer."""
        self.socket = self.live.socket("/link", {"Authorization": f"Bearer {BEARER}"})
        self.send(messages.Hello(protocol_version, "0.0.1", self.run))
        return self.next()

    def send(self, message: messages.FromDebuggee) -> None:
        assert self.socket is not None
        self.socket.send(msgspec.msgpack.encode(message))

    def next(self) -> Any:
        """The next message of the server."""
        assert self.socket is not None
        return msgspec.msgpack.decode(self.socket.recv(WAIT_S), type=messages.FromServer)

    def until(self, kind: type[T]) -> T:
        """The next message of a kind."""
        while not isinstance(message := self.next(), kind):
            pass
        return message

    def define(self, op: str = "exp", inputs: tuple[int, ...] = ()) -> Node:
        """Define a node with one output, a (2, 3) float64."""
        number = next(self._nodes)
        name = f"model/{op}_{number}"
        node = Node(
            number, name, op, "elementwise", inputs, (), (100 + number,), {"axis": 1}, "model",
            source=SourceLocation(__file__, 7),
        )  # fmt: skip
        value = Value(100 + number, TensorSpec((2, 3), "float64"), name)
        self.recorder.emit(events.GraphExtended((node,), (value,)))
        return node

    def execute(self, node: Node, array: Any = None, *, step: int = 0) -> None:
        """Run a node."""
        output = np.arange(6.0).reshape(2, 3) if array is None else array
        start = next(self.clock)
        self.recorder.emit(events.NodeFinished(node, (), (output,), step, 1, start, start + 500))

    def step(self, number: int) -> None:
        self.recorder.emit(events.StepStarted(number, next(self.clock)))

    def log(self, text: str) -> None:
        self.recorder.emit(events.Logged("stdout", text, 0, next(self.clock)))

    def commit(self) -> int:
        """Write everything, report it if connected, and return the seq."""
        assert self.recorder.flush(WAIT_S)
        seq = self.recorder.last_seq
        if self.socket is not None:
            self.send(messages.Committed(seq))
        return seq

    def read(self, question: Callable[[Recording], T]) -> T:
        """Open the recording for reading."""
        recording = Recording.open(Path(self.run.recording))
        try:
            return question(recording)
        finally:
            recording.close()

    def stop_at(self, node: Node, seq: int) -> SessionInfo:
        """Stop after a node."""
        stop = protocol.Stop("step", node.id, node.name, node.scope, "after", 0, seq, 1)
        return self.update(SessionInfo("stopped", self.version + 1, stop))

    def go_on(self) -> SessionInfo:
        """Continue after a stop."""
        return self.update(SessionInfo("running", self.version + 1))

    def update(self, info: SessionInfo) -> SessionInfo:
        self.version = info.version
        self.send(messages.SessionUpdate(info))
        return info

    def end(self, status: int = 0, error: str = "") -> None:
        """End regularly."""
        self.recorder.emit(events.RunFinished(status, error, next(self.clock)))
        self.recorder.close()
        if self.socket is not None:
            self.send(messages.Goodbye(status, error))

    def drop(self) -> None:
        """Drop the connection without a goodbye."""
        assert self.socket is not None
        self.socket.close()
        self.socket = None
