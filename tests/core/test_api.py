"""The composition root, in this process: runs, record, attach, breakpoint."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nodescope as ns
from nodescope import api
from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.debug.project_settings import ProjectSettings
from nodescope.engine import dispatch_mode
from nodescope.errors import LinkError, RecordingError, UsageError
from nodescope.link import address
from nodescope.link.address import Address, find, place, publish, withdraw
from nodescope.protocol import Breakpoint, Continue, SessionInfo, SetBreakpoints
from nodescope.record.recording import Recording

TIMEOUT_S = 60.0


def test_record_writes_a_recording(tmp_path):
    path = tmp_path / "run.nscope"
    with ns.record(path, level="summary") as run:
        with ns.name_scope("loss"):
            result = np.exp(ns.tensor(np.zeros(3)))
        assert run.info.recording == str(path)
    assert dispatch_mode.observer() is None
    assert result.numpy().tolist() == [1.0, 1.0, 1.0]
    assert path.stat().st_size > 0


def test_record_says_how_the_block_ended(tmp_path):
    with pytest.raises(ValueError, match="no"), ns.record(tmp_path / "run.nscope"):
        raise ValueError("no")
    assert dispatch_mode.observer() is None


def test_record_refuses_what_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordingError), ns.record(tmp_path / "file" / "run.nscope"):
        pass
    with pytest.raises(UsageError, match="unknown capture level 'all'"):
        api.Run(tmp_path / "run.nscope", level="all")


def test_record_inside_a_run_changes_nothing(tmp_path, capfd):
    with ns.record(tmp_path / "outer.nscope") as outer, ns.record(tmp_path / "in.nscope") as inner:
        assert inner is outer
        assert api.attach() is outer
    assert not (tmp_path / "in.nscope").exists()
    assert "is already recorded" in capfd.readouterr().err


def test_attach_without_a_server_continues(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert ns.attach() is None
    assert "not attached: no nodescope server found" in capfd.readouterr().err
    publish(Address("ws://127.0.0.1:1/link", "secret"))
    assert ns.attach() is None
    error_output = capfd.readouterr().err
    assert "not attached: no nodescope server responds at ws://127.0.0.1:1/link" in error_output
    assert "secret" not in error_output
    assert dispatch_mode.observer() is None
    assert list((tmp_path / ".nodescope" / "runs").iterdir()) == []


def test_addresses_are_private_and_withdrawn(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    first, second = Address("ws://127.0.0.1:1/link", "a"), Address("ws://127.0.0.1:2/link", "b")
    publish(first)
    assert place().stat().st_mode & 0o777 == 0o600
    assert find() == first
    with pytest.raises(LinkError, match="no token for"):
        find(second.link)
    monkeypatch.setenv(address.TOKEN_VARIABLE, "b")
    assert find(second.link) == second
    withdraw(second)
    assert place().exists()
    withdraw(first)
    assert not place().exists()


class Debugged:
    """A run with a debugger and a pretended page, whose stops a thread can wait for."""

    def __init__(self, path, **options):
        self.said: list[str] = []
        self.run = api.Run(path, debugger=True, say=self.said.append, **options)
        self._news = threading.Condition()
        self._info = SessionInfo()
        self.run.gate._on_change = self._hear
        self.run.gate.controllers(1)

    def _hear(self, info):
        with self._news:
            self._info = info
            self._news.notify_all()

    def stopped(self):
        with self._news:
            assert self._news.wait_for(lambda: self._info.stop is not None, TIMEOUT_S)
            return self._info.stop

    def work(self, function):
        thread = threading.Thread(target=function, daemon=True)
        self.run.start()
        thread.start()
        return thread

    def end(self, thread):
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
        self.run.finish()


def test_a_stop_is_in_the_recording_before_it_is_announced(tmp_path):
    path = tmp_path / "run.nscope"
    debugged = Debugged(path, breakpoints=(Breakpoint("op", "exp"),))
    thread = debugged.work(lambda: np.exp(ns.tensor(np.zeros(3))))
    try:
        stop = debugged.stopped()
        assert stop.node_name == "exp"
        assert stop.stack[0].code.startswith("thread = debugged.work(lambda")
        recording = Recording.open(path)
        assert recording.last_seq() >= stop.seq > 0
        recording.close()
    finally:
        debugged.run.gate.command(Continue())
        debugged.end(thread)


def test_breakpoint_in_the_program_stops_at_the_next_node(tmp_path):
    debugged = Debugged(tmp_path / "run.nscope")

    def program():
        x = np.exp(ns.tensor(np.zeros(3)))
        ns.breakpoint(when="value.max() > 3", on=x)
        for _ in range(3):
            ns.breakpoint(when="no such thing", on=x)
        x = np.sqrt(x)
        ns.breakpoint(when="(value == 1).all()", on=x)
        np.negative(x)

    thread = debugged.work(program)
    try:
        stop = debugged.stopped()
        assert stop.node_name == "negative"
        assert stop.reason == "pause"
        assert "ns.breakpoint at test_api.py:" in stop.text
        assert "(value == 1).all()" in stop.text
    finally:
        debugged.run.gate.command(Continue())
        debugged.end(thread)
    assert sum("not an expression" in text for text in debugged.said) == 1


def test_breakpoint_without_a_debugger_does_nothing():
    ns.breakpoint()
    ns.breakpoint(when="this is no condition", on=np.zeros(2))


def test_a_forked_child_is_inert(tmp_path):
    with ns.record(tmp_path / "run.nscope"):
        np.exp(ns.tensor(np.zeros(3)))
        child = os.fork()
        if child == 0:
            try:
                np.exp(ns.tensor(np.zeros(3)))
                os._exit(0 if dispatch_mode.observer() is None else 1)
            finally:
                os._exit(2)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_recordings_of_the_same_second_have_names_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: list[str] = []
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: api.recording_path("train", names.append), range(24)))
    assert len(set(paths)) == 24
    assert not names
    with ns.record(paths[0]):
        ns.tensor([1.0])
    with Recording.open(paths[0]) as recording:
        assert recording.nodes()


def test_breakpoints_are_kept_with_the_project(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("NODESCOPE_PROJECT")
    script, breakpoint_ = tmp_path / "train.py", parse_breakpoint("op:exp")
    for expected in (("loss",), ("loss", "op:exp")):
        run = api.Run(tmp_path / "a.nscope", debugger=True, saved=ProjectSettings(script))
        run.command(SetBreakpoints(tuple(map(parse_breakpoint, expected))))
        run.finish(0, "")
    run = api.Run(
        tmp_path / "b.nscope",
        debugger=True,
        saved=ProjectSettings(script),
        breakpoints=(breakpoint_,),
    )
    assert [item.breakpoint.target for item in run.gate.info.breakpoints] == ["loss", "exp"]
    run.finish(0, "")
