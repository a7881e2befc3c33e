"""A system without free processes or threads: a clear line, and the program runs as it can.

The limit of processes does not apply to root, so the tests simulate the kernel's answers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.core.record.runs import recorded

REFUSE = """
import errno, os, subprocess, sys, threading

kind, allowed = sys.argv[1], int(sys.argv[2])
sys.argv = ["nodescope", *sys.argv[3:]]

def limited(real, error):
    def call(*args, **kwargs):
        global allowed
        allowed -= 1
        if allowed < 0:
            raise error
        return real(*args, **kwargs)
    return call

from nodescope.cli import main

if kind == "process":
    error = BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    subprocess.Popen.__init__ = limited(subprocess.Popen.__init__, error)
else:
    error = RuntimeError("can't start new thread")
    threading._start_new_thread = limited(threading._start_new_thread, error)
sys.exit(main())
"""
PROGRAM = """
import numpy as np
import nodescope as ns

@ns.compile
def double(x):
    return np.tanh(x) * 2

for step in ns.steps(range(3)):
    total = double(ns.tensor(np.ones(4))).sum()
print("total", float(total.numpy()))
"""
STAYS = ("run", "--no-browser", "--no-stop-on-entry", "--record", "run.nscope")
UNSEEN = ("run", "--exit", *STAYS[1:])


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("kind", "allowed", "command", "status", "expected"),
    [
        # A run that leaves at its end needs no server if it is short enough.
        ("process", 0, (*STAYS, "train.py"), 0, "the system refuses another process"),
        ("process", 0, ("run", "--exit", "--no-browser", "train.py"), 0, "runs without a page"),
        ("process", 0, ("compare", "--no-browser", "train.py"), 2, "run cannot be started: the"),
        ("process", 0, ("compare", "--no-timing", "train.py"), 2, "the eager run cannot be"),
        ("process", 0, ("open", "made.nscope"), 2, "the server cannot be started: the system"),
        ("process", 0, ("serve",), 2, "the server cannot be started: the system refuses"),
        ("process", 0, ("export", "made.nscope", "-o", "x.svg"), 2, "export cannot be started"),
        ("thread", 0, (*UNSEEN, "train.py"), 2, "nothing can be recorded: the system refuses"),
        ("thread", 1, (*UNSEEN, "train.py"), 0, "the program runs without a page"),
        ("thread", 0, ("check", "train.py"), 2, "nothing can be recorded: the system refuses"),
        ("thread", 1, ("check", "train.py", "--watch", "nan"), 0, "total"),
        ("thread", 0, ("open", "made.nscope"), 2, "the server cannot be started: the system"),
        ("thread", 0, ("runs",), 0, "made.nscope"),
        ("process", 0, ("why", "made.nscope"), 0, "no NaN or Inf"),
        ("thread", 0, ("why", "made.nscope"), 0, "no NaN or Inf"),
        ("process", 0, ("check", "--watch", "nan", "made.nscope"), 0, "ok"),
        ("thread", 0, ("check", "--watch", "nan", "made.nscope"), 0, "ok"),
        ("process", 0, (*UNSEEN, "compiled.py"), 0, "total 6.09"),
    ],
)  # fmt: skip
def test_what_the_system_refuses_is_reported_in_a_line(
    kind: str, allowed: int, command: tuple[str, ...], status: int, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    by_c = PROGRAM.replace("@ns.compile", "@ns.compile(backend='c')")
    (tmp_path / "compiled.py").write_text(by_c)
    recorded(tmp_path / "made.nscope")
    done = forked.run(
        [sys.executable, "-c", REFUSE, kind, str(allowed), *command],
        cwd=tmp_path, stdin=subprocess.DEVNULL, text=True, timeout=120,
        env={**os.environ, "NODESCOPE_PROJECT": "none", "NODESCOPE_CACHE": str(tmp_path / "c")},
    )  # fmt: skip
    output = done.stdout + done.stderr
    assert "Traceback" not in output, output
    assert done.returncode == status, output
    assert expected in output
    if command[-1] in ("train.py", "compiled.py") and status == 0:
        assert "total " in output  # The program itself runs as usual.
