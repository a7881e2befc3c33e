"""Graph files of other tools: the recording made from one is deleted when the command ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import forked


def test_nothing_is_left_of_a_command_that_is_terminated(tmp_path: Path) -> None:
    graph, kept = tmp_path / "g.dot", tmp_path / "kept"
    graph.write_text("digraph { a -> b }")
    kept.mkdir()
    process = forked.Popen(
        [sys.executable, "-m", "nodescope", "open", "--port", "0", "--no-browser", str(graph)],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(kept), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    while "http://" not in (line := process.stdout.readline()):
        assert line
    assert list(kept.glob("nodescope-*/g.nscope"))
    process.terminate()
    assert process.wait(30) == 128 + 15
    process.stdout.close()
    assert not list(kept.glob("nodescope-*/g.nscope"))
