"""The terminal debugger with programs that have replaced the standard streams."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.core.cli.terminals import Typed

OWN_STREAMS = """\
import builtins, contextlib, io, os, sys
import numpy as np
import nodescope as ns
builtins.input = lambda prompt: "mine"
kept, sys.stdin = io.StringIO(), io.StringIO("for the program\\n")
os.chdir("/")
with contextlib.redirect_stdout(kept):
    print("told")
    x = np.exp(ns.tensor(np.zeros(2), name="x"))
    x = np.tanh(x)
sys.stdout.write(repr((sys.stdin.read(), kept.getvalue())) + "\\n")
sys.stdin = sys.__stdin__
np.sin(x)
"""


def test_commands_neither_read_nor_write_the_programs_own_streams(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(OWN_STREAMS)
    with Typed(tmp_path, "--cli", "script.py") as typed:
        typed.line("n")
        typed.expect("Stepped to exp")
        typed.line("n")
        typed.expect("Stepped to tanh")
        typed.line("n")
        typed.expect(repr(("for the program\n", "told\n")))
        typed.expect("Stepped to sin")
        typed.line("q")
        assert typed.end() == 0
    assert (tmp_path / ".nodescope" / "history").is_file()


def test_a_deleted_folder_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print(1)\n")
    directory = tmp_path / "gone"
    directory.mkdir()
    done = subprocess.run(
        ["sh", "-c", 'cd "$1"; rmdir "$1"; exec "$2" -m nodescope check "$3"', "sh",
         str(directory), sys.executable, str(tmp_path / "script.py")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "nodescope: the current folder no longer exists; run nodescope from another one\n"
    )
