"""``nodescope run`` with real processes: it ends as plain Python would, with clear errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from nodescope.cli.server_process import _END_S
from nodescope.debug.report import advice
from nodescope.protocol import CONTROLLER_GRACE_S
from nodescope.record.recording import Recording
from nodescope_server import wire
from tests.integration.processes import (
    RUN,
    SOON_S,
    TIMEOUT_S,
    TRAIN,
    UNSTOPPED,
    WATCH,
    Program,
    entered,
    environment,
    nodescope,
    one_line,
    run_id,
)
from tests.server.support import Page

ROOT = Path(__file__).resolve().parents[3]


def test_runs_a_script_as_python_would(tmp_path):
    done = nodescope(
        tmp_path, *UNSTOPPED, "script.py", "--port", "x", "--", "-v",
        text=TRAIN + (
            "import sys, os, __main__\n"
            "print(sys.argv, __name__, os.path.basename(__file__), sys.path[0] == os.getcwd())\n"
            "assert __main__.w is w\n"
            "sys.stderr.write('to stderr\\n')\n"
        ),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "trained 9.0"
    assert lines[1] == "['script.py', '--port', 'x', '--', '-v'] __main__ script.py True"
    assert "to stderr" in done.stderr
    assert "nodescope: recorded in " in done.stderr
    assert len(list((tmp_path / ".nodescope" / "runs").glob("script-*.nscope"))) == 1


def test_missing_script(tmp_path):
    (tmp_path / "train.py").write_text("")
    done = nodescope(tmp_path, *UNSTOPPED, "trian.py")
    assert done.returncode == 2
    assert "no script 'trian.py'; there are train.py" in one_line(done)


def test_script_is_a_folder(tmp_path):
    done = nodescope(tmp_path, *UNSTOPPED, ".")
    assert done.returncode == 2
    assert "cannot read '.'" in one_line(done)


def test_syntax_error_looks_as_python_shows_it(tmp_path):
    done = nodescope(tmp_path, *UNSTOPPED, "script.py", text="x = 1\ny = (2\n")
    plain = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == plain.returncode == 1
    shown = done.stderr.splitlines()
    assert shown[-1] == plain.stderr.splitlines()[-1] == "SyntaxError: '(' was never closed"
    assert shown[0].endswith('script.py", line 2')
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("code", "status", "last"),
    [
        ("def f():\n    raise ValueError('no')\nf()", 1, "ValueError: no"),
        ("raise SystemExit", 0, None),
        ("import sys; sys.exit(7)", 7, None),
        ("import sys; sys.exit('bye')", 1, "bye"),
        ("import sys; sys.exit(-1)", 255, None),
        ("import numpy as np, nodescope as ns\n"
         "np.ones((2, 3)) @ ns.tensor(np.ones((2, 3)))", 1, None),
        ("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e",
         1, "KeyError: 'k'"),
        ("import sys\nsys.excepthook = lambda kind, error, trace: print('mine', error, "
         "trace.tb_lineno, file=sys.stderr)\nraise ValueError('x')", 1, "mine x 3"),
    ],
)  # fmt: skip
def test_endings(tmp_path, code, status, last):
    done = nodescope(tmp_path, *UNSTOPPED, "script.py", text=code + "\n")
    assert done.returncode == status, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("nodescope: ")]
    if last is not None:
        assert lines[-1] == last
    assert os.path.join("core", "nodescope") not in done.stderr
    if status == 1 and last != "bye" and last != "mine x 3":
        assert lines[0] == "Traceback (most recent call last):"
        assert 'script.py", line' in lines[1]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("opp:log", "no breakpoint kind named 'opp'; did you mean 'op'?"),
        ("op:", "a breakpoint of kind op needs a name"),
        ("op:log if __import__('os')", "unknown function '__import__'"),
        ("op:log if vlaue > 1", "did you mean 'value'? (column 11)"),
        ("op:log if 9**9**9", "too large"),
    ],
)
def test_senseless_breakpoints_are_refused_before_anything_runs(tmp_path, spec, message):
    done = nodescope(tmp_path, *UNSTOPPED, "--break", spec, "script.py", text="print('ran')\n")
    assert done.returncode == 2
    assert message in one_line(done)
    assert not (tmp_path / ".nodescope").exists()


def test_unknown_node_says_so_suggests_and_stays_armed(tmp_path):
    done = nodescope(tmp_path, *UNSTOPPED, "--break", "node:loss/maen", "script.py", text=TRAIN)
    assert done.returncode == 0, done.stderr
    assert "trained 9.0" in done.stdout
    lines = [line for line in done.stderr.splitlines() if "loss/maen" in line]
    assert len(lines) == 1
    assert "did you mean 'loss/mean'" in lines[0]
    assert "it stays armed" in lines[0]


def test_unwritable_recording_path_is_refused_and_nothing_runs(tmp_path):
    (tmp_path / "file").write_text("")
    done = nodescope(
        tmp_path, *UNSTOPPED, "--record", "file/run.nscope", "script.py", text="print('ran')\n"
    )
    assert done.returncode == 2
    assert "file/run.nscope" in one_line(done)


def test_unwritable_default_falls_back(tmp_path):
    (tmp_path / ".nodescope").write_text("in the way")
    done = nodescope(tmp_path, *UNSTOPPED, "script.py", text="print('ran')\n")
    assert done.returncode == 0
    assert done.stdout == "ran\n"
    lines = [line for line in done.stderr.splitlines() if "cannot be written" in line]
    assert len(lines) == 1
    assert "recording to" in lines[0]


@pytest.mark.parametrize("args", [("--level", "all"), ("--budget", "much"), ("--port", "99999")])
def test_bad_options(tmp_path, args):
    done = nodescope(tmp_path, "run", *args, "script.py", text="print('ran')\n")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    started: list[Program] = []
    yield started
    for item in started:
        if item.process.poll() is None:
            item.process.kill()
            item.end()


def test_ctrl_c_while_stopped_ends_the_program(tmp_path, programs):
    (tmp_path / "script.py").write_text(WATCH + TRAIN)
    program = Program(tmp_path, *RUN, "script.py")
    programs.append(program)
    program.expect("held")
    start = time.monotonic()
    program.process.send_signal(signal.SIGINT)
    program.expect("KeyboardInterrupt")
    assert time.monotonic() - start < CONTROLLER_GRACE_S  # The end does not wait for a page.
    assert program.end() == 130
    text = "".join(program.lines)
    assert "trained" not in text
    assert os.path.join("core", "nodescope") not in text


BUSY = """
import numpy as np
import nodescope as ns
w = ns.parameter(np.ones(3), name="w")
for step in ns.steps(range(10**9)):
    np.tanh(w)
    if step == 20:
        print("busy", flush=True)
"""


def test_ctrl_c_while_running_is_seen_by_the_page_to_the_last_record(tmp_path, programs):
    (tmp_path / "script.py").write_text(BUSY)
    program = Program(tmp_path, "run", "--port", "0", "--no-browser", "--no-stop-on-entry",
                      "--level", "timing", "script.py")  # fmt: skip
    programs.append(program)
    page = Page(entered(program))
    run = run_id(page)
    page.subscribe(run)
    program.expect("busy")
    program.process.send_signal(signal.SIGINT)
    seqs = [0]

    def is_end(message: object) -> bool:
        if isinstance(message, wire.Records):
            seqs.append(message.seq)
        return isinstance(message, wire.RunChanged) and message.run.state == "finished"

    assert page.wait(object, is_end).run.error == "KeyboardInterrupt"
    with pytest.raises(ConnectionClosed) as closed:
        page.socket.recv(TIMEOUT_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012  # Tells the page not to wait for this server.
    assert program.end() == 130
    (path,) = (tmp_path / ".nodescope" / "runs").glob("*.nscope")
    with Recording.open(path) as recording:
        assert seqs[-1] == recording.last_seq()
    assert program.lines[-1] == (
        f"nodescope: recorded in {path}; 'nodescope open {path}' opens it again\n"
    )


@pytest.mark.parametrize(
    ("args", "text", "status"),
    [
        (UNSTOPPED, "print(1)", 0),
        (UNSTOPPED, "raise ValueError('no')", 1),
        (("run", "--cli", "-x", "-"), "print(1)", 0),
    ],
)
def test_the_recording_is_named_at_the_end_of_every_way(tmp_path, args, text, status):
    done = nodescope(tmp_path, *args, "script.py", text=text)
    assert done.returncode == status
    (path,) = (tmp_path / ".nodescope" / "runs").glob("*.nscope")
    assert f"recorded in {path}" in done.stderr


def test_a_server_that_is_stopped_does_not_delay_the_end(tmp_path, programs):
    (tmp_path / "script.py").write_text(WATCH + TRAIN)
    program = Program(tmp_path, *RUN, "script.py")
    programs.append(program)
    program.expect("held")
    os.kill(program.server_pid(), signal.SIGSTOP)
    start = time.monotonic()
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 130
    assert time.monotonic() - start < _END_S  # The limit for a server that is ending.


@pytest.mark.deep
def test_a_server_that_is_ended_lets_the_stopped_program_continue(tmp_path, programs):
    (tmp_path / "script.py").write_text(WATCH + TRAIN)
    program = Program(tmp_path, *RUN, "script.py")
    programs.append(program)
    program.expect("held")
    os.kill(program.server_pid(), signal.SIGTERM)
    start = time.monotonic()
    program.expect("trained 9.0")
    assert time.monotonic() - start < SOON_S
    assert program.end() == 0


def test_the_page_stays_until_ctrl_c_and_the_status_is_the_programs(tmp_path, programs):
    (tmp_path / "script.py").write_text("raise SystemExit(3)\n")
    program = Program(tmp_path, "run", "--port", "0", "--no-browser", "script.py")
    programs.append(program)
    program.expect("ended with status 3. The page stays open; Ctrl-C ends nodescope.")
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 3


def test_version_help_and_unknown_commands(tmp_path):
    done = nodescope(tmp_path, "--version")
    assert done.returncode == 0
    assert done.stdout.startswith("nodescope 0.")
    assert "nodescope run train.py" in nodescope(tmp_path, "--help").stdout
    done = nodescope(tmp_path, "rnu", "x.py")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_missing_recordings(tmp_path):
    for command in (("open", "no.nscope"), ("export", "no.nscope", "-o", "x.svg")):
        done = nodescope(tmp_path, *command)
        assert done.returncode == 2
        assert "no recording 'no.nscope'" in one_line(done)


def test_anything_but_a_recording_is_refused_in_one_line(tmp_path):
    (tmp_path / "junk.nscope").write_text("junk")
    done = nodescope(tmp_path, "open", "--port", "0", "--no-browser", "junk.nscope")
    assert done.returncode == 2
    assert "is not a recording" in one_line(done)


def test_the_guides_are_printed(tmp_path):
    listed = nodescope(tmp_path, "docs")
    assert listed.stderr == ""
    names = [line.split()[0] for line in listed.stdout.splitlines() if line][:-1]
    assert names == sorted(path.stem for path in (ROOT / "docs").glob("*.md"))
    assert nodescope(tmp_path, *advice.SEE.split()[1:]).stdout == (
        ROOT / "docs" / "supported.md"
    ).read_text("utf-8")
    unknown = nodescope(tmp_path, "docs", "watch")
    assert unknown.returncode == 2
    assert "there is no guide 'watch'" in one_line(unknown)
    assert "watches" in one_line(unknown)


def test_doctor_names_what_there_is(tmp_path):
    done = nodescope(tmp_path, "doctor")
    assert done.stderr == ""
    for name in (
        "nodescope",
        "python",
        "numpy",
        "page",
        "dot",
        "chromium",
        "port 7711",
        "adapter nodescope",
    ):
        assert any(line.startswith(name) for line in done.stdout.splitlines())


def test_programs_attach_to_a_server_that_waits(tmp_path, programs, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    serving = Program(tmp_path, "serve", "--port", "0", "--no-browser")
    programs.append(serving)
    serving.expect("nodescope: open http://127.0.0.1:")
    code = "import nodescope as ns\nrun = ns.attach()\n" + TRAIN + "print(run._link.connected)\n"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True,
        text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["trained 9.0", "True"]
    assert done.stderr == ""
    assert len(list((tmp_path / ".nodescope" / "runs").glob("*.nscope"))) == 1
    serving.process.send_signal(signal.SIGINT)
    assert serving.end() == 0
    assert not (tmp_path / "nodescope" / "server.json").exists()


def test_worker_processes_of_a_script_work(tmp_path):
    done = nodescope(
        tmp_path, *UNSTOPPED, "script.py",
        text="import multiprocessing as mp\nimport numpy as np\nimport nodescope as ns\n"
        "def work(x):\n    return float(np.exp(ns.tensor(x)).numpy())\n"
        "if __name__ == '__main__':\n"
        "    for kind in ('fork', 'spawn'):\n"
        "        with mp.get_context(kind).Pool(1) as pool:\n"
        "            print(kind, pool.map(work, [0.0]))\n",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "fork [1.0]\nspawn [1.0]\n"


def test_what_is_printed_is_in_the_recording(tmp_path):
    done = nodescope(
        tmp_path, *UNSTOPPED, "--record", "run.nscope", "script.py",
        text="import sys\nprint('one')\nprint('two', end='')\nprint('err', file=sys.stderr)\n"
        "raise SystemExit(3)\n",
    )  # fmt: skip
    assert done.returncode == 3
    recording = Recording.open(tmp_path / "run.nscope")
    logs = [(row.stream, row.text) for row in recording.logs()]
    info = recording.run()
    recording.close()
    assert [log for log in logs if log[0] == "stdout"] == [("stdout", "one"), ("stdout", "two")]
    assert ("stderr", "err") in logs
    assert info.status == 3
    assert info.name == "script.py"


def test_watches_are_set_and_end_the_run(tmp_path):
    done = nodescope(
        tmp_path, *UNSTOPPED, "--watch", "mean_gt(threshold=2) on scope:loss -> end",
        "--watch", "recommended", "script.py", text=TRAIN,
    )  # fmt: skip
    assert done.returncode == 3
    assert "watch 1, mean_gt: loss/matmul in step 1 (script.py:7)" in done.stderr
    done = nodescope(tmp_path, *UNSTOPPED, "--watch", "recommended", "script.py")
    assert done.returncode == 0
    assert "recommended watches set: operator_overflow, " in done.stderr


def test_a_watch_that_makes_no_sense(tmp_path):
    done = nodescope(tmp_path, *UNSTOPPED, "--watch", "nan on opp:log", "script.py", text=TRAIN)
    assert done.returncode == 2
    assert "no selection kind named 'opp'; did you mean 'op'? (column 8)" in one_line(done)
