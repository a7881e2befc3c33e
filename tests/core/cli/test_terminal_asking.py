"""What the terminal debugger is asked: parts of values, why, what if, differences, rules."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nodescope as ns
from nodescope.cli.terminal_commands import BY_NAME, Console
from nodescope.cli.terminal_help import HELP, folded
from tests.core.cli.terminals import Typed
from tests.core.cli.test_terminal import TRAIN, answers, scripted
from tests.core.debug.test_controller import controlled

ASSIGN = """\
import numpy as np
import nodescope as ns

w = ns.parameter(np.array([1.0, 2.0]), name="w")
for _ in ns.steps(range(2)):
    loss = np.sum(w * w)
    loss.backward()
    with ns.no_grad():
        ns.assign(w, w - 0.25 * w.grad)
    w.grad = None
"""
HERE = "b assign [step 2]\nc\n"


def test_parts_and_facts(tmp_path):
    asked = {
        "p w": "float64 2 [0.25, 0.5]",
        "p inputs[0]": "float64 2 [0.5, 1]",
        "p w[1]": "0.5",
        "p value[:1]": "float64 1 [0.25]",
        "p inputs[0][-1]": "1",
        "p w.grad": "float64 2 [1, 2]",
        "p w.grad[1]": "2",
        "p w.shape": "(2,)",
        "p inputs[1].dtype": "float64",
        "p value.op": "assign",
        "p sum.axis": "None",
        "values w[0]": "0.25",
        "p w: max(value)": "0.5",
        "p w[0: 1]": "float64 1 [0.25]",
    }
    told = dict(answers(scripted(tmp_path, HERE + "\n".join((*asked, "q")), text=ASSIGN)))
    assert {command: told[command][0] for command in asked} == asked


def test_why_fork_and_diff(tmp_path):
    commands = (
        "diff w\ndiff w 1 2\ndiff\nwhy w[0]\nwhy nan\nrb 3\nfork w *= 2\nnow\nfork w = 0\nq\n"
    )
    told = dict(answers(scripted(tmp_path, HERE + commands, text=ASSIGN)))
    # What was asked of the recording has let go of it.
    (kept,) = (tmp_path / ".nodescope" / "runs").iterdir()
    assert kept.suffix == ".nscope"
    assert told["diff w"] == [
        "step 1: float64 2 [0.5, 1]",
        "step 2: float64 2 [0.25, 0.5]",
        "2 of 2 elements differ, by at most 0.5; [0] 0.5 became 0.25",
    ]
    assert told["diff w 1 2"] == told["diff"] == told["diff w"]
    assert told["why w[0]"][0].startswith("assign at [0] is 0.25 in step 2")
    assert told["why nan"] == ["step 2: only finite values"]
    assert told["fork w *= 2"][0].startswith("with w changed in step 2: 8 values")
    assert "  sum: 1.25 became 5" in told["fork w *= 2"]
    assert "nothing that has run so far depends on it" in told["fork w = 0"][1]


AGAIN = """\
import numpy as np
import nodescope as ns

x = ns.tensor(np.array([1.0, 4.0]))
for _ in ns.steps(range(3)):
    x = x * 0.5
    y = np.sin(x)
print(x.numpy())
"""


@pytest.mark.parametrize("there", ["b multiply [step 2]\nc\n", "b multiply\nc\nc\nc\nback\nback\n"])
def test_a_node_that_takes_what_it_gave_before_took_that(tmp_path, there):
    asked = {
        "p inputs[0]": "float64 2 [0.5, 2]",
        "p max(inputs[0])": "2",
        "values inputs[0][1]": "2.",
        "p value": "float64 2 [0.25, 1]",
        "why inputs[0][0]": "multiply at [0] is 0.5 in step 1",
        "why value[0]": "multiply at [0] is 0.25 in step 2",
        "fork inputs[0] = 8": "with multiply changed in step 1",
        "set inputs[0] = 3": "commands.txt",
    }
    told = dict(answers(scripted(tmp_path, there + "\n".join((*asked, "q")), text=AGAIN)))
    for command, answer in asked.items():
        assert told[command][0].startswith(answer)


def test_of_two_values_with_one_id_the_new_one_is_changed(tmp_path):
    commands = "b multiply [step 3]\nc\nset inputs[0] = 3\nset value[0] = 40\np value\nq\n"
    done = scripted(tmp_path, commands, text=AGAIN)
    told = dict(answers(done))
    assert "an older value of multiply" in told["set inputs[0] = 3"][0]
    assert told["p value"] == ["float64 2 [40, 0.5]"]
    assert done.stdout == "[40.   0.5]\n"


def test_what_a_node_takes_is_changed_before_it(tmp_path):
    commands = "b before multiply [step 3]\nc\nset inputs[0] = 3\np inputs[0]\nwhy value\nq\n"
    done = scripted(tmp_path, commands, text=AGAIN)
    told = dict(answers(done))
    assert told["p inputs[0]"] == ["float64 2 [3, 3]"]
    assert done.stdout == "[1.5 1.5]\n"


def test_rules_stop_where_they_hit(tmp_path):
    text = """\
import numpy as np, nodescope as ns
with np.errstate(all="ignore"):
    np.exp(np.log(ns.tensor([-1.0, 1.0])))
"""
    commands = "rule nan\nc\nrule\nwhy\nrule off 1\nfork inputs[0] clip 0.5 -\nc\n"
    done = scripted(tmp_path, commands, text=text)
    told = answers(done)
    assert told[0][1] == ["rule 1: nan -> stop"]
    assert "NaN" in told[1][1][0]
    assert told[1][1][-1].startswith("  value log:")
    assert told[1][1][0].count("step 0") == 1
    assert told[2][1][0].startswith("rule 1: nan -> stop, 1 hit, the last: log in step 0 (")
    assert "log of -1" in "\n".join(told[3][1])
    assert told[4][1] == ["no rules; docs/watches.md lists them, such as rule nan"]
    assert told[5][1][-1].startswith("  log: 1 of 2 elements differ")
    assert told[5][1][-1].endswith("; 1 NaN or Inf became 0")
    assert done.returncode == 0


def test_rules_that_suit_the_program(tmp_path):
    commands = "rule recommended\nstep\nrule recommended\nrule recommended\nq\n"
    said, _, rules, again, _ = (
        told for _, told in answers(scripted(tmp_path, commands, text=ASSIGN))
    )
    assert said == [
        "commands.txt:1: no training step has ended, so no rules can be recommended yet; "
        "step, then rule recommended"
    ]
    assert rules[0] == "rule 1: operator_overflow -> stop"
    assert again == rules


def test_what_gives_the_same_is_not_called_independent(tmp_path):
    text = "import numpy as np\nimport nodescope as ns\nx = ns.tensor([3.0, 9.0], name='x')\n"
    commands = "until maximum\nfork x = 1\nfork maximum = 1\nq\n"
    told = answers(scripted(tmp_path, commands, text=text + "np.maximum(x, 10.0)\n"))
    assert told[1][1] == ["with x changed in step 0: 0 values would differ, 1 stay bit-identical"]
    assert told[2][1][-1].startswith("  nothing that has run so far depends on it")


def test_a_watched_expression_keeps_its_number(tmp_path):
    commands = "w step\nw max(value)\nw off 1\nw step * 2\nw off 2\nw off 3\nq\n"
    told = [told for _, told in answers(scripted(tmp_path, commands, text=ASSIGN))]
    assert [each.split(" =")[0] for each in told[2]] == ["w2 max(value)"]
    assert told[3][0].startswith("w3 step * 2 =")
    assert [each.split(" =")[0] for each in told[4]] == ["w3 step * 2"]
    assert told[5] == ["no expressions watched; w max(value) shows one at each stop"]


MISTAKES = {
    "p w[9]": "index 9 is out of bounds",
    "p w.foo": "w has no 'foo'; it has shape, dtype, grad, op",
    "p w: value[9]": "the index is out of range",
    "p nobody[0]": "no node named 'nobody'",
    "p value[": "was never closed",
    "p value[x]": "'x' is not an index",
    "why w[5]": "out of bounds",
    "fork": "fork takes a value",
    "fork w": "is not a change of a value",
    "diff w 7": "was not computed in step 7",
    "diff a b c": "is not a value and up to two steps",
    "rule nosuch": "no watch rule named 'nosuch'",
    "rule loss: value": "'condition(condition=\"max(value) > 3\") on loss/mean'",
    "w nan on loss/mean": "'rule nan on loss/mean' adds a watch rule",
    "p backward: value": "a scope has no value; its nodes: backward/",
    "rule off 3": "there is no rule 3",
}


def test_mistakes_of_a_file_are_told_with_their_line(tmp_path):
    commands = "# what goes wrong\n\n" + HERE + "\n".join((*MISTAKES, "q"))
    told = dict(answers(scripted(tmp_path, commands, text=ASSIGN)))
    for line, (command, message) in enumerate(MISTAKES.items(), 5):
        (said,) = told[command]
        assert said.startswith(f"commands.txt:{line}: ")
        assert message in said


def test_examples_of_help_are_commands(tmp_path):
    assert set(HELP) <= set(BY_NAME)
    examples = [line.split("   ")[0] for text in HELP.values() for line in text.splitlines()]
    commands = [each for each in examples if each.split(" ")[0] in BY_NAME]
    assert len(commands) > 50
    # Those that go on are left out: here it is about what is understood.
    stays = ("b", "p", "values", "why", "nodes", "w", "rule")
    asked = [each for each in commands if each.split(" ")[0] in stays]
    done = scripted(tmp_path, "until loss/mean\nuntil loss/mean\n" + "\n".join((*asked, "q")))
    for command, lines in answers(done):
        faults = ("not an expression", "no breakpoint kind")
        assert not any(fault in each for each in lines for fault in faults), (command, lines)


@pytest.mark.parametrize("columns", [40, 60, 120])
def test_help_fits_the_terminal(columns):
    line = f"{'d, delete NUMBERS|GROUP|all':30} delete breakpoints that are not needed any more"
    lines = folded(line, columns, "  ")
    assert max(map(len, lines)) <= columns
    assert re.sub(r"\s+", " ", " ".join(lines)) == re.sub(r"\s+", " ", line)


def test_all_of_help_fits_a_narrow_terminal(tmp_path):
    said: list[str] = []

    def program() -> None:
        np.exp(ns.tensor([1.0]))

    with controlled(tmp_path, program) as (controller, _):
        console = Console(controller, said.append)
        console.width = 40
        assert not console.run("help")
    assert max(map(len, said)) <= 40
    assert any(each.startswith("why ") for each in said)


def test_the_thread_that_stops_is_named(tmp_path):
    text = """\
import threading
import numpy as np
import nodescope as ns
x = ns.tensor([1.0])
worker = threading.Thread(target=lambda: np.exp(x), name="feeder")
worker.start()
worker.join()
np.log(x)
"""
    told = answers(scripted(tmp_path, "b op:log\nc\nc\n", "--break", "op:exp", text=text))
    first = told[1][1][0]
    assert first == "Breakpoint 1: exp (op:exp), step 0, thread feeder"
    assert told[2][1][0].endswith(": log (op:log), step 0")


def test_completion_of_each_command(tmp_path):
    (tmp_path / "script.py").write_text(TRAIN)
    with Typed(tmp_path, "--cli", "script.py") as typed:
        typed.line("step")
        for begun, completed in (
            ("info loss/mea\t", "info loss/mean"),
            ("p max(loss/squ\t)", "p max(loss/square"),
            ("rule dead_r\t", "rule dead_relu"),
            ("b scope:lo\t", "b scope:loss"),
            ("d a\t", "d all"),
            ("set value cl\t 0 1", "set value clip"),
            ("why inputs[1\t", "why inputs[1]"),
        ):
            typed.line(begun)
            typed.expect(completed)
        typed.line("q")
        typed.expect("trained")
        assert typed.end() == 0


def test_a_line_that_made_no_node_yet_is_no_misspelling(tmp_path):
    commands = "b script.py:26\nb scirpt.py:7\nq\n"
    told = [told for _, told in answers(scripted(tmp_path, commands, text=ASSIGN))]
    assert told[0] == ["breakpoint 1: source:script.py:26; no node made at 'script.py:26' so far"]
    assert told[1][0].endswith("so far; did you mean 'script.py:6'?")


def test_a_rule_that_is_set_at_the_first_stop_is_asked_of_what_its_node_was_given(tmp_path):
    text = (
        "import numpy as np, nodescope as ns\n"
        "w = ns.parameter(np.array([np.nan, 1.0]), name='w')\n"
        "for _ in ns.steps(range(2)):\n"
        "    np.tanh(ns.tensor(np.ones(2), name='x') * w)\n"
    )
    commands = (
        "rule nan on op:parameter -> log, stop", "rule inf on op:parameter -> log", "c", "c", "c",
    )  # fmt: skip
    done = scripted(tmp_path, "\n".join(commands), text=text)
    lines = [each for each in done.stderr.splitlines() if "w in step" in each]
    hits = [each.split(" (")[0] for each in lines]
    # Said when the program goes on, and it stops at the first node that has run.
    for step in (1, 2):
        assert hits.count(f"nodescope: watch 1, nan: w in step {step}") == 1
        assert hits.count(f"Watch 1, nan: w in step {step}") == 1
    assert "watch 2" not in done.stderr
    assert done.returncode == 0


def test_a_part_of_a_fact_is_no_part_of_the_value(tmp_path):
    asked = ("value.shape[0]", "inputs[1].shape[0]", "w.shape[0]", "value.op[0]")
    commands = ("n", "p value[0].shape", *(f"p {each}" for each in asked))
    told = dict(answers(scripted(tmp_path, "\n".join(commands))))
    for text in asked:
        said = f"{text!r} is not an element or slice of a value; value[0, :3], or shape(value)[0]"
        assert told[f"p {text}"][0].endswith(said)
    assert "does not name an element" in told["p value[0].shape"][0]


def test_what_a_command_does_not_take_is_no_reason_to_run_on(tmp_path):
    told = answers(scripted(tmp_path, "c 3\nstep * 2\nkill now\nn\n"))
    assert [lines for _, lines in told[:3]] == [
        [f"commands.txt:{number}: {word} takes no arguments"]
        for number, word in enumerate(("c", "step", "kill"), 1)
    ]
    assert told[3][1][0].endswith(", step 1")


def test_a_value_that_was_changed_before_the_node_is_shown(tmp_path):
    told = dict(answers(scripted(tmp_path, "set w = 3\n")))
    assert any(line.startswith("  inputs[1] w: ") for line in told["set w = 3"]), told


def test_rules_are_recommended_where_the_program_stands_not_where_one_looks(tmp_path):
    told = dict(answers(scripted(tmp_path, "step\nstep\nrb 1000\nrule recommended\n")))
    assert told["rule recommended"][0].startswith("rule 1: "), told


def test_lines_of_the_debugger_are_of_the_step_that_they_tell_of(tmp_path):
    commands = "b op:mean log {step}!\nb op:square [step 2]\nc\nset value = 0\nn\nn\nlog\n"
    told = dict(answers(scripted(tmp_path, commands)))
    assert told["log"][:3] == [
        "[nodescope, step 1] 1!",
        "[nodescope, step 2] edited: loss/square set to 0",
        "[nodescope, step 2] 2!",
    ]


def test_what_no_stop_can_show_is_not_watched(tmp_path):
    refused = {"max(value": 4, "value +": 8, "y: sum(value": 7, "x = 3": 3, "maks(value)": 1}
    kept = ("later/relu", "later", "multiply [step 2]", "max(value)", "value[7]", "mean(grad) > 1")
    lines = ("w", *(f"w {text}" for text in (*refused, *kept)), "w off 7", "w")
    told = answers(scripted(tmp_path, "\n".join((*lines, "q")), text=AGAIN))
    for (command, answer), column in zip(told[1:], refused.values(), strict=False):
        assert f"(column {column})" in answer[0], command
        assert answer[0].startswith("commands.txt"), command
    for number, text in enumerate(kept, 1):
        assert told[len(refused) + number][1][0].startswith(f"w{number} {text} = "), text
    assert "no watch 7" in told[-3][1][0]
    assert len(told[-2][1]) == len(kept)
