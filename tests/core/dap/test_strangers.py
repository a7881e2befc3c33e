"""Only the adapter's own user may talk to it, because a client can start programs."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodescope.cli import dap as command
from nodescope.dap import attaching, launching
from nodescope.errors import UsageError
from nodescope.link import owner

WAIT_S = 60.0
STRANGER = 4321


class Ended(BaseException):
    """Ends an adapter's loop in a test."""


@contextlib.contextmanager
def adapter(monkeypatch: pytest.MonkeyPatch, **options: object) -> Iterator[socket.socket]:
    """``nodescope dap`` in a thread; its listener."""
    sockets: list[socket.socket] = []
    ready = threading.Event()
    for name in ("_on_port", "_on_file"):
        original = getattr(command, name)

        def listening(where: object, original: object = original) -> socket.socket:
            sockets.append(original(where))  # type: ignore[operator]
            ready.set()
            return sockets[0]

        monkeypatch.setattr(command, name, listening)
    options_ = argparse.Namespace(**{"port": None, "socket": None, **options})

    def serve() -> None:
        with contextlib.suppress(OSError):  # The listener was closed.
            command.dap(options_)

    thread = threading.Thread(target=serve)
    thread.start()
    assert ready.wait(WAIT_S)
    try:
        yield sockets[0]
    finally:
        sockets[0].shutdown(socket.SHUT_RDWR)
        thread.join(WAIT_S)
        assert not thread.is_alive()


def is_answered(connection: socket.socket, command: str, **arguments: object) -> bool:
    """Send a request; whether there is any answer."""
    connection.settimeout(WAIT_S)
    request = {"seq": 1, "type": "request", "command": command, "arguments": arguments}
    content = json.dumps(request).encode()
    try:
        connection.sendall(b"Content-Length: %d\r\n\r\n" % len(content) + content)
        return connection.recv(1) != b""
    except OSError:  # The adapter closed the connection.
        return False


def test_another_user_cannot_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mark.py").write_text("open('mark', 'w')")
    with adapter(monkeypatch, port=0) as listener:
        place = listener.getsockname()
        with monkeypatch.context() as other:
            other.setattr(owner, "owner_of", lambda *_: STRANGER)
            with socket.create_connection(place, WAIT_S) as connection:
                assert not is_answered(connection, "launch", program="mark.py", cwd=str(tmp_path))
            # A client that leaves before its user can be determined is refused too.
            other.setattr(owner, "owner_of", lambda *_: None)
            with socket.create_connection(place, WAIT_S) as connection:
                assert not is_answered(connection, "launch", program="mark.py", cwd=str(tmp_path))
        with socket.create_connection(place, WAIT_S) as connection:  # The owner is still served.
            assert is_answered(connection, "initialize")
    assert not (tmp_path / "mark").exists()
    assert capfd.readouterr().err.count("refused a connection from another user") == 2


def test_a_port_is_not_opened_where_users_cannot_be_identified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "TABLES", (tmp_path / "none",) * 2)
    with pytest.raises(UsageError, match="use --socket FILE"):
        command.dap(argparse.Namespace(port=0, socket=None))


def test_a_socket_is_this_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "adapter"
    with socket.socket(socket.AF_UNIX) as killed:  # A killed adapter leaves such a file.
        killed.bind(str(place))
    os.umask(mask := os.umask(0))
    try:
        with adapter(monkeypatch, socket=place):
            assert stat.S_IMODE(place.stat().st_mode) == 0o600
            with pytest.raises(UsageError, match="Address already in use"):
                command.dap(argparse.Namespace(port=None, socket=place))
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(place))
                assert is_answered(connection, "initialize")
    finally:
        os.umask(mask)
    assert not place.exists()


def test_a_file_in_the_place_of_the_socket_stays(tmp_path: Path) -> None:
    place = tmp_path / "notes.txt"
    place.write_text("mine")
    with pytest.raises(UsageError, match="cannot be used"):
        command.dap(argparse.Namespace(port=None, socket=place))
    assert place.read_text() == "mine"


def test_others_cannot_keep_a_launch_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script.py").write_text("")
    sockets: list[socket.socket] = []
    judge = launching.is_foreign

    def first_is_a_stranger(connection: socket.socket) -> bool:
        sockets.append(connection)
        return len(sockets) == 1 or judge(connection)

    monkeypatch.setattr(launching, "is_foreign", first_is_a_stranger)
    child = launching.Child(launching.launch_of({"program": "script.py", "cwd": str(tmp_path)}))
    try:
        with socket.create_connection(child._listener.getsockname(), WAIT_S) as silent:
            channel = child.connected()
            assert channel is not None
            assert silent.recv(1) == b""
            channel.close()
    finally:
        child.end()
        for _, stream in child.streams:
            stream.close()
    assert len(sockets) == 2


def test_others_cannot_keep_the_door_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(attaching, "is_foreign", lambda connection: True)
    door = attaching.EditorListener(None, "script.py", lambda line: None)  # type: ignore[arg-type]
    try:
        place = ("127.0.0.1", door._place.port)
        with socket.create_connection(place, WAIT_S) as silent:
            assert silent.recv(1) == b""
    finally:
        door.close()
