"""``nodescope compare`` with real processes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nodescope.compare.result import compare as compare_runs
from nodescope.record.compiled_functions import functions
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
UNTIMED = (*COMPARE, "--no-timing")


def compare(folder: Path, *args: str, timed: bool = False) -> Program:
    program = Program(folder, *(COMPARE if timed else UNTIMED), *args)
    program.expect("open http://127.0.0.1:")
    return program


def test_a_program_runs_twice_in_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PROGRAM)
    program = compare(tmp_path, "-o", "out", "--steps", "2", "script.py", "--epochs", "3")
    address = program.expect("open http://127.0.0.1:")
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 0
    lines = [line for line in program.lines if line.startswith("[")]
    assert [line.split()[2] for line in lines] == ["eager", "compiled"]
    assert all(line.startswith("['--epochs', '3']") for line in lines)
    assert lines[0].replace("eager", "compiled") == lines[1]
    with (
        Recording.open(tmp_path / "out" / "eager.nscope") as eager,
        Recording.open(tmp_path / "out" / "compiled.nscope") as compiled,
    ):
        wanted = f"#compare={eager.run().id},{compiled.run().id}"
        assert address.strip().endswith(wanted)
        assert functions(eager) == []
        assert len(functions(compiled)) == 1
        # Every element of two steps, and statistics of the third.
        assert eager.steps_with_arrays() == compiled.steps_with_arrays() == {1, 2}
        last = eager.latest_at(eager.nodes()[-1].node.outputs[0])
        assert last is not None
        assert last.step == 3


@pytest.mark.deep
def test_both_forms_are_timed_unobserved_and_the_headline_is_theirs(tmp_path: Path) -> None:
    text = PROGRAM.replace("range(3)", "range(9)") + "print('ran to its end')\n"
    (tmp_path / "script.py").write_text(text)
    program = compare(tmp_path, "-o", "out", "script.py", timed=True)
    program.process.send_signal(signal.SIGINT)
    program.end()
    # Six runs are announced, and only the output of the two recorded ones is shown.
    assert any("6 runs, eager and compiled in turns" in line for line in program.lines)
    assert program.lines.count("ran to its end\n") == 2
    with (
        Recording.open(tmp_path / "out" / "eager.nscope") as eager,
        Recording.open(tmp_path / "out" / "compiled.nscope") as compiled,
    ):
        timings = compare_runs(eager, compiled).timings
    assert timings is not None
    (timing,) = timings.functions
    assert (timing.name, timing.eager.calls, timing.compiled.calls) == ("step", 18, 18)
    assert len(timing.pairs) == 3
    assert 0 < timing.eager.low_ns <= timing.eager.median_ns <= timing.eager.high_ns


def test_a_long_program_is_cut_off(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROGRAM.replace("range(3)", "iter(int, 1)") + "print('never')\n")
    command = [sys.executable, "-m", "nodescope.cli.timed_script", "--result", "out.json"]
    done = subprocess.run(
        [*command, "--calls", "20", "--seconds", "60", "script.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    timed = json.loads((tmp_path / "out.json").read_text())
    assert (len(timed["calls"]["step"]), timed["cut"]) == (20, "after 20 calls")


@pytest.mark.deep
def test_two_recordings_in_either_order(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PROGRAM)
    program = compare(tmp_path, "-o", "out", "script.py")
    wanted = re.search("#compare=.*", program.expect("open http://"))
    program.process.send_signal(signal.SIGINT)
    program.end()
    again = compare(tmp_path, "out/compiled.nscope", "out/eager.nscope")
    match = re.search("#compare=.*", again.expect("open http://"))
    again.process.send_signal(signal.SIGINT)
    assert again.end() == 0
    assert match is not None
    assert wanted is not None
    assert match[0] == wanted[0]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("args", "text", "expected"),
    [
        (("script.py",), "import nodescope as ns\nns.tensor([1.0]) + 1\n",
         "no compiled function ran in script.py, and no session: nothing to compare"),
        (("script.py",), "raise SystemExit(3)\n",
         "script.py ended before it called a compiled function"),
        (("none.py",), "", "no script or recording 'none.py'"),
        (("a.nscope",), "", "two recordings are needed"),
        (("a.nscope", "b.nscope"), "", "no recording 'a.nscope'"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_reported_in_one_line(
    tmp_path: Path, args: tuple[str, ...], text: str, expected: str
) -> None:
    done = nodescope(tmp_path, *UNTIMED, *args, text=text)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("nodescope: ")
    assert expected in last
    assert "Traceback" not in done.stderr


def test_a_number_of_steps_is_a_number(tmp_path: Path) -> None:
    done = nodescope(tmp_path, "compare", "--steps", "0", "script.py")
    assert done.returncode == 2
    assert "is not a number of steps" in done.stderr
