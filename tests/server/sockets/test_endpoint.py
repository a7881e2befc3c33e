"""Debuggees: connected, lost, reconnected, ended, refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from starlette.websockets import WebSocketState
from websockets.exceptions import ConnectionClosed, InvalidStatus

from nodescope import events, protocol
from nodescope.ir.capabilities import Capabilities, Framework
from nodescope.link import messages
from nodescope_server import __version__, wire
from nodescope_server.runs.runs import Runs
from nodescope_server.sockets.endpoint import Link
from tests.server.support import BEARER, Live, Page, Program, numbers_in

NewProgram = Callable[..., Program]


def state(page: Page, wanted: str) -> protocol.RunInfo:
    """Wait until the list of runs shows a state."""
    push = page.wait(wire.RunsChanged, lambda item: any(run.state == wanted for run in item.runs))
    return next(run for run in push.runs if run.state == wanted)


def test_a_program_is_welcomed_and_listed(program: Program, page: Page) -> None:
    assert [run.id for run in page.hello.runs] == [program.run.id] or state(page, "live")


def test_a_framework_imported_later_is_reported_to_the_page(program: Program, page: Page) -> None:
    page.subscribe(program.run.id)
    torch = Framework("torch", "2.13", Capabilities(before=True, edit="in_place"))
    program.send(messages.Observed((torch,)))
    page.wait(wire.RunChanged, lambda item: item.run.frameworks == (torch,))


def test_how_the_loss_ended_is_reported_of_the_run(program: Program, page: Page) -> None:
    node = program.define()
    for step, value in enumerate((0.5, np.nan, np.nan), 1):
        program.step(step)
        program.execute(node, np.array(value), step=step)
        loss = events.Loss(1, value, node=node.id)
        ended = events.StepFinished(step, next(program.clock), losses=(loss,))
        program.recorder.emit(ended)
    program.end()
    assert state(page, "finished").broken_loss == protocol.BrokenLoss("nan", 2)

    async def opened() -> protocol.RunInfo:
        runs = Runs()
        info = (await runs.open(Path(program.run.recording))).info
        await runs.close()
        return info

    assert asyncio.run(opened()).broken_loss == protocol.BrokenLoss("nan", 2)


def test_the_welcome_names_the_version(new_program: NewProgram) -> None:
    program = new_program(connected=False)
    assert program.connect() == messages.Welcome(__version__)


def test_another_protocol_is_refused_with_both_versions(new_program: NewProgram) -> None:
    program = new_program(connected=False)
    answer = program.connect(protocol_version=99)
    assert isinstance(answer, messages.Refused)
    assert "protocol 99 (nodescope 0.0.1)" in answer.reason
    assert f"protocol {protocol.PROTOCOL_VERSION} (nodescope {__version__})" in answer.reason


def test_an_end_is_reported_with_everything_before_it(program: Program, page: Page) -> None:
    page.subscribe(program.run.id)
    node = program.define()
    program.execute(node)
    program.end(3, "ValueError: no")  # No Committed message comes before the end.
    ended = page.wait(wire.RunChanged, lambda item: item.run.state == "finished")
    assert (ended.run.status, ended.run.error) == (3, "ValueError: no")
    assert page.ask(wire.GetState(program.run.id, 10**6)).executions.count == 1
    answer = page.ask(wire.Control(program.run.id, protocol.Continue()))
    assert isinstance(answer, wire.Failed)
    assert "not connected" in answer.message


class Leaving:
    """A socket whose program has said goodbye and left: the next send fails."""

    client_state = application_state = WebSocketState.CONNECTED

    def __init__(self, run: protocol.RunInfo) -> None:
        self._first = [messages.Hello(protocol.PROTOCOL_VERSION, "0", run)]
        self._last = [messages.Goodbye(3, "ValueError: no")]
        self._failed = asyncio.Event()

    async def accept(self) -> None:
        pass

    async def receive(self) -> dict[str, object]:
        if not self._first:
            await self._failed.wait()
        failure = self._first or self._last
        if not failure:
            return {"type": "websocket.disconnect"}
        return {"type": "websocket.receive", "bytes": msgspec.msgpack.encode(failure.pop())}

    async def send_bytes(self, data: bytes) -> None:
        if isinstance(msgspec.msgpack.decode(data, type=messages.FromServer), messages.Controllers):
            self._failed.set()
            raise RuntimeError("the peer is gone")

    async def close(self, code: int, reason: str) -> None:
        pass


def test_the_last_messages_of_a_program_that_reads_nothing_arrive() -> None:
    async def ended() -> protocol.RunInfo:
        runs = Runs()
        socket: Any = Leaving(protocol.RunInfo("a" * 16, "script.py"))
        await Link(runs, lost_after_s=0.0)(socket)
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
        return runs.get("a" * 16).info

    info = asyncio.run(ended())
    assert (info.state, info.status, info.error) == ("finished", 3, "ValueError: no")


def test_a_lost_program_is_lost_after_a_moment_and_may_come_back(
    program: Program, page: Page
) -> None:
    page.subscribe(program.run.id)
    program.drop()
    page.wait(wire.RunChanged, lambda item: item.run.state == "lost")
    node = program.define()
    program.execute(node)  # Recorded without a connection.
    assert isinstance(program.connect(), messages.Welcome)
    assert program.until(messages.Controllers).count == 1
    page.wait(wire.RunChanged, lambda item: item.run.state == "live")
    program.execute(node)
    seq = program.commit()
    page.records_until(seq)
    state_now = page.ask(wire.GetState(program.run.id, seq))
    assert numbers_in(state_now.executions.times, 1) == [2]


def test_a_command_for_a_program_that_goes_away_fails(program: Program, page: Page) -> None:
    page.subscribe(program.run.id)
    body = wire.Control(program.run.id, protocol.Pause())
    page.socket.send(msgspec.msgpack.encode(wire.Request(500, body)))
    program.until(messages.Do)
    program.drop()
    answer = page.wait(wire.Response, lambda item: item.id == 500)
    assert isinstance(answer.body, wire.Failed)
    assert "no longer connected" in answer.body.message


@pytest.mark.parametrize("token", ["", "Bearer wrong", "Bearer " + BEARER + "x"])
def test_a_wrong_token_is_refused(live: Live, token: str) -> None:
    with pytest.raises(InvalidStatus) as caught:
        live.socket("/link", {"Authorization": token} if token else {})
    assert caught.value.response.status_code == 401


def test_an_origin_is_refused(live: Live) -> None:
    headers = {"Authorization": f"Bearer {BEARER}", "Origin": live.base}
    with pytest.raises(InvalidStatus) as caught:
        live.socket("/link", headers)
    assert caught.value.response.status_code == 403


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xc1",
        b"\x80",
        msgspec.msgpack.encode({"type": "hello"}),
        msgspec.msgpack.encode(messages.Committed(3)),
        msgspec.msgpack.encode(messages.Hello(1, "", protocol.RunInfo("../../x", "x"))),
        msgspec.msgpack.encode({"type": "hello", "protocol": "one"}),
        b"\x91" * 100_000,
    ],
)
def test_an_invalid_hello_is_refused_with_a_reason(live: Live, first: bytes) -> None:
    socket = live.socket("/link", {"Authorization": f"Bearer {BEARER}"})
    socket.send(first)
    answer = msgspec.msgpack.decode(socket.recv(10), type=messages.FromServer)
    assert isinstance(answer, messages.Refused)
    assert answer.reason
    with pytest.raises(ConnectionClosed):
        socket.recv(10)
    assert live.get("/api/runs").json() == {"runs": []}


def test_nonsense_later_ends_only_this_program(new_program: NewProgram, page: Page) -> None:
    good, bad = new_program(1), new_program(2)
    page.subscribe(good.run.id)
    assert bad.socket is not None
    bad.socket.send(b"\xc1")
    with pytest.raises(ConnectionClosed) as caught:
        bad.until(messages.Goodbye)  # Never arrives: read to the end.
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1007
    state(page, "lost")
    good.execute(good.define())
    assert page.records_until(good.commit())


def test_unrequested_answers_are_ignored(program: Program, page: Page) -> None:
    page.subscribe(program.run.id)
    program.send(messages.CommandTaken(12345))
    program.send(messages.LiveValue(12345, False))
    program.execute(program.define())
    assert page.records_until(program.commit())


def test_an_older_session_does_not_replace_a_newer(program: Program, page: Page) -> None:
    page.subscribe(program.run.id)
    program.update(protocol.SessionInfo("running", 5))
    program.update(protocol.SessionInfo("stopped", 4))
    program.update(protocol.SessionInfo("detached", 6))
    seen = [page.wait(wire.SessionChanged).info.version]
    while seen[-1] != 6:
        seen.append(page.wait(wire.SessionChanged).info.version)
    assert 4 not in seen
