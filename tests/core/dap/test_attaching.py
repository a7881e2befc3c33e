"""Editors that attach to a running program, and detach from it."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodescope.dap.framing import Channel
from tests import forked
from tests.core.dap.editors import WAIT_S, Editor

FOREVER = """\
import os
import numpy as np
import nodescope as ns
x = ns.parameter(np.ones(2), name="x")
try:
    while not os.path.exists("stop"):
        with ns.name_scope("loop"):
            np.tanh(x)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise
print("ran on", flush=True)
"""


@contextmanager
def waiting(folder: Path, *options: str, program: str = FOREVER) -> Iterator[subprocess.Popen[str]]:
    """A program that lets editors in."""
    (folder / "script.py").write_text(program)
    process = forked.Popen(
        [sys.executable, "-m", "nodescope", "run", "--editor", *options, "script.py"],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "NODESCOPE_PROJECT": "none"},
    )  # fmt: skip
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert f"editors may attach to process {process.pid}" in line, line
        yield process
    finally:
        process.kill()
        process.communicate(timeout=WAIT_S)


def attach(editor: Editor, **more: object) -> None:
    editor.initialize()
    editor.ask("attach", cwd=str(editor.folder), **more)
    assert editor.event("process")["startMethod"] == "attach"
    editor.event("initialized")


def test_editors_come_and_go(tmp_path):
    with waiting(tmp_path) as process:
        with Editor(tmp_path) as editor:
            attach(editor)
            editor.configured()
            assert editor.event("stopped")["reason"] == "entry"
            editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "loop/tanh"}])
            editor.ask("continue", threadId=1)
            assert editor.event("stopped")["reason"] == "function breakpoint"
            assert editor.top()["name"].startswith("loop/tanh")
            editor.ask("disconnect")
        with Editor(tmp_path) as editor:
            attach(editor, processId=process.pid)
            editor.configured()
            editor.ask("pause", threadId=1)
            assert editor.event("stopped")["reason"] == "pause"
            assert editor.value("b", "repl") == "no breakpoints"
            editor.process.kill()  # The adapter is lost while the program is stopped.
            assert editor.closed.wait(WAIT_S)
        (tmp_path / "stop").touch()
        out, _ = process.communicate(timeout=WAIT_S)
        assert (process.returncode, out) == (0, "ran on\n")
        assert list((tmp_path / ".nodescope" / "attach").iterdir()) == []


def test_without_a_stop_the_program_runs_until_one_is_requested(tmp_path):
    with waiting(tmp_path, "--no-stop-on-entry") as process, Editor(tmp_path) as editor:
        attach(editor)
        editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "op:tanh"}])
        editor.configured()
        editor.event("stopped")
        editor.ask("terminate")
        editor.event("terminated")
        assert "exited" not in editor.happened()  # Only the program's parent knows its status.
        out, _ = process.communicate(timeout=WAIT_S)
        assert (process.returncode, out) == (130, "interrupted\n")


def test_an_exception_that_nothing_catches_stops(tmp_path):
    program = "import nodescope as ns\nns.tensor([1.0]) + 1\nraise OSError('no data')\n"
    with waiting(tmp_path, program=program) as process, Editor(tmp_path) as editor:
        attach(editor)
        editor.configured()
        assert editor.event("stopped")["reason"] == "entry"
        editor.ask("continue", threadId=1)
        stop = editor.event("stopped")
        assert stop["reason"] == "exception"
        info = editor.ask("exceptionInfo", threadId=stop["threadId"])
        assert info["exceptionId"] == "OSError"
        editor.ask("continue", threadId=stop["threadId"])
        _, error = process.communicate(timeout=WAIT_S)
        assert process.returncode == 1
        assert "OSError: no data" in error


def test_a_client_without_the_token_is_refused(tmp_path):
    with waiting(tmp_path):
        (file,) = (tmp_path / ".nodescope" / "attach").iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        place = json.loads(file.read_text())
        for arguments in ({"token": "0" * 32}, {}, None):
            with socket.create_connection(("127.0.0.1", place["port"]), WAIT_S) as connection:
                channel = Channel.of(connection)
                channel.send({"type": "request", "command": "attach", "arguments": arguments})
                assert channel.read() is None
        with Editor(tmp_path) as editor:
            attach(editor)
            editor.ask("disconnect", terminateDebuggee=True)


def test_attaching_to_a_missing_program_is_refused(tmp_path):
    with Editor(tmp_path) as editor:
        editor.initialize()
        refused = editor.refused("attach", cwd=str(tmp_path))
        assert "no program waits" in refused
        assert "nodescope run --editor" in refused
        place = tmp_path / ".nodescope" / "attach" / "1.json"
        place.parent.mkdir(parents=True)
        place.write_text("{}")
        assert "process 1 waits" in editor.refused("attach", cwd=str(tmp_path), processId=1)
        assert not place.exists()
        assert "Expected `int" in editor.refused("attach", processId="x")
        editor.ask("disconnect")
