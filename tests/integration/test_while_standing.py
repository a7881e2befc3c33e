"""Signals, forks, threads and exceptions while a program is stopped or stepped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nodescope.protocol import Breakpoint, Continue, Detach, SetBreakpoints, StepNode
from tests.integration.conftest import Open, Start
from tests.integration.processes import (
    RUN,
    TIMEOUT_S,
    Program,
    control,
    entered,
    environment,
    run_id,
    standing,
    stopped,
)
from tests.server.support import Page

HEAD = """
import os, signal, sys, threading
import numpy as np
import nodescope as ns
x = ns.tensor(np.ones(3))
"""


def begun(
    start: Start, new_page: Open, text: str, *more: str, head: tuple[str, ...] = RUN
) -> tuple[Program, Page, str]:
    """A program stopped before its first node, and its page."""
    program = start(*head, "--record", "run.nscope", *more, "script.py", text=HEAD + text)
    page = new_page(entered(program))
    run = run_id(page)
    standing(page, run)
    return program, page, run


def step(page: Page, run: str) -> str:
    control(page, run, StepNode())
    info = stopped(page, "step")
    assert info.stop is not None
    return info.stop.node_name


# ---------------------------------------------------------------- signals


@pytest.mark.parametrize("steps", [0, 2])
def test_ctrl_c_is_the_programs_own(start: Start, new_page: Open, steps: int) -> None:
    program, page, run = begun(
        start, new_page,
        "try:\n    for _ in range(9):\n        np.exp(x)\n"
        "except KeyboardInterrupt:\n    print('mine')\n    raise\nfinally:\n    print('finally')\n",
    )  # fmt: skip
    for _ in range(steps):
        step(page, run)
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 130
    output = "".join(program.lines)
    assert output.index("mine") < output.index("finally") < output.index("KeyboardInterrupt")
    assert "nodescope/debug" not in output


def test_a_program_that_catches_ctrl_c_stops_again(start: Start, new_page: Open) -> None:
    program, page, run = begun(
        start, new_page,
        "for k in range(3):\n    try:\n        np.exp(x)\n"
        "    except KeyboardInterrupt:\n        print('caught', k)\nnp.log(x)\nprint('end')\n",
    )  # fmt: skip
    control(page, run, SetBreakpoints((Breakpoint("op", "log"),)))
    program.process.send_signal(signal.SIGINT)
    info = stopped(page, "breakpoint")
    assert info.stop is not None
    assert info.stop.node_name == "log"
    control(page, run, Continue())
    assert program.end() == 0
    output = "".join(program.lines)
    assert "caught 0" in output
    assert "caught 1" not in output
    assert "end" in output


def test_a_signal_handler_computes_while_the_program_stands(start: Start, new_page: Open) -> None:
    program, page, run = begun(
        start, new_page,
        "def handler(*_):\n"
        "    with ns.name_scope('handler'):\n"
        "        print('handled', float(np.sum(ns.tensor(np.ones(2)) * 4.0).numpy()))\n"
        "signal.signal(signal.SIGUSR1, handler)\n"
        "y = np.exp(x)\nprint('sum', float(np.sum(np.sqrt(y)).numpy()))\n",
    )  # fmt: skip
    for _ in range(2):
        program.process.send_signal(signal.SIGUSR1)
        program.expect("handled 8.0")
        assert step(page, run) in ("exp", "sqrt")
        program.lines.clear()
    control(page, run, Detach())
    program.expect("sum 4.94")
    assert program.end() == 0


# ---------------------------------------------------------------- processes


def test_a_fork_while_the_program_stands_runs_on(start: Start, new_page: Open) -> None:
    program, page, run = begun(
        start, new_page,
        "def handler(*_):\n    global child\n    child = os.fork()\n"
        "signal.signal(signal.SIGUSR1, handler)\n"
        "np.exp(x)\n"
        "if child == 0:\n    print('child', float(np.sum(np.exp(x)).numpy()), flush=True)\n"
        "    os._exit(7)\n"
        "print('status', os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n",
    )  # fmt: skip
    program.process.send_signal(signal.SIGUSR1)
    # The child does not stop, because no controller can reach it.
    program.expect("child 8.15")
    control(page, run, Continue())
    program.expect("status 7")
    assert program.end() == 0


def test_a_child_that_runs_to_the_end_of_the_script_ends(start: Start, new_page: Open) -> None:
    program, page, run = begun(
        start, new_page,
        "np.exp(x)\nchild = os.fork()\nnp.log(x)\n"
        "if child:\n    print('child', os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n",
        head=("run", "--port", "0", "--no-browser"),
    )  # fmt: skip
    assert step(page, run) == "exp"
    assert step(page, run) == "log"
    control(page, run, Continue())
    program.expect("child 0")
    # The page outlives the child, which shares the parent's server.
    program.expect("The page stays open")
    assert len([line for line in program.lines if "The page stays open" in line]) == 1
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 0


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_while_stepping(start: Start, new_page: Open, method: str) -> None:
    program, page, run = begun(
        start, new_page,
        "import multiprocessing\n"
        "def work(k):\n    return float(np.sum(ns.tensor(np.ones(3)) * float(k)).numpy())\n"
        "if __name__ == '__main__':\n    np.exp(x)\n"
        f"    with multiprocessing.get_context('{method}').Pool(2) as pool:\n"
        "        print('found', pool.map(work, range(3)))\n    np.log(x)\n",
    )  # fmt: skip
    assert step(page, run) == "exp"
    control(page, run, StepNode())
    program.expect("found [0.0, 3.0, 6.0]")
    info = stopped(page, "step")
    assert info.stop is not None
    assert info.stop.node_name == "log"
    control(page, run, Continue())
    assert program.end() == 0


# ---------------------------------------------------------------- threads


def test_a_stop_that_holds_a_lock_ends_with_a_detach(start: Start, new_page: Open) -> None:
    program, page, run = begun(
        start, new_page,
        "lock = threading.Lock()\nwaits = threading.Event()\n"
        "def other():\n    waits.set()\n    with lock:\n        np.log(x)\n"
        "        print('other has it', flush=True)\n"
        "with lock:\n    thread = threading.Thread(target=other)\n    thread.start()\n"
        "    waits.wait()\n    np.exp(x)\n    print('main has had it', flush=True)\n"
        "thread.join()\nprint('end')\n",
    )  # fmt: skip
    assert step(page, run) == "exp"
    assert not any("other has it" in line for line in program.lines)
    control(page, run, Detach())
    assert program.end() == 0
    output = "".join(program.lines)
    assert output.index("main has had it") < output.index("other has it") < output.index("end")


# ---------------------------------------------------------------- exceptions


RAISES = """
def inner(y):
    return int("zwölf")
with ns.name_scope("net"):
    y = np.tanh(x)
try:
    inner(y)
finally:
    print("finally")
"""


def test_an_exception_of_the_program_stops_and_arrives_unchanged(
    tmp_path: Path, start: Start, new_page: Open
) -> None:
    program, page, run = begun(start, new_page, RAISES)
    control(page, run, Continue())
    stop = stopped(page, "exception").stop
    assert stop is not None
    assert stop.error == "ValueError: invalid literal for int() with base 10: 'zwölf'"
    assert (stop.node_name, stop.when) == ("net/tanh", "after")
    assert [(item.function, item.code) for item in stop.stack] == [
        ("inner", 'return int("zwölf")'),
        ("<module>", "inner(y)"),
    ]
    assert f"script.py:{stop.stack[0].line}" in stop.text
    control(page, run, Continue())
    assert program.end() == 1
    plain = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=environment(), capture_output=True,
        text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert plain.returncode == 1
    output = "".join(line for line in program.lines if not line.startswith("nodescope: "))
    assert sorted(output.splitlines()) == sorted((plain.stdout + plain.stderr).splitlines())


def test_ctrl_c_at_an_exception_lets_it_go_its_way(start: Start, new_page: Open) -> None:
    program, page, run = begun(start, new_page, RAISES)
    control(page, run, Continue())
    stopped(page, "exception")
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 1
    output = "".join(program.lines)
    assert "ValueError" in output
    assert "KeyboardInterrupt" not in output


def test_an_exception_in_a_thread_stops_there(start: Start, new_page: Open) -> None:
    program, page, run = begun(
        start, new_page,
        "def work():\n    np.exp(x)\n    {}['k']\n"
        "thread = threading.Thread(target=work, name='worker')\nthread.start()\nthread.join()\n"
        "print('end')\n",
    )  # fmt: skip
    control(page, run, Continue())
    stop = stopped(page, "exception").stop
    assert stop is not None
    assert (stop.error, stop.node_name) == ("KeyError: 'k'", "exp")
    assert stop.stack[0].function == "work"
    control(page, run, Continue())
    assert program.end() == 0
    output = "".join(program.lines)
    assert "Exception in thread worker" in output
    assert "end" in output


def test_what_an_operation_raises_stops_once(start: Start, new_page: Open) -> None:
    program, page, run = begun(start, new_page, "x @ ns.tensor(np.ones((4, 4)))\n")
    control(page, run, Continue())
    stop = stopped(page, "exception").stop
    assert stop is not None
    assert stop.error == ""
    assert stop.text.startswith("matmul raises")
    control(page, run, Continue())
    assert program.end() == 1


def test_an_exit_is_not_an_exception(start: Start, new_page: Open) -> None:
    program, page, run = begun(start, new_page, "np.exp(x)\nsys.exit(5)\n")
    control(page, run, Continue())
    assert program.end() == 5


# ---------------------------------------------------------------- breakpoints of an earlier run


def test_a_saved_breakpoint_stops_a_program_that_began_without_a_page(
    tmp_path: Path, start: Start, new_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "settings"
    folder.mkdir()
    monkeypatch.setenv("NODESCOPE_PROJECT", str(folder))
    saved = {"version": 1, "breakpoints": {"script.py": ["op:exp"]}}
    (folder / "breakpoints.json").write_text(json.dumps(saved))
    program = start(
        "run", "--port", "0", "--no-browser", "--no-stop-on-entry", "--record", "run.nscope",
        "script.py", text=HEAD + "np.exp(np.sin(x))\nprint('end')\n",
    )  # fmt: skip
    page = new_page(entered(program))
    run = run_id(page)
    info = standing(page, run)
    assert info.stop is not None
    assert info.stop.node_name == "exp"
    control(page, run, Continue())
    program.expect("end")
