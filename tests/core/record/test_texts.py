"""A program's texts: invalid Unicode is recorded, and no text controls a terminal."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest

import nodescope as ns
from nodescope import api
from nodescope.cli import main
from nodescope.cli.terminal import Terminal
from nodescope.console_output import path_of, printable, show, visible
from nodescope.events import Logged
from nodescope.protocol import RunInfo
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.wal_checkpoint import fold
from nodescope_server.runs.runs import Runs, encode
from tests.core.record.runs import chain, finished, recorded

BROKEN = "a\udc80\ud800b"
KEPT = r"a\udc80\ud800b"
STEERING = "\x1b]0;owned\x07\u202e\u2066\r\x9b2J"


def test_a_program_without_a_unicode_name_is_recorded(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/f\xff"))
    folder.mkdir()
    path = folder / f"r{os.fsdecode(bytes([0xFE]))}.nscope"
    with ns.record(path, level="values") as run:
        weight = ns.parameter(np.ones(2), name=f"w{BROKEN}")
        for _ in ns.steps(range(2)):
            with ns.name_scope(BROKEN):
                (weight * 2.0).sum()
        run.log("stdout", f"out {BROKEN}")
    assert not run.recorder.writer.fault
    with Recording.open(path) as recording:
        info = recording.run()
        assert encode(info)
        assert Path(path_of(info.recording)) == path
        names = [row.node.name for row in recording.nodes()]
        assert any(KEPT in name for name in names)
        assert any(KEPT in row.value.name for row in recording.values())
        assert recording.logs()[-1].text == f"out {KEPT}"
        assert recording.executions()
    with Recording.open(info.recording) as recording:  # The page and the link use this name.
        assert recording.last_seq() > 0
    assert fold(Path(info.recording))


def test_whatever_a_recorder_receives_is_written(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.nscope", level="values")
    graph = chain([BROKEN])
    node = msgspec.structs.replace(graph.nodes[0], attrs={BROKEN: [BROKEN, 1 << 70]}, op=BROKEN)
    recorder.emit(msgspec.structs.replace(graph, nodes=(node,)))
    recorder.emit(finished(node, np.ones(2)))
    recorder.emit(Logged("stdout", BROKEN, 0, 1))
    assert recorder.close(20.0)
    with Recording.open(tmp_path / "r.nscope") as recording:
        (row,) = recording.nodes()
        assert (row.node.op, row.node.attrs) == (KEPT, {KEPT: (KEPT, 1 << 70)})
        assert recording.logs()[0].text == KEPT


def test_the_server_opens_it(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/f\xff"))
    folder.mkdir()
    with ns.record(folder / "r.nscope"):
        np.tanh(ns.tensor([1.0]))

    async def opened() -> RunInfo:
        runs = Runs()
        run = await runs.open(folder / "r.nscope")
        assert await run.query.call(lambda recording: recording.last_seq()) > 0
        await runs.close()
        return msgspec.msgpack.decode(encode(run.info), type=RunInfo)

    info = asyncio.run(opened())
    assert info.recording == printable(str(folder / "r.nscope"))


def test_nothing_of_a_recording_steers_a_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.nscope"
    run = api.Run(path, name=STEERING, argv=(STEERING,), level="values")
    run.start()
    with np.errstate(all="ignore"):
        for _ in ns.steps(range(2)):
            with ns.name_scope(STEERING):
                np.log(ns.tensor([-1.0, 0.0]))
    run.finish(1, STEERING)
    other = tmp_path / f"{STEERING}.nscope"
    other.write_bytes(path.read_bytes()[:3000])
    monkeypatch.chdir(tmp_path)
    calls = [
        ["runs"],
        ["why", str(path)],
        ["why", str(path), "--step", "1", "log[nan]"],
        ["check", "--watch", "nan", str(path)],
        ["check", "--watch", f"nan on {STEERING}", str(path)],
        ["why", str(other)],
        ["export", str(other), "-o", str(tmp_path / "g.dot")],
        ["export", str(path), "-o", str(tmp_path / f"{STEERING}.dot")],
    ]
    for call in calls:
        main(call)
        said = capfd.readouterr()
        assert said.out or said.err
        for text in (said.out, said.err):
            assert all(char.isprintable() or char in "\n\t" for char in text), (call, text)


def test_what_a_terminal_shows_has_colours_and_nothing_else() -> None:
    out = io.StringIO()
    terminal = Terminal.__new__(Terminal)
    terminal._out, terminal._color = out, True
    terminal._say(terminal._paint(STEERING, "bold") + STEERING)
    said = out.getvalue()
    assert said == f"\x1b[1m{visible(STEERING)}\x1b[0m{visible(STEERING)}\n"


def test_a_list_of_recordings_has_a_line_for_each(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = recorded(tmp_path / "made.nscope").read_bytes()
    name = os.fsdecode(b"a\nb\tc\xff.nscope")
    (tmp_path / name).write_bytes(made)
    monkeypatch.chdir(tmp_path)
    assert main(["runs"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert sorted(line.split()[-1] for line in lines[1:]) == [
        r"a\nb\tc\udcff.nscope",
        "made.nscope",
    ]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_stream_that_has_few_characters(encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    show("×日本", stream)
    expected = "×日本\n".encode() if encoding == "utf-8" else b"x\\u65e5\\u672c\n"
    assert raw.getvalue() == expected


def test_characters_that_a_terminal_lacks_are_replaced(capsys) -> None:
    ascii_terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    show("about 1.62× slower (limit 2×) · w → b…", ascii_terminal)
    # Characters without a plain form are escaped, and only these.
    show("Größe 3×2", ascii_terminal)
    assert ascii_terminal.buffer.getvalue().decode() == (
        "about 1.62x slower (limit 2x) - w -> b...\nGr\\xf6\\xdfe 3x2\n"
    )
    show("1.62×")
    assert capsys.readouterr().out == "1.62×\n"
