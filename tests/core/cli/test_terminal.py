"""The terminal debugger, with commands from files and typed into a real terminal."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from nodescope.cli.terminal_commands import BY_NAME, COMMANDS, REPEATED
from nodescope.record.recording import Recording
from tests.core.cli.terminals import Typed
from tests.integration.processes import UNSTOPPED, nodescope, one_line

TRAIN = """\
import numpy as np
import nodescope as ns

w = ns.parameter(np.ones((3, 2)), name="w")
for batch in ns.steps([np.full((4, 3), float(k)) for k in (1, 2, 3)]):
    with ns.name_scope("loss"):
        loss = np.mean(np.square(ns.tensor(batch, name="batch") @ w))
    loss.backward()
print("trained", float(loss.numpy()))
"""
# Runs until it is ended, and prints when Ctrl-C arrives.
FOREVER = """\
import numpy as np
import nodescope as ns
x = ns.parameter(np.ones(2), name="x")
np.exp(x)
print("running", flush=True)
try:
    while True:
        np.tanh(x)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise
"""
MARK = "(nodescope) "


Done = subprocess.CompletedProcess[str]


def scripted(
    folder: Path, commands: str, *args: str, text: str = TRAIN
) -> subprocess.CompletedProcess[str]:
    """Run a script with commands from a file."""
    (folder / "commands.txt").write_text(commands)
    return nodescope(folder, "run", "--cli", "-x", "commands.txt", *args, "script.py", text=text)


def answers(done: Done) -> list[tuple[str, list[str]]]:
    """Each command, and the lines that answer it."""
    _, *parts = done.stderr.split(MARK)
    return [(lines[0], lines[1:]) for lines in (part.splitlines() for part in parts)]


def test_stepping_from_a_file(tmp_path):
    done = scripted(tmp_path, "n\ns\no\n# a comment\n\nstep\nuntil loss/mean\ntwin\nc\n")
    assert (done.returncode, done.stdout) == (0, "trained 81.0\n"), done.stderr
    assert done.stderr.startswith("Before the first node: loss/matmul, before it runs, step 1\n")
    replies = {command: lines[0] for command, lines in answers(done)}
    assert replies["n"] == "Stepped to loss/matmul, step 1"
    assert replies["s"].startswith("Stepped to backward/")
    assert replies["step"] == "Stepped to the next training step: loss/matmul, step 2"
    assert replies["until loss/mean"] == "Ran to loss/mean, step 2"
    assert replies["twin"].startswith("Ran to backward/loss/")
    *_, ended, path = done.stderr.splitlines()
    assert "script.py finished, 3 steps, loss/mean 9 → 81" in done.stderr
    assert ended == "the program ended with status 0"
    (path,) = re.findall("^nodescope: recorded in (.+); 'nodescope open ", path)
    with Recording.open(path) as recording:
        assert len(recording.steps()) == 3


def test_looking_from_a_file(tmp_path):
    commands = """\
b loss/square [step 2]
b
c
p
p max(value) - 1
p matmul
p loss/matmul: sum(value)
values inputs[0]
info
bt
l
nodes square
w step * 2
rb
rc
now
log
off 1
on all
d 1
b
q
"""
    done = scripted(tmp_path, commands)
    assert done.returncode == 0, done.stderr
    replies = dict(answers(done))
    assert replies["b loss/square [step 2]"][0].startswith("breakpoint 1: loss/square [step 2]")
    assert replies["c"][0] == "Breakpoint 1: loss/square, step 2"
    assert replies["c"][1] == (
        '  script.py:7  loss = np.mean(np.square(ns.tensor(batch, name="batch") @ w))'
    )
    assert replies["c"][2] == "  value loss/square: float64 (4, 2), 36 … 36, mean 36"
    assert replies["p"][0] == "  inputs[0] loss/matmul: float64 (4, 2), 6 … 6, mean 6"
    assert replies["p max(value) - 1"] == ["35"]
    assert replies["p matmul"] == ["float64 (4, 2), 6 … 6, mean 6"]
    assert replies["p loss/matmul: sum(value)"] == ["48"]
    assert replies["values inputs[0]"][0] == "[[6. 6.]"
    assert replies["info"][0].startswith("loss/square: op square, phase forward, step 2")
    assert replies["info"][-1].endswith("of step 1")
    assert replies["bt"][2:4] == ["#1 scope loss  script.py:6", '     with ns.name_scope("loss"):']
    assert any(line.startswith("    7 ->") for line in replies["l"])
    assert replies["nodes square"][-1] == "loss/square"
    assert replies["w step * 2"] == ["w1 step * 2 = 4"]
    assert replies["rb"][0] == "Back at loss/matmul, step 2"
    assert replies["rb"][-1] == "  w1 step * 2 = 4"
    assert replies["rc"][0].startswith("No earlier breakpoint; back at loss/matmul, step 1")
    assert replies["now"][0] == "Breakpoint 1: loss/square"
    assert replies["b"] == ["no breakpoints"]
    assert replies["q"][0] == "detached: the program continues and is still recorded"


def test_values_are_changed(tmp_path):
    changes = "set value[0, :] = 100\np max(value)\nset value = x\nset value *= 0\np sum(value)\n"
    done = scripted(tmp_path, f"until loss/matmul\n{changes}info\nn\nrb\nset value = 1\nq\n")
    replies = dict(answers(done))
    assert replies["set value[0, :] = 100"] == [
        "nodescope: edited: loss/matmul[0, :] set to 100",
        "  value loss/matmul: float64 (4, 2), 3 … 100, mean 27.25",
    ]
    assert replies["p max(value)"] == ["100"]
    assert "is not a number" in replies["set value = x"][0]
    assert replies["set value *= 0"][1] == "  value loss/matmul: float64 (4, 2), 0 … 0, mean 0"
    assert replies["p sum(value)"] == ["0"]
    assert replies["info"][-1] == (
        "  changed here: loss/matmul[0, :] set to 100; loss/matmul times 0"
    )
    assert replies["n"][-1] == "  value loss/square: float64 (4, 2), 0 … 0, mean 0"
    assert "a past moment cannot be changed" in replies["set value = 1"][0]
    assert done.returncode == 0


def test_several_steps_are_reported_once(tmp_path):
    done = scripted(tmp_path, "n 3\np step\nn 2\nrb 4\nn 2\nc\nq\n")
    replies = answers(done)
    assert replies[0] == ("n 3", replies[0][1])
    assert replies[0][1][0] == "Stepped to loss/mean, step 1"
    assert replies[1] == ("p step", ["1"])
    assert len([line for line in done.stderr.splitlines() if line.startswith("Stepped")]) == 2
    assert replies[3][1][0] == "Back at loss/matmul, step 1"
    assert replies[4][1][0] == "At loss/mean, step 1"
    assert replies[5][1][0].startswith("Back at the live stop: Stepped to")


def test_back_beyond_the_beginning_shows_where_it_came_to(tmp_path):
    replies = dict(answers(scripted(tmp_path, "n 3\nrb 99\nrb 98\nq\n")))
    assert replies["rb 99"][0] == "Back at loss/matmul, step 1"
    assert replies["rb 99"][-1].endswith("nothing before this is recorded")
    assert replies["rb 98"] == ["commands.txt:3: nothing before this is recorded"]


def test_a_breakpoint_that_counts_once_and_logs(tmp_path):
    done = scripted(tmp_path, "tb op:mean\nb op:square log squared {max(value)}\nc\nb\nc\n")
    replies = answers(done)
    assert replies[2][1][0].startswith("nodescope: squared 9")
    assert (
        replies[3][1][0]
        == "breakpoint 1: op:mean [once, off], held 1 time; done: it was set to stop once"
    )
    assert done.stderr.count("squared") >= 4
    assert done.stdout == "trained 81.0\n"


MISTAKES = {
    "nxt": "no command 'nxt'",
    "p valu": "valu",
    "p __import__('os')": "unknown function '__import__'",
    "p loss/maen": "no node named 'loss/maen' so far; did you mean 'loss/mean'",
    "b opp:log": "no breakpoint kind named 'opp'",
    "tb": "which node?",
    "d 7": "no breakpoint 7",
    "off": "no breakpoints given",
    "w off 1": "no watch 1",
    "l 99": "frames; bt shows them",
    "rb x": "'x' is not an integer, 0 or more",
    "n 0": "a count starts at 1",
    "o optimizer": "loss/mean is not in scope 'optimizer'; it is in loss",
    "b [backward]": "'[backward]' does not say which nodes to stop at; glob:* [backward]",
    "p inputs[9]": "loss/mean has no inputs[9]; it has inputs[0], outputs[0]",
    "until": "until which node?",
    "help nothing": "no command 'nothing'",
    "set value": "is not a change of a value",
}


def test_mistakes_are_one_line(tmp_path):
    done = scripted(tmp_path, "\n".join(("until loss/mean", *MISTAKES, "q")))
    replies = dict(answers(done))
    for command, message in MISTAKES.items():
        (line,) = replies[command]
        assert message in line
    assert done.returncode == 0


def test_a_run_to_a_name_that_is_nowhere_does_not_run_to_the_end(tmp_path):
    done = scripted(tmp_path, "until loss/mean\nuntil loss/mean\nuntil maen\nuntil mean\nq")
    replies = answers(done)
    (line,) = replies[2][1]
    assert "no node named 'maen' so far; did you mean 'mean'? `b maen` and `c` wait" in line
    assert replies[3][1][0].startswith("Ran to loss/mean, step 3")


def test_a_run_to_the_end_of_a_name_stops_at_a_node_that_has_not_run_yet(tmp_path):
    replies = answers(scripted(tmp_path, "until mean\nq"))
    assert "Ran to loss/mean, step 1" in replies[0][1]


def test_the_programs_own_exception_stops_first_and_arrives_unchanged(tmp_path):
    text = "import numpy as np, nodescope as ns\nnp.linalg.inv(ns.tensor(np.zeros((2, 2))))\n"
    done = scripted(tmp_path, "c\np\nwhy\nwhy value[0, 0]\nc\n", text=text)
    assert done.returncode == 1
    replies = answers(done)
    assert replies[2][1][0].startswith("inv (script.py:2) raised in step 0: MatrixError")
    assert any(
        line.strip() == "tensor, float64 (2, 2), is 0 (4 zero of 4)" for line in replies[2][1]
    )
    assert "not available: the node raised" in replies[3][1][0]
    assert replies[0][1][0].startswith("inv raises MatrixError: inv: singular")
    assert any("inputs[0] tensor: float64 (2, 2)" in line for line in replies[0][1])
    assert any("the node raised MatrixError" in line for line in replies[1][1])
    plain = nodescope(tmp_path, *UNSTOPPED, "script.py")
    assert plain.returncode == 1
    trace = plain.stderr[plain.stderr.index("Traceback") :].partition("nodescope: ")[0]
    assert trace in done.stderr
    assert "the program ended with status 1" in done.stderr


CUT_SHORT = """\
from nodescope import api

finish = api.Run.finish

def cut_short(self, *ended):
    finish(self, *ended)
    raise KeyboardInterrupt

api.Run.finish = cut_short
"""


def test_ctrl_c_while_the_rest_is_written_hides_no_recording(tmp_path):
    done = scripted(tmp_path, "c\n", text=TRAIN + CUT_SHORT)
    assert "the program ended with status 0" in done.stderr
    (path,) = re.findall("nodescope: recorded in (.+); 'nodescope open ", done.stderr)
    with Recording.open(path) as recording:
        assert len(recording.steps()) == 3


def test_the_status_is_the_programs_and_the_file_may_hold_more(tmp_path):
    done = scripted(tmp_path, "c\nc\nn\n", text="import sys\nsys.exit(7)\n")
    assert done.returncode == 7
    assert "the program ended with 3 commands of commands.txt left to run" in done.stderr


def test_the_end_of_the_file_detaches(tmp_path):
    done = scripted(tmp_path, "b op:mean\nn\n")
    assert (done.returncode, done.stdout) == (0, "trained 81.0\n")
    assert "detached: the program continues" in done.stderr


def test_kill_ends_the_program_as_ctrl_c_would(tmp_path):
    done = scripted(tmp_path, "n\nkill\n", text=FOREVER)
    assert done.returncode == 130
    trace = done.stderr[done.stderr.index("Traceback") :].splitlines()
    # As without nodescope: the user's lines, without the frames that hold the program.
    assert [line for line in trace if line.startswith("  File ")] == [
        f'  File "{tmp_path / "script.py"}", line 4, in <module>'
    ]
    assert trace[3] == "KeyboardInterrupt"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-x", "no.txt", "--cli"), "cannot read the commands in 'no.txt': No such file"),
        (("-x", "no.txt"), "-x is for the terminal debugger; add --cli"),
        (("--break", "op:exp", "--break", "op:log if step >"), "'op:log if step >': not an expr"),
    ],
)
def test_wrong_command_lines(tmp_path, args, message):
    done = nodescope(tmp_path, "run", *args, "script.py", text=TRAIN)
    assert done.returncode == 2
    assert message in one_line(done)
    assert not (tmp_path / ".nodescope").exists()


def test_help_knows_every_command(tmp_path):
    done = scripted(tmp_path, "help\nhelp rc\nq\n")
    replies = dict(answers(done))
    for spec in COMMANDS:
        assert any(line.startswith(", ".join(spec.names)) for line in replies["help"])
    assert replies["help rc"] == ["rc", f"  {BY_NAME['rc'].help}"]
    assert len(BY_NAME) == sum(len(spec.names) for spec in COMMANDS)
    assert set(BY_NAME) >= REPEATED


# ---------------------------------------------------------------- a real terminal


def test_typed_with_completion_history_and_repetition(tmp_path):
    (tmp_path / "script.py").write_text(TRAIN)
    with Typed(tmp_path, "--cli", "script.py") as typed:
        typed.expect("Before the first node: loss/matmul")
        typed.line("until loss/mean")
        typed.expect("Ran to loss/mean")
        typed.line("p loss/sq\t")
        typed.expect("p loss/square")
        assert "float64 (4, 2), 9 … 9" in typed.expect("(nodescope) ")
        typed.type("\x1b[A\n")  # The up arrow recalls the last command.
        typed.expect("p loss/square")
        typed.expect("9 … 9")
        typed.line("n")
        typed.expect("Stepped to backward/")
        typed.line("")
        typed.expect("Stepped to backward/")
        typed.line("q")
        typed.expect("trained 81.0")
        assert typed.end() == 0
        assert typed.modes_now() == typed.modes
    history = (tmp_path / ".nodescope" / "history").read_text()
    assert "until loss/mean\n" in history


def test_the_end_of_input_detaches(tmp_path):
    (tmp_path / "script.py").write_text(TRAIN)
    with Typed(tmp_path, "--cli", "script.py") as typed:
        typed.expect("(nodescope) ")
        typed.type("\x04")
        typed.expect("detached")
        typed.expect("trained 81.0")
        assert typed.end() == 0


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_ctrl_c_pauses_and_at_the_prompt_there_is_another_prompt(tmp_path, term):
    (tmp_path / "script.py").write_text(FOREVER)
    with Typed(tmp_path, "--cli", "script.py", TERM=term) as typed:
        typed.line("c")
        typed.expect("running")
        typed.type("\x03")
        typed.expect("Stopped at tanh")
        typed.line("p max(value)")
        typed.expect("0.761594")
        typed.line("b op:tanh [once] log it runs again")
        typed.line("c")
        typed.expect("c\n")
        typed.expect("it runs again")
        typed.type("\x03")
        typed.expect("Stopped at tanh")
        typed.expect("(nodescope) ")
        typed.type("p st\x03")  # Ctrl-C at the prompt gives a new prompt.
        typed.expect("kill ends it)\n(nodescope) ")
        typed.type("\x15p step * 2\n")
        typed.expect("p step * 2\n")
        typed.expect("0\n")
        typed.line("kill")
        typed.expect("interrupted")
        typed.expect("KeyboardInterrupt")
        assert typed.end() == 130
        assert typed.modes_now() == typed.modes


def test_ctrl_c_twice_ends_a_program_that_comes_to_no_node(tmp_path):
    (tmp_path / "script.py").write_text(
        # Short waits: an interrupt during the handling of another may arrive just before a long
        # wait begins, and Python then raises only at its end.
        "import threading\nprint('waiting', flush=True)\n"
        "for _ in range(600):\n    threading.Event().wait(0.1)\n"
    )
    with Typed(tmp_path, "--cli", "script.py") as typed:
        typed.expect("waiting")
        typed.type("\x03")
        typed.expect("Ctrl-C again ends the program")
        typed.type("\x03")
        typed.expect("KeyboardInterrupt")
        assert typed.end() == 130


def test_the_program_reads_its_own_input(tmp_path):
    (tmp_path / "script.py").write_text(
        "import numpy as np, nodescope as ns\n"
        "x = ns.tensor([1.0])\n"
        "np.exp(x)\n"
        "print('hello', input('name? '), flush=True)\n"
        "np.tanh(x)\n"
    )
    with Typed(tmp_path, "--cli", "script.py") as typed:
        typed.line("b op:tanh")
        typed.line("c")
        typed.expect("name? ")
        typed.type("Ada\n")
        typed.expect("hello Ada")
        typed.expect("Breakpoint 1: tanh")
        typed.line("q")
        assert typed.end() == 0
    history = (tmp_path / ".nodescope" / "history").read_text()
    assert "b op:tanh\n" in history
    assert "Ada" not in history  # The history has no input of the program.


def test_commands_come_from_the_terminal_past_a_piped_input(tmp_path):
    (tmp_path / "script.py").write_text(
        "import sys, numpy as np, nodescope as ns\n"
        "np.exp(ns.tensor([1.0]))\n"
        "print('read', sys.stdin.read(), flush=True)\n"
    )
    (tmp_path / "data.txt").write_text("the data")
    with (
        (tmp_path / "data.txt").open() as data,
        Typed(tmp_path, "--cli", "script.py", stdin=data.fileno()) as typed,
    ):
        typed.expect("Before the first node: exp")
        typed.line("n")
        typed.expect("Stepped to exp")
        typed.line("c")
        typed.expect("read the data")
        assert typed.end() == 0


@pytest.mark.parametrize(
    ("args", "variables", "colored"),
    [((), {}, True), (("--no-color",), {}, False), ((), {"NO_COLOR": "1"}, False)],
)
def test_colours(tmp_path, args, variables, colored):
    (tmp_path / "script.py").write_text(TRAIN)
    with Typed(tmp_path, "--cli", *args, "script.py", raw=True, **variables) as typed:
        typed.expect("Before the first node")
        typed.line("q")
        assert typed.end() == 0
        assert ("\x1b[1mBefore" in typed.shown) == colored
