"""Paths from outside to a pipe, a device or a huge file: nothing waits or uses much memory."""

from __future__ import annotations

import linecache
import os
import site
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from nodescope import processes
from nodescope.cli import script
from nodescope.cli.terminal_lines import FileLines
from nodescope.dap import attaching
from nodescope.debug.edits import syntax
from nodescope.debug.project_settings import ProjectSettings
from nodescope.engine.codegen.c_backend import remembered
from nodescope.engine.codegen.c_backend.cache import Cache
from nodescope.errors import EditError, NodescopeError
from nodescope.link import address
from nodescope.plain_files import is_plain, read_plain
from nodescope.record import recent
from nodescope.record.files import ownership
from nodescope.record.row_texts import recorded_source
from nodescope.source_files import source_line, source_lines, source_text

WAIT_S = 20.0


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)  # A sparse file uses no disk blocks.


TRAPS = [pipe, endless, huge]


def at_once(read: Callable[[], object]) -> object:
    """What a function returns or raises; it must not wait."""
    answers: list[object] = []

    def run() -> None:
        try:
            answers.append(read())
        except (NodescopeError, OSError) as error:
            answers.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert answers, "it waits"
    return answers[0]


@pytest.mark.parametrize("trap", TRAPS)
def test_no_reader_waits_or_reads_without_end(
    trap: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trapped(name: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        trap(path)
        return path

    monkeypatch.delenv("NODESCOPE_PROJECT", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    refused = at_once(lambda: read_plain(trapped("file"), 1000))
    assert isinstance(refused, OSError)
    assert "plain file" in str(refused) or "larger than" in str(refused)

    settings = ProjectSettings(trapped("p/.nodescope/breakpoints.json").parents[1] / "t.py")
    assert settings.path == tmp_path / "p/.nodescope/breakpoints.json"
    loaded = at_once(settings.load)
    assert isinstance(loaded, tuple)
    assert loaded[0] == ()
    assert "cannot be read: it is" in loaded[1][0]

    assert at_once(lambda: attaching._read(trapped("1.json"))) is None

    commands = at_once(lambda: FileLines(trapped("commands"), sys.stdout))
    assert isinstance(commands, NodescopeError)
    assert "cannot read the commands" in commands.message

    edit = at_once(lambda: syntax._file(str(trapped("value.npy"))))
    assert isinstance(edit, EditError)

    source = str(trapped("model.py"))
    for reader in (source_text, recorded_source):
        assert at_once(lambda reader=reader: reader(source)) == ""  # type: ignore[misc]
    assert at_once(lambda: source_lines(source)) == []
    assert at_once(lambda: source_line(source, 1)) == ""

    trapped("runtime/nodescope/server.json")
    assert isinstance(at_once(address.find), NodescopeError)

    trapped(f"state/nodescope/{recent.place().name}")
    assert recent.place().parent == tmp_path / "state" / "nodescope"
    if trap is not huge:
        assert at_once(recent.recent) == ()
        at_once(lambda: recent.remember(tmp_path / "r.nscope"))

    recording = tmp_path / "r.nscope"
    recording.write_bytes(b"")
    ownership.remember(recording)
    (entry,) = (tmp_path / "state" / "nodescope" / "made").iterdir()
    assert ownership.stamped(recording)
    entry.unlink()
    trap(entry)
    assert at_once(lambda: ownership.stamped(recording)) is False

    cache = Cache(tmp_path / "cache")
    trapped("cache/0.so")
    trapped("cache/0.sum")
    assert at_once(lambda: cache.find("0")) is None
    assert at_once(lambda: remembered._read(trapped("plan"))) is None

    program = at_once(lambda: script.load(trapped("train.py")))
    assert isinstance(program, NodescopeError)

    folder = tmp_path / "user"
    (folder / "numpy").mkdir(parents=True)
    trapped("user/a.pth")
    (folder / "b.pth").write_text("numpy\n")
    monkeypatch.setattr(site, "USER_SITE", str(folder))
    monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
    assert at_once(processes._user_folders) == [str(folder), str(folder / "numpy")]


def test_a_file_that_is_replaced_by_a_pipe_meanwhile_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, plain = tmp_path / "pipe", tmp_path / "plain"
    plain.write_bytes(b"text")
    os.mkfifo(path)
    plain_stat, stat = os.stat(plain), os.stat
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", lambda at: plain_stat if at == path else stat(at))
        refused = at_once(lambda: read_plain(path, 1000))
    assert isinstance(refused, OSError)
    assert "it is not a plain file" in str(refused)


def test_plain_files_are_read_whole(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"x" * 1000)
    link.symlink_to(path)
    assert read_plain(path, 1000) == read_plain(link, 1000) == b"x" * 1000
    assert is_plain(link, 1000)
    assert not is_plain(link, 999)
    with pytest.raises(OSError, match="larger than"):
        read_plain(path, 999)
    with pytest.raises(OSError, match="plain"):
        read_plain(link, 1000, links=False)


def test_where_a_program_waits_is_believed_of_whole_plain_files_only(tmp_path: Path) -> None:
    place = attaching.AttachPoint(os.getpid(), 1, "token", "train.py")
    good, link, bad = (tmp_path / name for name in ("good.json", "link.json", "bad.json"))
    good.write_text(
        f'{{"pid": {place.pid}, "port": 1, "token": "token", "name": "train.py"}}'
    )  # fmt: skip
    assert attaching._read(good) == place
    link.symlink_to(good)
    assert attaching._read(link) is None
    for text in ("", "{", "[]", '{"pid": "x"}', good.read_text().replace(str(place.pid), "-1"),
                 good.read_text().replace(str(place.pid), str(1 << 62))):  # fmt: skip
        bad.write_text(text)
        assert attaching._read(bad) is None
        assert not bad.exists()
    assert good.exists()


def test_sources_are_what_python_reads(tmp_path: Path) -> None:
    path = tmp_path / "latin.py"
    path.write_bytes(b"# coding: latin-1\r\nname = '\xe9'\n")
    assert source_text(str(path)) == "# coding: latin-1\nname = 'é'\n"
    assert source_line(str(path), 2) == "name = 'é'\n"
    assert source_line(str(path), 3) == ""
    linecache.cache["<cell 1>"] = (2, None, ["a\n", "b\n"], "<cell 1>")
    try:
        assert source_text("<cell 1>") == "a\nb\n"
        assert source_line("<cell 1>", 2) == "b\n"
    finally:
        del linecache.cache["<cell 1>"]
