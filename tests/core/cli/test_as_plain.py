"""Unusual programs write and end as under plain Python, even if they change process state."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import depth
from tests.integration.processes import UNSTOPPED, nodescope

START = """
import atexit, builtins, io, os, sys
import numpy as np
import nodescope as ns
total = ns.tensor([1.0, 2.0]).sum()
"""
UNPRINTABLE = """
class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no words")
"""
PROGRAMS = {
    "an exception without words": UNPRINTABLE + "raise Unprintable",
    "exit with what has no words": UNPRINTABLE + "sys.exit(Unprintable())",
    "exit with a huge number": "sys.exit(2**70)",
    "a hook that fails": (
        "def hook(*given):\n    print(sys.exc_info(), file=sys.stderr)\n    raise KeyError('k')\n"
        "sys.excepthook = hook\nraise ValueError('v')"
    ),
    "no hook": "del sys.excepthook\nraise ValueError('v')",
    "nothing as a hook": "sys.excepthook = None\nraise ValueError('v')",
    "a cause that was never raised": "raise ValueError('v') from KeyError('k')",
    "no stream for errors": "sys.stderr = None\nraise ValueError('v')",
    "words without a stream": "sys.stderr = None\nsys.exit('bye')",
    "another print": (
        "real = print\nbuiltins.print = lambda *words, **named: real('mine', *words)\n"
        "print(total.numpy())\nsys.exit('bye')"
    ),
    "a stream around the old one": (
        "sys.stdout = io.TextIOWrapper(sys.stdout.detach(), 'utf-8')\nprint('é')"
    ),
    "exit functions write where the program wrote": (
        "sys.stdout = io.StringIO()\nprint('one')\natexit.register(lambda: (\n"
        "    print('bye'), os.write(1, sys.stdout.getvalue().encode())))"
    ),
    "the stream as a context": "with sys.stdout as out:\n    print('in', file=out)",
    "strings of an own class": (
        "class Own(str):\n    def __radd__(self, other):\n        raise ValueError('added')\n"
        "sys.stdout.write(Own('x\\n'))"
    ),
}


def ran(folder: Path, *command: str) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        [sys.executable, *command, "script.py"], cwd=folder, capture_output=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", depth.some(list(PROGRAMS), 3))
def test_a_program_ends_as_under_plain_python(tmp_path: Path, name: str) -> None:
    (tmp_path / "script.py").write_text(START + PROGRAMS[name] + "\n")
    recorded = ran(tmp_path, "-m", "nodescope.cli.recorded_script", "--record", "run.nscope")
    assert recorded == ran(tmp_path, "-u")


def test_a_record_that_an_exception_without_words_leaves(tmp_path: Path) -> None:
    text = START + UNPRINTABLE + "with ns.record('run.nscope'):\n    raise Unprintable\n"
    (tmp_path / "script.py").write_text(text)
    status, _, error_output = ran(tmp_path)
    assert (status, error_output.count(b"Traceback")) == (1, 1)
    assert error_output.endswith(b"Unprintable: <exception str() failed>\n")


@pytest.mark.deep
def test_a_forked_child_that_runs_to_the_end_leaves_the_check_to_its_parent(tmp_path: Path) -> None:
    text = START + "child = os.fork()\nif child:\n    print(os.waitpid(child, 0)[1] >> 8)\n"
    done = nodescope(tmp_path, "check", "--watch", "nan", "script.py", text=text)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "0", "script.py ended with status 0, 0 steps: 1 watch, none with hits", "ok  nan",
    ]  # fmt: skip


def test_a_program_that_closes_all_files(tmp_path: Path) -> None:
    text = START + "os.closerange(3, 256)\nsys.exit(7)\n"
    done = nodescope(tmp_path, *UNSTOPPED, "script.py", text=text)
    assert done.returncode == 7
    assert "Traceback" not in done.stderr


def test_a_program_that_deletes_its_folder_can_be_debugged(tmp_path: Path) -> None:
    text = START.replace("total", "os.mkdir('x'); os.chdir('x'); os.rmdir('../x')\ntotal")
    (tmp_path / "commands.txt").write_text("n\nbt\np value\n")
    done = nodescope(
        tmp_path, "run", "--cli", "-x", "commands.txt", "script.py",
        text=text + "print(total.numpy())\n",
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "3.0\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(r"\(nodescope\) p value\nfloat64 scalar 3\n", done.stderr), done.stderr
