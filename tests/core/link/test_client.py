"""The link against a real WebSocket server in this process."""

from __future__ import annotations

import os
import queue
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from nodescope.errors import LinkError, UsageError
from nodescope.ir.capabilities import Framework
from nodescope.link import proof
from nodescope.link.client import MAX_LIVE_BYTES, Handlers, Link
from nodescope.link.messages import (
    CommandTaken,
    Committed,
    Controllers,
    Do,
    FromDebuggee,
    FromServer,
    Goodbye,
    Hello,
    LiveValue,
    Observed,
    ReadLive,
    Refused,
    SessionUpdate,
    Welcome,
)
from nodescope.protocol import Pause, RunInfo, SessionInfo, StepNode, Stop
from nodescope.record.files.descriptors import Own, moved

TIMEOUT_S = 60.0
WELCOME = Welcome("1")
STOP = Stop("pause", 1, "a", "", "after", 1, 9, 1)


class Server:
    """Takes a link in and keeps what it sends; ``first`` is what it answers to hello."""

    def __init__(self, first: FromServer | bytes = WELCOME, port: int = 0) -> None:
        self.first = first
        self.got: queue.Queue[FromDebuggee] = queue.Queue()
        self.sockets: queue.Queue[ServerConnection] = queue.Queue()
        self.headers: list[Any] = []
        self.knows = "secret"
        self.server = serve(
            self._serve, "127.0.0.1", port, compression=None, process_response=self._prove
        )
        self.port = self.server.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def _prove(self, connection: ServerConnection, request: Any, response: Any) -> None:
        """As the guard of a server does that knows the token."""
        number = request.headers["Authorization"].split(" ")[1].partition(":")[0]
        response.headers[proof.HEADER] = proof.proof(self.knows, "server", self.port, number)

    def _serve(self, connection: ServerConnection) -> None:
        self.headers.append(connection.request.headers)
        decoder = msgspec.msgpack.Decoder(FromDebuggee)
        try:
            self.got.put(decoder.decode(connection.recv()))
            self.say(self.first, connection)
            self.sockets.put(connection)
            for data in connection:
                self.got.put(decoder.decode(data))
        except ConnectionClosed:
            pass

    @staticmethod
    def say(message: FromServer | bytes, connection: ServerConnection) -> None:
        connection.send(message if isinstance(message, bytes) else msgspec.msgpack.encode(message))

    def next(self) -> FromDebuggee:
        return self.got.get(timeout=TIMEOUT_S)

    def socket(self) -> ServerConnection:
        return self.sockets.get(timeout=TIMEOUT_S)

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join(TIMEOUT_S)


class Program:
    """The handlers of a program, and what they were told."""

    def __init__(self) -> None:
        self.told: queue.Queue[object] = queue.Queue()
        self.values: dict[int, np.ndarray] = {}

    def command(self, command: object) -> None:
        if isinstance(command, StepNode):
            raise UsageError("the program is running", hint="pause it first")
        if isinstance(command, Pause):
            self.told.put(command)
            return
        raise RuntimeError("broken")

    def link(self, server: Server | int) -> Link:
        port = server if isinstance(server, int) else server.port
        return Link(
            f"ws://127.0.0.1:{port}/link",
            "secret",
            RunInfo("0" * 16, "train.py"),
            Handlers(
                command=self.command,
                controllers=lambda count: self.told.put(count),
                live_value=self.values.get,
                up=lambda: self.told.put("up"),
                lost=lambda: self.told.put("lost"),
                warn=lambda text: self.told.put(text),
            ),
            version="0.1",
        )

    def next(self) -> object:
        return self.told.get(timeout=TIMEOUT_S)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def program() -> Program:
    return Program()


def test_introduces_itself_with_the_token(server, program):
    link = program.link(server)
    link.connect(TIMEOUT_S)
    hello = server.next()
    assert isinstance(hello, Hello)
    assert hello.run.name == "train.py"
    assert server.headers[0]["Authorization"].startswith(f"{proof.SCHEME} ")
    assert "secret" not in server.headers[0]["Authorization"]
    assert "Origin" not in server.headers[0]
    assert program.next() == "up"
    link.goodbye(0, "")


def test_commands_are_answered_and_errors_carry_their_hint(server, program):
    link = program.link(server)
    link.connect(TIMEOUT_S)
    server.next()
    connection = server.socket()
    for number, command in enumerate((Pause(), StepNode())):
        server.say(Do(number, command), connection)
    server.say(Controllers(3), connection)
    assert server.next() == CommandTaken(0)
    assert server.next() == CommandTaken(1, "the program is running", "pause it first")
    assert [program.next() for _ in range(3)] == ["up", Pause(), 3]
    link.goodbye(0, "")


def test_a_stop_follows_its_commit_and_news_are_coalesced(server, program):
    link = program.link(server)
    for seq in range(1, 1000):
        link.committed(seq)
    link.session(SessionInfo(phase="stopped", version=4, stop=STOP))
    link.connect(TIMEOUT_S)
    link.goodbye(0, "")
    results = [server.next() for _ in range(4)]
    assert results[1] == Committed(999)
    assert results[2] == SessionUpdate(SessionInfo(phase="stopped", version=4, stop=STOP))
    assert results[3] == Goodbye(0, "")


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.array(2.5),
        np.ones((3, 4), np.float32).T,
        np.empty((0, 2)),
    ],
)
def test_live_values_travel_whole(server, program, array):
    program.values[5] = array
    link = program.link(server)
    link.connect(TIMEOUT_S)
    server.next()
    connection = server.socket()
    server.say(ReadLive(1, 5), connection)
    answer = server.next()
    assert isinstance(answer, LiveValue)
    assert answer.found
    assert answer.spec.shape == array.shape
    read = np.frombuffer(answer.data, np.dtype(answer.spec.dtype).newbyteorder("<"))
    np.testing.assert_array_equal(read.reshape(answer.spec.shape), array)
    program.values[6] = np.broadcast_to(np.float64(0), (MAX_LIVE_BYTES,))
    for value in (6, 7):
        server.say(ReadLive(2, value), connection)
        assert server.next() == LiveValue(2, found=False)
    link.goodbye(0, "")


def test_reconnects_and_sends_the_newest_state_again(program):
    first = Server()
    link = program.link(first)
    link.connect(TIMEOUT_S)
    link.committed(7)
    link.session(SessionInfo(version=2))
    assert [type(first.next()) for _ in range(3)] == [Hello, Committed, SessionUpdate]
    first.stop()
    assert [program.next() for _ in range(2)] == ["up", "lost"]
    link.committed(9)
    second = Server(port=first.port)
    results = [second.next() for _ in range(3)]
    assert isinstance(results[0], Hello)
    assert results[1:] == [Committed(9), SessionUpdate(SessionInfo(version=2))]
    assert program.next() == "up"
    assert link.goodbye(1, "ValueError: no")
    assert second.next() == Goodbye(1, "ValueError: no")
    second.stop()


def test_frameworks_that_come_later_are_reported_at_once_and_in_later_hellos(program):
    first, torch = Server(), Framework("torch", "2.13")
    link = program.link(first)
    link.connect(TIMEOUT_S)
    link.observed((torch,))
    assert isinstance(first.next(), Hello)
    assert first.next() == Observed((torch,))
    first.stop()
    assert [program.next() for _ in range(2)] == ["up", "lost"]
    second = Server(port=first.port)
    hello = second.next()
    assert isinstance(hello, Hello)
    assert hello.run.frameworks == (torch,)
    assert program.next() == "up"
    link.goodbye(0, "")
    second.stop()


def test_without_a_server_the_link_is_inert_at_once(program):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    link = program.link(port)
    start = time.monotonic()
    with pytest.raises(LinkError, match=r"no nodescope server responds .*nodescope serve"):
        link.connect(patience_s=10 * TIMEOUT_S)
    assert time.monotonic() - start < TIMEOUT_S
    link.committed(1)
    link.session(SessionInfo())
    assert link.goodbye(0, "") is False
    assert not link.connected


def test_with_a_mute_server_the_link_is_inert_too(program):
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        start = time.monotonic()
        with pytest.raises(LinkError):
            program.link(mute.getsockname()[1]).connect(patience_s=0.2)
        assert time.monotonic() - start < 2.0  # The limit for a server that does not answer.


def test_a_refusal_names_its_reason(program):
    server = Server(first=Refused("the program speaks protocol 1, the server protocol 2"))
    with pytest.raises(LinkError, match="refused this run: the program speaks protocol 1"):
        program.link(server).connect(TIMEOUT_S)
    server.stop()


def test_nonsense_ends_the_link_and_not_the_program(server, program):
    link = program.link(server)
    link.connect(TIMEOUT_S)
    server.say(b"\xc1nonsense", server.socket())
    assert [program.next() for _ in range(2)] == ["up", "lost"]
    assert "cannot read" in program.next()
    assert link.goodbye(0, "") is False


def test_a_broken_handler_is_an_answer(server, program):
    link = program.link(server)
    link.connect(TIMEOUT_S)
    server.next()
    from nodescope.protocol import Continue

    server.say(Do(1, Continue()), server.socket())
    assert server.next() == CommandTaken(1, "RuntimeError: broken", "this is a defect")
    assert link.connected
    link.goodbye(0, "")


def test_text_that_is_not_unicode_travels_as_escapes(server, program):
    link = program.link(server)
    link.connect(TIMEOUT_S)
    server.next()
    assert link.goodbye(1, "OSError: \udcff", TIMEOUT_S)
    assert server.next() == Goodbye(1, "OSError: \\udcff")


def test_a_listener_that_does_not_know_the_token_learns_nothing() -> None:
    """As on the port of a server that was killed."""
    server, program = Server(), Program()
    server.knows = "a guess"
    try:
        with pytest.raises(LinkError, match="is not the one that was started there"):
            program.link(server).connect(patience_s=TIMEOUT_S)
        assert "secret" not in str(server.headers)
        assert server.got.empty()
    finally:
        server.stop()


CLOSING = """
import os, socket, sys, threading
from nodescope.link.client import Handlers, Link
from nodescope.protocol import RunInfo

def nothing(*_): return None

before = set(os.listdir("/dev/fd"))
told = threading.Event()
link = Link(sys.argv[1], "secret", RunInfo("0" * 16, "train.py"),
            Handlers(nothing, nothing, nothing, nothing, nothing, nothing), version="0.1")
link.connect(10, patience_s=10)
mine = [int(each) for each in set(os.listdir("/dev/fd")) - before
        if os.path.exists(f"/proc/self/fd/{each}") or os.path.lexists(f"/dev/fd/{each}")]
print(min(mine), len(mine))
os.closerange(3, 256)
files = [open(f"mine{number}", "w+") for number in range(40)]
pairs = [socket.socketpair() for _ in range(20)]
link.committed(7)
print(link.goodbye(0, "", 10))
for file in files:
    file.write("mine\\n")
    file.close()
for left, right in pairs:
    left.sendall(b"mine")
    left.close()
    assert right.recv(100) == b"mine", right
    right.close()
"""


def test_a_program_that_closes_what_it_did_not_open_keeps_the_link(server, tmp_path):
    """And what it opens next gets none of our messages."""
    done = subprocess.run(
        [sys.executable, "-c", CLOSING, f"ws://127.0.0.1:{server.port}/link"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 4096)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (numbers, output) = done.stdout.splitlines()
    lowest, many = map(int, numbers.split())
    assert lowest >= 1024
    assert many >= 1
    assert output == "True"
    assert {path.read_text() for path in tmp_path.glob("mine*")} == {"mine\n"}
    assert isinstance(server.next(), Hello)
    assert server.next() == Committed(7)
    assert server.next() == Goodbye(0, "")


def test_a_connection_whose_number_was_given_away_is_left_alone():
    left, right = socket.socketpair()
    with right:
        own = moved(left, Own)
        number = own.fileno()
        other, end = socket.socketpair()
        with other, end:
            # As if the program had closed the link's descriptor and opened one of its own.
            os.dup2(other.fileno(), number)
            for use in (
                lambda: own.recv(1), lambda: own.recv_into(bytearray(1)), lambda: own.send(b"x"),
                lambda: own.sendall(b"x"), lambda: own.shutdown(socket.SHUT_RDWR), own.accept,
            ):  # fmt: skip
                with pytest.raises(OSError, match="closed the descriptor"):
                    use()
            own.close()
            os.fstat(number)  # The descriptor is the program's, and still open.
            os.close(number)
            end.setblocking(False)
            with pytest.raises(BlockingIOError):
                end.recv(1)
