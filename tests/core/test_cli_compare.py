"""``nodescope compare`` with real processes."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from nodescope.record.captured import functions
from nodescope.record.recording import Recording
from tests.integration.processes import Program, nodescope

PROGRAM = """
import random, sys
import numpy as np
import nodescope as ns

@ns.compile
def step(x):
    return np.tanh(x) * 2

ns.set_mode("eager")  # the comparison's mode wins
print(sys.argv[1:], ns.get_mode(), hash("a"), random.random(), np.random.rand())
for each in ns.steps(range(3)):
    step(ns.tensor(np.full(4, each, np.float32)))
"""
COMPARE = ("compare", "--port", "0", "--no-browser")


def compare(folder: Path, *args: str) -> Program:
    program = Program(folder, *COMPARE, *args)
    program.expect("open http://127.0.0.1:")
    return program


def test_a_program_runs_twice_in_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PROGRAM)
    program = compare(tmp_path, "-o", "out", "--steps", "2", "script.py", "--epochs", "3")
    address = program.expect("open http://127.0.0.1:")
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 0
    said = [line for line in program.lines if line.startswith("[")]
    assert [line.split()[2] for line in said] == ["eager", "compiled"]
    assert all(line.startswith("['--epochs', '3']") for line in said)
    assert said[0].replace("eager", "compiled") == said[1]
    with (
        Recording.open(tmp_path / "out" / "eager.nscope") as eager,
        Recording.open(tmp_path / "out" / "compiled.nscope") as compiled,
    ):
        wanted = f"#compare={eager.run().id},{compiled.run().id}"
        assert address.strip().endswith(wanted)
        assert functions(eager) == []
        assert len(functions(compiled)) == 1
        # every element of two steps, statistics of the third
        assert eager.steps_with_arrays() == compiled.steps_with_arrays() == {1, 2}
        last = eager.latest_at(eager.nodes()[-1].node.outputs[0])
        assert last is not None
        assert last.step == 3


def test_two_recordings_in_either_order(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PROGRAM)
    program = compare(tmp_path, "-o", "out", "script.py")
    wanted = re.search("#compare=.*", program.expect("open http://"))
    program.process.send_signal(signal.SIGINT)
    program.end()
    again = compare(tmp_path, "out/compiled.nscope", "out/eager.nscope")
    found = re.search("#compare=.*", again.expect("open http://"))
    again.process.send_signal(signal.SIGINT)
    assert again.end() == 0
    assert found is not None
    assert wanted is not None
    assert found[0] == wanted[0]


@pytest.mark.parametrize(
    ("args", "text", "said"),
    [
        (("script.py",), "import nodescope as ns\nns.tensor([1.0]) + 1\n",
         "no compiled function ran in script.py, so there is nothing to compare"),
        (("script.py",), "raise SystemExit(3)\n",
         "script.py ended before it called a compiled function"),
        (("none.py",), "", "no script or recording 'none.py'"),
        (("a.nscope",), "", "two recordings are compared"),
        (("a.nscope", "b.nscope"), "", "no recording 'a.nscope'"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_said_in_one_line(
    tmp_path: Path, args: tuple[str, ...], text: str, said: str
) -> None:
    done = nodescope(tmp_path, *COMPARE, *args, text=text)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("nodescope: ")
    assert said in last
    assert "Traceback" not in done.stderr


def test_a_number_of_steps_is_a_number(tmp_path: Path) -> None:
    done = nodescope(tmp_path, "compare", "--steps", "0", "script.py")
    assert done.returncode == 2
    assert "is no number of steps" in done.stderr
