"""Queries of the terminal debugger: parts of values, why, what-if, differences, rules."""

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
    expressions = {
        "p w": "float64 (2,) [0.25, 0.5]",
        "p inputs[0]": "float64 (2,) [0.5, 1]",
        "p w[1]": "0.5",
        "p value[:1]": "float64 (1,) [0.25]",
        "p inputs[0][-1]": "1",
        "p w.grad": "float64 (2,) [1, 2]",
        "p w.grad[1]": "2",
        "p w.shape": "(2,)",
        "p inputs[1].dtype": "float64",
        "p value.op": "assign",
        "p sum.axis": "None",
        "values w[0]": "0.25",
        "p w: max(value)": "0.5",
        "p w[0: 1]": "float64 (1,) [0.25]",
    }
    replies = dict(answers(scripted(tmp_path, HERE + "\n".join((*expressions, "q")), text=ASSIGN)))
    assert {command: replies[command][0] for command in expressions} == expressions


def test_why_what_if_and_diff(tmp_path):
    commands = (
        "diff w\ndiff w 1 2\ndiff\nwhy w[0]\nwhy w.grad[1]\nwhy nan\nrb 3\nwhat-if w *= 2\nnow\n"
        "what-if w = 0\nq\n"
    )
    replies = dict(answers(scripted(tmp_path, HERE + commands, text=ASSIGN)))
    # The commands have closed the recording.
    (kept,) = (tmp_path / ".nodescope" / "runs").iterdir()
    assert kept.suffix == ".nscope"
    assert replies["diff w"] == [
        "step 1: float64 (2,) [0.5, 1]",
        "step 2: float64 (2,) [0.25, 0.5]",
        "2 of 2 elements differ, by at most 0.5; [0] 0.5 became 0.25",
    ]
    assert replies["diff w 1 2"] == replies["diff"] == replies["diff w"]
    assert replies["why w[0]"][0].startswith("assign at [0] is 0.25 in step 2")
    assert "at [1] is 2 in step 2" in replies["why w.grad[1]"][0]
    assert replies["why nan"] == ["step 2: only finite values"]
    assert replies["what-if w *= 2"][0].startswith("with w changed in step 2: 8 values")
    assert "  sum: 1.25 became 5" in replies["what-if w *= 2"]
    assert "nothing that has run so far depends on it" in replies["what-if w = 0"][1]


AGAIN = """\
import numpy as np
import nodescope as ns

x = ns.tensor(np.array([1.0, 4.0]))
for _ in ns.steps(range(3)):
    x = x * 0.5
    y = np.sin(x)
print(x.numpy())
"""


@pytest.mark.parametrize(
    "placement", ["b multiply [step 2]\nc\n", "b multiply\nc\nc\nc\nback\nback\n"]
)
def test_a_node_that_reads_its_earlier_output_shows_that_output(tmp_path, placement):
    expressions = {
        "p inputs[0]": "float64 (2,) [0.5, 2]",
        "p max(inputs[0])": "2",
        "values inputs[0][1]": "2.",
        "p value": "float64 (2,) [0.25, 1]",
        "why inputs[0][0]": "multiply at [0] is 0.5 in step 1",
        "why value[0]": "multiply at [0] is 0.25 in step 2",
        "what-if inputs[0] = 8": "with multiply changed in step 1",
        "set inputs[0] = 3": "commands.txt",
    }
    replies = dict(
        answers(scripted(tmp_path, placement + "\n".join((*expressions, "q")), text=AGAIN))
    )
    for command, answer in expressions.items():
        assert replies[command][0].startswith(answer)


def test_an_edit_changes_the_newer_of_two_values_with_one_id(tmp_path):
    commands = "b multiply [step 3]\nc\nset inputs[0] = 3\nset value[0] = 40\np value\nq\n"
    done = scripted(tmp_path, commands, text=AGAIN)
    replies = dict(answers(done))
    assert "an older value of multiply" in replies["set inputs[0] = 3"][0]
    assert replies["p value"] == ["float64 (2,) [40, 0.5]"]
    assert done.stdout == "[40.   0.5]\n"


def test_what_a_node_takes_is_changed_before_it(tmp_path):
    commands = "b before multiply [step 3]\nc\nset inputs[0] = 3\np inputs[0]\nwhy value\nq\n"
    done = scripted(tmp_path, commands, text=AGAIN)
    replies = dict(answers(done))
    assert replies["p inputs[0]"] == ["float64 (2,) [3, 3]"]
    assert done.stdout == "[1.5 1.5]\n"


def test_rules_stop_where_they_hit(tmp_path):
    text = """\
import numpy as np, nodescope as ns
with np.errstate(all="ignore"):
    np.exp(np.log(ns.tensor([-1.0, 1.0])))
"""
    commands = "rule nan\nc\nrule\nwhy\nrule off 1\nwhat-if inputs[0] clip 0.5 -\nc\n"
    done = scripted(tmp_path, commands, text=text)
    replies = answers(done)
    assert replies[0][1] == ["rule 1: nan -> stop"]
    assert "NaN" in replies[1][1][0]
    assert replies[1][1][-1].startswith("  value log:")
    assert replies[1][1][0].count("step 0") == 1
    assert replies[2][1][0].startswith("rule 1: nan -> stop, 1 hit, the last: log in step 0 (")
    assert "log of -1" in "\n".join(replies[3][1])
    assert replies[4][1] == ["no rules; nodescope docs watches lists them, such as rule nan"]
    assert replies[5][1][-1].startswith("  log: 1 of 2 elements differ")
    assert replies[5][1][-1].endswith("; 1 NaN or Inf became 0")
    assert done.returncode == 0


def test_rules_that_suit_the_program(tmp_path):
    commands = "rule recommended\nstep\nrule recommended\nrule recommended\nq\n"
    introduction, _, rules, again, _ = (
        reply for _, reply in answers(scripted(tmp_path, commands, text=ASSIGN))
    )
    assert introduction == [
        "commands.txt:1: no training step has ended, so no rules can be recommended yet; "
        "step, then rule recommended"
    ]
    assert rules[0] == "rule 1: operator_overflow -> stop"
    assert again == rules


def test_an_unchanged_result_is_not_called_independent(tmp_path):
    text = "import numpy as np\nimport nodescope as ns\nx = ns.tensor([3.0, 9.0], name='x')\n"
    commands = "until maximum\nwhat-if x = 1\nwhat-if maximum = 1\nq\n"
    replies = answers(scripted(tmp_path, commands, text=text + "np.maximum(x, 10.0)\n"))
    assert replies[1][1] == [
        "with x changed in step 0: 0 values would differ, 1 stays bit-identical"
    ]
    assert replies[2][1][-1].startswith("  nothing that has run so far depends on it")


def test_a_watched_expression_keeps_its_number(tmp_path):
    commands = "w step\nw max(value)\nw off 1\nw step * 2\nw off 2\nw off 3\nq\n"
    replies = [reply for _, reply in answers(scripted(tmp_path, commands, text=ASSIGN))]
    assert [text.split(" =")[0] for text in replies[2]] == ["w2 max(value)"]
    assert replies[3][0].startswith("w3 step * 2 =")
    assert [text.split(" =")[0] for text in replies[4]] == ["w3 step * 2"]
    assert replies[5] == ["no expressions watched; w max(value) shows one at each stop"]


MISTAKES = {
    "p w[9]": "index 9 is out of bounds",
    "p w.foo": "w has no 'foo'; it has shape, dtype, grad, op",
    "p w: value[9]": "the index is out of range",
    "p nobody[0]": "no node named 'nobody'",
    "p value[": "was never closed",
    "p value[x]": "'x' is not an index",
    "why w[5]": "out of bounds",
    "what-if": "what-if takes a value",
    "what-if w": "is not a change of a value",
    "diff w 7": "was not computed in step 7",
    "diff sum 0": "was not computed before the first step",
    "diff a b c": "is not a value and up to two steps",
    "rule nosuch": "no watch rule named 'nosuch'",
    "rule loss: value": "'condition(condition=\"max(value) > 3\") on loss/mean'",
    "w nan on loss/mean": "'rule nan on loss/mean' adds a watch rule",
    "p backward: value": "a scope has no value; its nodes: backward/",
    "rule off 3": "there is no rule 3",
}


def test_mistakes_of_a_file_are_reported_with_their_line(tmp_path):
    commands = "# what goes wrong\n\n" + HERE + "\n".join((*MISTAKES, "q"))
    replies = dict(answers(scripted(tmp_path, commands, text=ASSIGN)))
    for line, (command, message) in enumerate(MISTAKES.items(), 5):
        (said,) = replies[command]
        assert said.startswith(f"commands.txt:{line}: ")
        assert message in said


def test_examples_of_help_are_commands(tmp_path):
    assert set(HELP) <= set(BY_NAME)
    examples = [line.split("   ")[0] for text in HELP.values() for line in text.splitlines()]
    commands = [example for example in examples if example.split(" ")[0] in BY_NAME]
    assert len(commands) > 50
    # Commands that continue the program are left out: this test is about parsing.
    stays = ("b", "p", "values", "why", "nodes", "w", "rule")
    expressions = [command for command in commands if command.split(" ")[0] in stays]
    done = scripted(tmp_path, "until loss/mean\nuntil loss/mean\n" + "\n".join((*expressions, "q")))
    for command, lines in answers(done):
        faults = ("not an expression", "no breakpoint kind")
        assert not any(fault in line for line in lines for fault in faults), (command, lines)


@pytest.mark.parametrize("columns", [40, 60, 120])
def test_help_fits_the_terminal(columns):
    line = f"{'d, delete NUMBERS|GROUP|all':30} delete breakpoints that are not needed any more"
    lines = folded(line, columns, "  ")
    assert max(map(len, lines)) <= columns
    assert re.sub(r"\s+", " ", " ".join(lines)) == re.sub(r"\s+", " ", line)


def test_all_of_help_fits_a_narrow_terminal(tmp_path):
    too_wide: list[str] = []

    def program() -> None:
        np.exp(ns.tensor([1.0]))

    with controlled(tmp_path, program) as (controller, _):
        console = Console(controller, too_wide.append)
        console.width = 40
        assert not console.run("help")
    assert max(map(len, too_wide)) <= 40
    assert any(text.startswith("why ") for text in too_wide)


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
    replies = answers(scripted(tmp_path, "b op:log\nc\nc\n", "--break", "op:exp", text=text))
    first = replies[1][1][0]
    assert first == "Breakpoint 1: exp (op:exp), step 0, thread feeder"
    assert replies[2][1][0].endswith(": log (op:log), step 0")


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


def test_a_line_that_made_no_node_yet_is_not_a_misspelling(tmp_path):
    commands = "b script.py:26\nb scirpt.py:7\nq\n"
    replies = [reply for _, reply in answers(scripted(tmp_path, commands, text=ASSIGN))]
    assert replies[0] == [
        "breakpoint 1: source:script.py:26; no node made at 'script.py:26' so far"
    ]
    assert replies[1][0].endswith("so far; did you mean 'script.py:6'?")


def test_a_rule_set_at_the_first_stop_sees_the_inputs_of_its_node(tmp_path):
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
    lines = [line for line in done.stderr.splitlines() if "w in step" in line]
    hits = [line.split(" (")[0] for line in lines]
    # The rule is evaluated when the program continues, which stops at the first node that has
    # run.
    for step in (1, 2):
        assert hits.count(f"nodescope: watch 1, nan: w in step {step}") == 1
        assert hits.count(f"Watch 1, nan: w in step {step}") == 1
    assert "watch 2" not in done.stderr
    assert done.returncode == 0


def test_a_part_of_a_fact_is_not_a_part_of_the_value(tmp_path):
    expressions = ("value.shape[0]", "inputs[1].shape[0]", "w.shape[0]", "value.op[0]")
    commands = ("n", "p value[0].shape", *(f"p {item}" for item in expressions))
    replies = dict(answers(scripted(tmp_path, "\n".join(commands))))
    for text in expressions:
        message = (
            f"{text!r} is not an element or slice of a value; value[0, :3], or shape(value)[0]"
        )
        assert replies[f"p {text}"][0].endswith(message)
    assert "does not name an element" in replies["p value[0].shape"][0]


def test_an_unknown_argument_does_not_make_the_program_continue(tmp_path):
    replies = answers(scripted(tmp_path, "c 3\nstep * 2\nkill now\nn\n"))
    assert [lines for _, lines in replies[:3]] == [
        [f"commands.txt:{number}: {word} takes no arguments"]
        for number, word in enumerate(("c", "step", "kill"), 1)
    ]
    assert replies[3][1][0].endswith(", step 1")


def test_a_value_that_was_changed_before_the_node_is_shown(tmp_path):
    replies = dict(answers(scripted(tmp_path, "set w = 3\n")))
    assert any(line.startswith("  inputs[1] w: ") for line in replies["set w = 3"]), replies


def test_rules_are_recommended_for_the_current_moment_not_the_viewed_one(tmp_path):
    replies = dict(answers(scripted(tmp_path, "step\nstep\nrb 1000\nrule recommended\n")))
    assert replies["rule recommended"][0].startswith("rule 1: "), replies


def test_log_lines_of_the_debugger_have_the_step_of_their_event(tmp_path):
    commands = "b op:mean log {step}!\nb op:square [step 2]\nc\nset value = 0\nn\nn\nlog\n"
    replies = dict(answers(scripted(tmp_path, commands)))
    assert replies["log"][:3] == [
        "[nodescope, step 1] 1!",
        "[nodescope, step 2] edited: loss/square set to 0",
        "[nodescope, step 2] 2!",
    ]


def test_what_no_stop_can_show_is_not_watched(tmp_path):
    refused = {"max(value": 4, "value +": 8, "y: sum(value": 7, "x = 3": 3, "maks(value)": 1}
    kept = ("later/relu", "later", "multiply [step 2]", "max(value)", "value[7]", "mean(grad) > 1")
    lines = ("w", *(f"w {text}" for text in (*refused, *kept)), "w off 7", "w")
    replies = answers(scripted(tmp_path, "\n".join((*lines, "q")), text=AGAIN))
    for (command, answer), column in zip(replies[1:], refused.values(), strict=False):
        assert f"(column {column})" in answer[0], command
        assert answer[0].startswith("commands.txt"), command
    for number, text in enumerate(kept, 1):
        assert replies[len(refused) + number][1][0].startswith(f"w{number} {text} = "), text
    assert "no watch 7" in replies[-3][1][0]
    assert len(replies[-2][1]) == len(kept)
