"""Connections of workers: strangers are dropped, and nothing that they send does harm."""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from nodescope.adapters.ray import hub as hubs
from nodescope.adapters.ray import wire
from nodescope.adapters.ray.hub import Connection, Hub


class Taken:
    """A receiver that keeps what the hub passes on."""

    def __init__(self) -> None:
        self.workers: list[Connection] = []
        self.messages: list[Any] = []
        self.gone: list[Connection] = []

    def joined(self, worker: Connection) -> None:
        self.workers.append(worker)

    def take(self, worker: Connection, message: Any) -> None:
        self.messages.append(message)

    def left(self, worker: Connection) -> None:
        self.gone.append(worker)

    def look(self) -> None:
        pass


@pytest.fixture
def taken() -> Taken:
    return Taken()


@pytest.fixture
def hub(taken: Taken) -> Iterator[Hub]:
    opened = Hub(taken, wire.Config(1), itertools.count(1))
    yield opened
    opened.close()


def joined(hub: Hub, token: bytes) -> tuple[socket.socket, Any]:
    """A connection that has sent its hello, and the answer; None if it was dropped."""
    connection = socket.create_connection((hub.host, hub.port), timeout=10)
    frames = wire.Frames()

    def read() -> Any:
        while True:
            data = connection.recv(4096)
            if not data:
                return None
            for body in frames.take(data):
                return wire.from_run.decode(body)

    challenge = read()
    hello = wire.Hello(wire.proof(token, challenge.nonce, b"worker"), b"n", "w", "n", 1, 0, "")
    connection.sendall(wire.frame(hello))
    return connection, read()


def test_both_ends_prove_that_they_know_the_token(hub: Hub, taken: Taken) -> None:
    connection, welcome = joined(hub, hub.token)
    assert welcome.proof == wire.proof(hub.token, b"n", b"run")
    assert welcome.config.number == 1
    connection.sendall(wire.frame(wire.Began(wire.Ran("t", 0, "", "f", "", 0, 0, 0))))
    hub.drain(10)
    assert [message.ran.task for message in taken.messages] == ["t"]
    connection.close()
    hub.drain(10)
    assert taken.gone == taken.workers


def test_a_stranger_is_dropped(hub: Hub, taken: Taken) -> None:
    connection, answer = joined(hub, b"another token")
    assert answer is None
    assert not taken.workers
    connection.close()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n" * 10,
        struct.pack("<I", 1 << 31) + b"x",
        struct.pack("<I", 3) + b"\xc1\xc1\xc1",
        wire.frame(wire.Began(wire.Ran("t", 0, "", "f", "", 0, 0, 0))),
    ],
    ids=["another protocol", "too long", "no MessagePack", "before the proof"],
)
def test_a_first_message_other_than_hello_ends_the_connection(
    hub: Hub, taken: Taken, data: bytes
) -> None:
    with socket.create_connection((hub.host, hub.port), timeout=10) as connection:
        connection.sendall(data)
        with _ended():
            while connection.recv(4096):
                pass
    assert not taken.messages
    worker, welcome = joined(hub, hub.token)  # Other workers can still connect.
    assert welcome is not None
    worker.close()


def test_a_silent_connection_is_dropped(hub: Hub) -> None:
    with (
        patch.object(hubs, "PROVE_S", 0.0),
        socket.create_connection((hub.host, hub.port), timeout=10) as connection,
        _ended(),
    ):
        while connection.recv(4096):
            pass


def _ended() -> Any:
    import contextlib

    return contextlib.suppress(ConnectionResetError)


def test_a_worker_that_does_not_read_delays_no_other(hub: Hub, taken: Taken) -> None:
    connection, _ = joined(hub, hub.token)
    (worker,) = taken.workers
    large = wire.Content("x", data=bytes(1 << 20))
    with patch.object(wire, "BACKLOG", 1 << 22):
        sent = [worker.sender.send(wire.Go(n, {"0": large})) for n in range(64)]
    assert sent[0]
    assert not all(sent)
    assert worker.sender.dropped == sent.count(False)
    connection.close()
