"""The server reads recordings, runs their nodes again and follows elements without the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import nodescope as ns

SERVER = """
import sys
import nodescope_server.app, nodescope_server.__main__
from nodescope.compare.result import compare
from nodescope.debug.replay import Replay
from nodescope.debug.why import why
from nodescope.record.recording import Recording
from tests.core.debug.replay.checking import check

with Recording.open(sys.argv[1]) as recording:
    assert {"scan", "cond"} <= {row.node.op for row in recording.nodes()}
    checked = check(Replay(recording, 1))
    assert checked.compared and not checked.missing and not checked.differences, checked
    assert why(recording, "sum").root.chain()
    assert compare(recording, recording).functions
engine = [name for name in sys.modules if name.startswith("nodescope.engine")]
assert engine == [], engine
"""


def test_the_server_loads_no_part_of_the_engine(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"

    @ns.compile
    def step(x: ns.Tensor) -> ns.Tensor:
        _, rows = ns.scan(lambda carry, row: (np.tanh(carry + row),) * 2, x[0], x)
        return np.sum(ns.cond(np.sum(rows) > 0, lambda: rows * 2.0, lambda: rows))

    with ns.record(path, level="values"):
        for x in ns.steps(np.linspace(0.0, 1.0, 24).reshape(1, 4, 6)):
            step(ns.tensor(x))
    done = subprocess.run(
        [sys.executable, "-c", SERVER, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
