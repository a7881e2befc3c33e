"""A browser receives exactly what was recorded, in order, however it connects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from nodescope import events, protocol
from nodescope.ir.graph import Node
from nodescope.link import messages
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope_server import wire
from nodescope_server.runs.runs import encode
from nodescope_server.sockets import browser
from nodescope_server.wire import convert
from tests.server.support import (
    WAIT_S,
    Live,
    Page,
    Program,
    nodes_in,
    numbers_in,
    seqs,
    serving,
    values_in,
)

NewPage = Callable[[], Page]
NewProgram = Callable[..., Program]


def test_a_snapshot_and_then_records(program: Program, page: Page) -> None:
    first = program.define("exp")
    program.execute(first)
    program.log("hello")
    seq = program.commit()
    shot = page.subscribe(program.run.id)
    while shot.seq < seq:  # The subscription may precede the commit.
        page.records_until(seq)
        shot = page.subscribe(program.run.id)
    defined = nodes_in(shot.nodes)
    assert [node for _, node in defined] == [first]
    values = values_in(shot.values, [first])
    assert [(value.value.name, value.producer) for value in values] == [(first.name, first.id)]
    assert [log.text for log in shot.logs] == ["hello"]
    assert numbers_in(shot.executions.node, 1) == [first.id]
    assert numbers_in(shot.executions.times, 1) == [1]
    assert shot.run.state == "live"

    second = program.define("log")
    program.step(1)
    for _ in range(3):
        program.execute(second, step=1)
    program.log("more")
    seq = program.commit()
    batches = page.records_until(seq)
    assert [n.name for batch in batches for n in batch.nodes] == [second.name]
    met = [*(seq for seq, _ in defined), *(seq for batch in batches for seq in batch.node_seqs)]
    assert len(met) == 2
    assert 0 < met[0] <= shot.seq < met[1] <= seq
    assert [row.text for batch in batches for row in batch.logs] == ["more"]
    assert [row.step for batch in batches for row in batch.steps] == [1]
    assert sum(batch.executions.count for batch in batches) == 3
    assert sum(batch.skipped for batch in batches) == 0
    assert batches[-1].executions.times == b""


def test_kept_values_are_not_counted_as_events(new_program: NewProgram, tmp_path: Path) -> None:
    """A page that shows a node has its values kept; a reload counts the same events as before."""
    program = new_program(connected=False)
    program.recorder.close()
    program.recorder = recorder = Recorder(tmp_path / "kept.nscope", level="summary", newest=True)
    recorder.emit(events.RunStarted(program.run.id, "t.py", (), 1, 1))
    node = program.define()
    program.execute(node)
    ran = recorder.last_seq
    recorder.keep_whole(everything=False, nodes=frozenset({node.id}))
    until = program.commit()
    assert until > ran
    with Recording.open(tmp_path / "kept.nscope") as recording:
        snapshot = convert.snapshot(recording, program.run, None, until)
        later = convert.records(recording, program.run.id, ran, until)
    assert (snapshot.seq, snapshot.last_event) == (until, ran)
    assert (later.seq, later.last_event, later.keeping is None) == (until, 0, False)


def test_reconnecting_is_replaying(program: Program, page: Page, new_page: NewPage) -> None:
    """Over many commits and reconnections, every execution arrives exactly once, in order."""
    node = program.define()
    seq = program.commit()
    seen: list[int] = []
    shot = page.subscribe(program.run.id)
    at = shot.seq
    for turn in range(12):
        for _ in range(turn % 5 + 1):
            program.execute(node)
        seq = program.commit()
        for batch in page.records_until(seq):
            assert batch.skipped == 0
            seen += seqs(batch.executions)
        at = seq
        page.close()
        program.execute(node)  # The page misses this execution.
        seq = program.commit()
        page = new_page()
        assert page.ask(wire.Subscribe(program.run.id, at)) == wire.Done()
        for batch in page.records_until(seq):
            seen += seqs(batch.executions)
    recorded = [item.seq for item in program.read(lambda item: item.executions(0, None))]
    assert seen == recorded
    assert not any(isinstance(push, wire.Snapshot) for push in page.pushes)


@pytest.mark.parametrize("seq", [0, 10**9])
def test_a_seq_that_cannot_be_replayed_gives_a_snapshot(
    program: Program, page: Page, seq: int
) -> None:
    program.execute(program.define())
    program.commit()
    assert page.subscribe(program.run.id, seq).run.id == program.run.id


def test_a_far_seq_gives_a_snapshot(
    program: Program, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "MAX_REPLAY", 5)
    node = program.define()
    for _ in range(10):
        program.execute(node)
    last = program.commit()
    page.subscribe(program.run.id)
    if page.ask(wire.GetState(program.run.id, last)).executions.count:
        shot = page.subscribe(program.run.id, 1)
        assert shot.executions.count == 1


def test_the_session_comes_after_the_records_that_it_refers_to(
    program: Program, page: Page
) -> None:
    node = program.define()
    page.subscribe(program.run.id)
    for _ in range(20):
        program.execute(node)
        seq = program.commit()
        info = program.stop_at(node, seq)
        reached = 0
        while True:
            message = page.wait(wire.Records | wire.SessionChanged)  # type: ignore[arg-type]
            if isinstance(message, wire.Records):
                reached = message.seq
            elif message.info.version == info.version:
                break
        assert reached >= seq or message.info.stop.seq <= reached


@pytest.mark.parametrize("alone_s", [0.0, 1e6])
def test_a_program_that_goes_on_is_left_alone_for_a_moment(
    program: Program, page: Page, monkeypatch: pytest.MonkeyPatch, alone_s: float
) -> None:
    monkeypatch.setattr(browser, "ALONE_S", alone_s)
    node = program.define()
    page.subscribe(program.run.id)
    program.execute(node)
    seq = program.commit()
    first = program.stop_at(node, seq)
    page.wait(wire.SessionChanged, lambda message: message.info.version == first.version)
    program.go_on()
    if not alone_s:
        page.wait(wire.SessionChanged, lambda message: message.info.phase == "running")
        return
    for _ in range(5):
        program.execute(node)
        seq = program.commit()
        page.ask(wire.GetState(program.run.id, seq))  # The page gets answers meanwhile.
    second = program.stop_at(node, seq)
    (records,) = page.records_until(seq)
    assert records.executions.count == 5
    assert page.wait(wire.SessionChanged).info.version == second.version


def test_commands_go_to_the_program_and_its_answer_comes_back(
    program: Program, new_page: NewPage
) -> None:
    page = new_page()
    page.subscribe(program.run.id)
    number = 77
    body = wire.Control(program.run.id, protocol.RunTo("loss"))
    page.socket.send(msgspec.msgpack.encode(wire.Request(number, body)))
    do = program.until(messages.Do)
    assert do.command == protocol.RunTo("loss")
    program.send(messages.CommandTaken(do.request, "no node 'loss'", "did you mean los?"))
    answer = page.wait(wire.Response)
    assert answer == wire.Response(number, wire.Failed("no node 'loss'", "did you mean los?"))


def test_the_program_knows_how_many_browsers_follow(program: Program, new_page: NewPage) -> None:
    def count() -> int:
        return program.until(messages.Controllers).count

    assert count() == 0
    first, second = new_page(), new_page()
    first.subscribe(program.run.id)
    assert count() == 1
    first.subscribe(program.run.id)  # Subscribing again does not count twice.
    second.subscribe(program.run.id)
    counts = [count()]
    while counts[-1] != 2:
        counts.append(count())
    second.close()
    while counts[-1] != 1:
        counts.append(count())
    assert first.ask(wire.Unsubscribe(program.run.id)) == wire.Done()
    while counts[-1] != 0:
        counts.append(count())
    assert max(counts) == 2


def test_two_runs_and_two_browsers_do_not_mix(new_program: NewProgram, new_page: NewPage) -> None:
    first, two = new_program(1), new_program(2)
    pages = [new_page(), new_page()]
    for page, run in zip(pages, (first, two), strict=True):
        page.subscribe(run.run.id)
    for run, op in ((first, "exp"), (two, "log")):
        run.execute(run.define(op))
        run.commit()
    for page, run, op in zip(pages, (first, two), ("exp", "log"), strict=True):
        batch = page.wait(wire.Records, lambda message: bool(message.nodes))
        assert batch.run == run.run.id
        assert {node.op for node in batch.nodes} == {op}
        other = two if run is first else first
        assert not any(getattr(push, "run", "") == other.run.id for push in page.pushes)


def test_the_first_request_must_be_initialize_of_the_same_protocol(live: Live) -> None:
    page = Page(live, protocol_version=99)
    assert isinstance(page.hello, wire.Failed)
    assert "protocol 99" in page.hello.message
    assert f"protocol {protocol.PROTOCOL_VERSION}" in page.hello.message
    page.close()


def test_more_browsers_than_are_served_are_reported(
    live: Live, new_page: NewPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "MAX_BROWSERS", 2)
    new_page(), new_page()
    socket = live.socket("/api/stream", {**live.cookie, "Origin": live.base})
    with pytest.raises(Exception, match="close one"):
        socket.recv(5)
    socket.close()


@pytest.mark.parametrize(
    "body",
    [
        wire.Subscribe("0123456789abcdef"),
        wire.Subscribe("../../../etc/passwd"),
        wire.GetState("", 1),
        wire.GetValue("x" * 100_000, 1),
    ],
)
def test_an_unknown_run_is_reported_as_unknown(page: Page, body: wire.RequestBody) -> None:
    answer = page.ask(body)
    assert isinstance(answer, wire.Failed)
    assert answer.message.startswith("there is no run")
    assert len(answer.message) < 100


def test_a_browser_that_does_not_read_is_dropped_without_delaying_others(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lost_after_s=0.05, send_deadline_s=2.0) as live:
        program = Program(live, tmp_path)  # type: ignore[arg-type]
        program.connect()
        stalled = live.socket("/api/stream", {**live.cookie, "Origin": live.base}, max_queue=1)
        encode = msgspec.msgpack.encode
        stalled.send(encode(wire.Request(1, wire.Initialize("stalled", 1))))
        stalled.send(encode(wire.Request(2, wire.Subscribe(program.run.id))))
        program.until(messages.Controllers)
        while program.until(messages.Controllers).count != 1:
            pass
        good = Page(live)
        good.subscribe(program.run.id)
        node = program.define()
        seq = 0
        # The stalled browser has more to read than its socket's buffers hold.
        for _ in range(40):
            program.log("x" * 400_000)
            program.execute(node)
            seq = program.commit()
            assert good.records_until(seq)[-1].skipped == 0
        counts = 2
        while counts != 1:
            counts = program.until(messages.Controllers).count
        good.close()
        stalled.close()
        program.recorder.close()
        program.socket.close()  # type: ignore[union-attr]


def test_thinning_keeps_the_last_of_each_node_and_counts_the_rest() -> None:
    rows = [convert.Execution(seq, seq % 7, 0, 1, seq, 1, 0) for seq in range(1, 1001)]
    kept, skipped = convert.thin(rows, 100)
    assert len(kept) + skipped == 1000
    assert len(kept) <= 107
    assert [item.seq for item in kept] == sorted(item.seq for item in kept)
    assert {row.seq for row in rows[-7:]} <= {item.seq for item in kept}
    assert convert.thin(rows, 1000) == (rows, 0)


def test_columns_are_little_endian_and_hold_wide_numbers() -> None:
    row = convert.Execution(2**40, 3, 4, 2**47 + 5, 2**52, 7, 9)
    packed = convert.columns([row])
    assert seqs(packed) == [2**40]
    assert np.frombuffer(packed.thread, "u1").tolist() == [5]
    assert np.frombuffer(packed.start_ns, "<f8").tolist() == [2.0**52]
    assert np.frombuffer(packed.flags, "u1").tolist() == [9]
    assert packed.times == b""
    assert convert.columns([]).count == 0
    assert packed.worker == packed.lane == b""


def test_workers_and_lanes_are_reported_where_there_are_any() -> None:
    rows = [convert.Execution(seq, 3, 0, 1, 0, 1, 0, 0, lane) for seq, lane in ((1, 0), (2, 7))]
    packed = convert.columns(rows)
    assert numbers_in(packed.lane, 2) == [0, 7]
    assert packed.worker == b""


def attended(program: Program) -> int:
    """The next number of attending pages that the program is told."""
    return program.until(messages.Controllers).count


def answer(page: Page) -> None:
    """Answer a heartbeat, as a page with a responsive main thread does."""
    page.socket.send(msgspec.msgpack.encode(wire.Request(0, wire.Alive())))


def test_a_frozen_page_holds_no_program(
    live: Live, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection lives, and the browser sends pongs, but the page itself does not answer."""
    for name, seconds in (("BEAT_S", 0.05), ("SILENT_S", 0.3), ("GONE_S", 60.0)):
        monkeypatch.setattr(browser, name, seconds)
    assert attended(program) == 0
    page = Page(live, client="page")
    page.subscribe(program.run.id)
    assert attended(program) == 1
    page.wait(wire.Heartbeat)
    assert attended(program) == 0  # The page has not answered.
    answer(page)  # The page thaws.
    assert attended(program) == 1
    page.close()


def test_a_stop_is_held_by_a_page_that_shows_another_run(
    live: Live, new_program: NewProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That page is told which program waits; once all pages are gone, the program goes on."""
    monkeypatch.setattr(browser, "SILENT_S", WAIT_S)
    stopping, other = new_program(1), new_program(2)
    assert attended(stopping) == 0
    page = Page(live, client="page")
    page.subscribe(stopping.run.id)
    assert attended(stopping) == 1
    node = stopping.define()
    stopping.execute(node)
    stopping.stop_at(node, stopping.commit())
    page.wait(wire.SessionChanged)
    assert page.ask(wire.Unsubscribe(stopping.run.id)) == wire.Done()
    told = page.wait(wire.StoppedElsewhere)
    assert told.runs == (wire.StoppedRun(stopping.run.id, "train_1.py", node.name),)
    page.subscribe(other.run.id)

    # Another page comes and goes: if the first page did not count, the program would be told 0.
    second = Page(live, client="page")
    assert attended(stopping) == 2
    second.close()
    assert attended(stopping) == 1

    stopping.update(protocol.SessionInfo("running", stopping.version + 1))
    assert page.wait(wire.StoppedElsewhere).runs == ()
    assert attended(stopping) == 0  # Only pages that show a running program attend it.
    page.close()


def test_a_stop_that_no_page_has_seen_waits_for_its_own_page(
    live: Live, new_program: NewProgram
) -> None:
    stopping, other = new_program(1), new_program(2)
    page = Page(live, client="page")
    page.subscribe(other.run.id)
    node = stopping.define()
    stopping.execute(node)
    stopping.stop_at(node, stopping.commit())
    assert page.wait(wire.StoppedElsewhere).runs[0].run == stopping.run.id
    assert attended(stopping) == 0
    page.subscribe(stopping.run.id)
    assert attended(stopping) == 1
    assert page.wait(wire.StoppedElsewhere).runs == ()
    page.close()


def test_a_page_that_stays_frozen_gives_up_its_place(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("BEAT_S", 0.02), ("SILENT_S", 0.1), ("GONE_S", 0.2)):
        monkeypatch.setattr(browser, name, seconds)
    page = Page(live, client="page")
    with pytest.raises(ConnectionClosed):
        page.wait(wire.RunsChanged)  # Never arrives: only heartbeats do, and then the end.


def test_a_page_that_answers_stays(
    live: Live, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("BEAT_S", 0.02), ("SILENT_S", 5.0), ("GONE_S", 10.0)):
        monkeypatch.setattr(browser, name, seconds)
    page = Page(live, client="page")
    page.subscribe(program.run.id)
    for _ in range(20):
        page.wait(wire.Heartbeat)
        answer(page)
    page.close()


def test_a_connection_that_does_not_introduce_itself_is_dropped(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "HELLO_DEADLINE_S", 0.1)
    silent = live.socket("/api/stream", {**live.cookie, "Origin": live.base})
    with pytest.raises(ConnectionClosed) as closed:
        silent.recv(WAIT_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.reason == "no request received"


def test_no_key_of_a_message_is_a_prototype(program: Program, page: Page) -> None:
    """JavaScript's decoder refuses such a key, and the whole message with it."""
    node = program.define("exp")
    hostile = {"__proto__": {"__proto__": 1}, "constructor": "__proto__", "axis": 1}
    odd = msgspec.structs.replace(node, id=99, name="odd", attrs=hostile)
    program.recorder.emit(events.GraphExtended((odd,), ()))
    program.commit()
    assert page.subscribe(program.run.id).nodes.count
    seen = msgspec.msgpack.decode(encode(odd))
    assert seen["attrs"] == {
        "__proto__ ": {"__proto__ ": 1}, "constructor": "__proto__", "axis": 1,
    }  # fmt: skip
    assert msgspec.msgpack.decode(encode(odd), type=Node).name == "odd"
