"""Malicious frames: answered, or closed with a reason, without an effect on other clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from nodescope.protocol import Pause
from nodescope_server import wire
from tests.depth import examples
from tests.server.support import BEARER, Live, Page, Program

# The server runs in a thread of this process, and may draw random numbers while Hypothesis draws
# an example.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning"
)

PATHS = ("/api/stream", "/link")


def knock(live: Live, path: str) -> ClientConnection:
    if path == "/link":
        return live.socket(path, {"Authorization": f"Bearer {BEARER}"})
    return live.socket(path, {**live.cookie, "Origin": live.base})


def closing(socket: ClientConnection) -> int | None:
    """Read to the end. Returns the server's close code, or None if it closed without one."""
    try:
        while True:
            socket.recv(20)
    except ConnectionClosed as error:
        return error.rcvd.code if error.rcvd else None
    finally:
        socket.close()


@pytest.mark.parametrize("path", PATHS)
def test_a_frame_beyond_16_mib_is_too_big(live: Live, path: str) -> None:
    socket = knock(live, path)
    # Send the header only: more data would cross with the answer and reset the connection.
    socket.socket.sendall(b"\x82\xff" + (17 * 1024 * 1024).to_bytes(8, "big") + b"mask")
    assert closing(socket) == 1009
    whole = knock(live, path)
    try:
        whole.send(b"\0" * (17 * 1024 * 1024))
    except ConnectionClosed:
        pass  # Closed while the frame was still being sent.
    assert closing(whole) in (1009, None)
    assert live.get("/api/health").status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_text_is_not_understood(live: Live, path: str) -> None:
    socket = knock(live, path)
    socket.send('{"id": 1}')
    assert closing(socket) == 1003


@pytest.mark.parametrize("path", PATHS)
def test_text_that_is_not_utf8_is_1007(live: Live, path: str) -> None:
    socket = knock(live, path)
    with socket.send_context():
        socket.protocol.send_text(b"\xff\xfe")
    assert closing(socket) == 1007


@pytest.mark.parametrize(
    "frame",
    [b"", b"\xc1", b"\x80", b"\x91" * 50_000, b"\xdd\xff\xff\xff\xff", b"\x81\xa2id\xa1x"],
)
def test_a_message_that_is_no_request_closes_with_1007(live: Live, frame: bytes) -> None:
    socket = knock(live, "/api/stream")
    socket.send(frame)
    assert closing(socket) == 1007


@pytest.mark.parametrize(
    "body",
    [
        None,
        3,
        {},
        {"type": "no_such"},
        {"type": "subscribe"},
        {"type": "subscribe", "run": 3},
        {"type": "get_value", "run": "x", "value": "one"},
        {"type": "get_value", "run": "x", "value": 2**63, "index": [0.5]},
        {"type": "control", "run": "x", "command": {"type": "exec"}},
    ],
)
def test_a_request_that_cannot_be_understood_is_answered(page: Page, body: Any) -> None:
    page.socket.send(msgspec.msgpack.encode({"id": 41, "body": body}))
    answer = page.wait(wire.Response)
    assert answer.id == 41
    assert isinstance(answer.body, wire.Failed)
    assert "cannot be read" in answer.body.message
    # The connection continues to work.
    assert isinstance(page.ask(wire.Subscribe("0" * 16)), wire.Failed)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=9)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip
BODIES = st.sampled_from(wire.RequestBody.__args__).flatmap(
    lambda kind: st.fixed_dictionaries(
        {"type": st.just(kind.__struct_config__.tag)},
        optional=dict.fromkeys(kind.__struct_fields__, JUNK),
    )
)


@given(st.lists(st.binary(max_size=60) | BODIES | JUNK, min_size=1, max_size=8))
@settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_message_of_a_browser_breaks_the_server(
    live: Live, page: Page, program: Program, messages: list[Any]
) -> None:
    noisy = Page(live)
    try:
        for number, message in enumerate(messages):
            if isinstance(message, bytes):
                noisy.socket.send(message)
            else:
                noisy.socket.send(msgspec.msgpack.encode({"id": number, "body": message}))
    except ConnectionClosed:
        pass
    noisy.close()
    answer = page.ask(wire.GetState(program.run.id, 1))
    assert isinstance(answer, wire.StateAt)


@given(st.lists(st.binary(max_size=60) | JUNK.map(msgspec.msgpack.encode), max_size=5))
@settings(
    deadline=None,
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_message_of_a_program_breaks_the_server(
    live: Live, page: Page, program: Program, messages: list[bytes]
) -> None:
    socket = knock(live, "/link")
    try:
        for message in messages:
            socket.send(message)
    except ConnectionClosed:
        pass
    socket.close()
    assert isinstance(page.ask(wire.GetState(program.run.id, 1)), wire.StateAt)


def test_extreme_numbers_are_answered(program: Program, page: Page) -> None:
    run = program.run.id
    program.execute(program.define())
    program.commit()
    far = 2**63 - 1
    for body in (
        wire.GetState(run, far),
        wire.GetState(run, 2**64 - 1),
        wire.GetState(run, -far),
        wire.GetValue(run, 101, far, (far,) * 9, far, far, far, far),
        wire.GetValue(run, -far, -far, (-far,), -far, -far, -far, -far),
        wire.GetHistory(run, far, far, far),
        wire.GetTimeline(run, -far, far, -1),
        wire.GetTimeline(run, far, -far, far),
        wire.GetSource(run, "\0"),
        wire.GetSource(run, "x" * 1_000_000),
        wire.GetScope(run, "x/" * 100_000),
        wire.Subscribe(run, 2**64 - 1),
        wire.Subscribe(run, -1),
    ):
        assert page.ask(body) is not None


def test_pings_are_answered(page: Page) -> None:
    assert page.socket.ping().wait(60)


def test_a_flood_of_requests_ends_only_the_flooder(
    live: Live, new_page: Callable[[], Page], program: Program
) -> None:
    flooder, other = new_page(), new_page()
    frame = msgspec.msgpack.encode(wire.Request(1, wire.Control(program.run.id, Pause())))
    try:
        for _ in range(2000):
            flooder.socket.send(frame)
    except ConnectionClosed:
        pass
    assert closing(flooder.socket) == 1008
    assert isinstance(other.ask(wire.GetState(program.run.id, 1)), wire.StateAt)
