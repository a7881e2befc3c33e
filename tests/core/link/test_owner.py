"""The owner of the process at the other end."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodescope.link import owner

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
ROW = "   1: {} {} {} 00000000:00000000 00:00000000 00000000  {}        0 {} 1 0 20 4 30 10 -1\n"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as result:
        yield result


def test_a_connection_of_this_user_is_ours(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            places = connection.getpeername(), connection.getsockname()
            assert owner.owner_of(*places) == os.geteuid()
            assert owner.is_this_users(connection)
            assert not owner.is_foreign(connection)


def test_a_connection_from_the_other_address_family_is_ours(listener: socket.socket) -> None:
    with socket.socket(socket.AF_INET6) as client:
        client.connect(("::ffff:127.0.0.1", listener.getsockname()[1]))
        connection, _ = listener.accept()
        with connection:
            assert owner.is_this_users(connection)


def test_a_closed_connection_has_no_owner(listener: socket.socket) -> None:
    socket.create_connection(listener.getsockname()).close()
    connection, _ = listener.accept()
    with connection:
        assert owner.owner_of(connection.getpeername(), connection.getsockname()) is None
        assert not owner.is_this_users(connection)


@pytest.mark.parametrize(
    ("state", "user", "inode", "expected"),
    [
        ("01", 1234, 77, 1234),
        ("01", 0, 0, None),  # An orphaned socket has no inode and no reliable user.
        ("06", 0, 0, None),  # A socket in TIME_WAIT, for which the table always says user 0.
        ("04", 0, 77, None),
    ],
)
def test_the_table_is_read_carefully(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    state: str, user: int, inode: int, expected: int | None,
) -> None:  # fmt: skip
    client, server = ("127.0.0.1", 40000), ("127.0.0.1", 7711)
    client_end, server_end = owner._written(*client), owner._written(*server)
    table = tmp_path / "tcp"
    # The table also lists the server's end of the connection, which does not tell the owner.
    other = ROW.format(server_end, client_end, "01", os.geteuid(), 76)
    table.write_text(HEAD + other + ROW.format(client_end, server_end, state, user, inode))
    monkeypatch.setattr(owner, "TABLES", (table, tmp_path / "none"))
    assert owner.owner_of(client, server) == expected


def test_without_a_table_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listener: socket.socket
) -> None:
    monkeypatch.setattr(owner, "TABLES", (tmp_path / "none", tmp_path / "none"))
    assert not owner.can_tell()
    with socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert not owner.is_this_users(connection)
            assert not owner.is_foreign(connection)  # The token decides.


def test_a_connection_that_the_kernel_left_out_is_looked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = ROW.format("0100007F:1F90", "0100007F:1E1F", "01", 1234, 77)
    texts = iter([HEAD, HEAD, HEAD + row, ""])

    class Table:
        def read_text(self, encoding: str) -> str:
            return next(texts)

    monkeypatch.setattr(owner, "TABLES", (Table(), Path("none")))
    assert owner.owner_of(("127.0.0.1", 8080), ("127.0.0.1", 7711)) == 1234
    assert next(texts) == ""
