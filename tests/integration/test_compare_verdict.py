"""The verdict of ``nodescope compare --exit``: a sentence, a status and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nodescope.record.compiled_functions import cross_checked
from nodescope.record.recording import Recording
from tests.conformance.planted import program as planted_program
from tests.integration.processes import nodescope

HEAD = """
import itertools
import numpy as np
import nodescope as ns

"""
STEPS = """
for i in ns.steps(range(6)):
    step(ns.tensor(np.full(4, i, np.float32)))
"""


def judged(folder: Path, *program: str, timed: bool = False) -> tuple[int, str, dict[str, Any]]:
    """Status, sentence and JSON of a comparison."""
    options = ["compare", "--exit", "--json", "verdict.json", "-o", "out"]
    ended = nodescope(folder, *options, *([] if timed else ["--no-timing"]), *program)
    assert (folder / "verdict.json").is_file(), ended.stderr
    verdict = json.loads((folder / "verdict.json").read_text())
    sentence = ended.stdout.splitlines()[-1]
    assert sentence == verdict["text"]
    return ended.returncode, sentence, verdict


def written(folder: Path, text: str) -> str:
    (folder / "script.py").write_text(HEAD + text)
    return "script.py"


def test_a_sound_program_is_equal(tmp_path: Path) -> None:
    script = written(tmp_path, "@ns.compile\ndef step(x):\n    return np.tanh(x) * 2\n" + STEPS)
    status, text, verdict = judged(tmp_path, script)
    assert status == 0
    assert verdict["outcome"] == "equal"
    assert text == (
        "No difference: 6 calls of compiled functions gave what was traced, bit for bit, and the "
        "values of 6 steps are those of the eager run."
    )
    with Recording.open(tmp_path / "out" / "eager.nscope") as eager:
        assert cross_checked(eager) is None


@pytest.mark.parametrize(
    ("fault", "case", "cause", "words"),
    [
        ("softmax_axis", "rows", "kernel", "the kernel softmax of the back end numpy computes"),
        pytest.param(
            *(
                "add_zero",
                "neutral_numbers",
                "rewrite",
                "after the rule add_zero of the pass simplify",
            ),
            marks=pytest.mark.deep,
        ),
        pytest.param(
            *("views_forgotten", "held", "plan", "in the kernel add_4, which is right alone"),
            marks=pytest.mark.deep,
        ),
        pytest.param(
            *("fusion_order", "casts", "rewrite", "after the pass fuse"), marks=pytest.mark.deep
        ),
        pytest.param(
            *("dce_output", "itself", "compilation", "because the pass dce failed"),
            marks=pytest.mark.deep,
        ),
        ("none", "rows", "", "No difference"),
    ],
)
def test_a_fault_of_the_compiler_is_named(
    fault: str, case: str, cause: str, words: str, tmp_path: Path
) -> None:
    status, text, verdict = judged(tmp_path, planted_program.__file__, fault, case)
    assert words in text
    assert verdict["cause"] == cause
    assert status == (1 if cause else 0)


@pytest.mark.deep
def test_the_check_says_how_much_differs_and_in_which_form(tmp_path: Path) -> None:
    """The recorded values are those of the observed form, which is the correct one here."""
    _, _, verdict = judged(tmp_path, planted_program.__file__, "softmax_axis", "rows")
    assert (verdict["amount"]["differing"], verdict["amount"]["elements"]) == (190, 200)
    assert (verdict["amount"]["actual"], verdict["amount"]["at"]) == ("nan", [0, 0])
    assert verdict["detail"] == "only while nobody observes it"


@pytest.mark.deep
def test_other_numbers_are_the_program_s(tmp_path: Path) -> None:
    script = written(tmp_path, """
@ns.compile
def step(x):
    return np.tanh(x) * 2

draw = np.random.default_rng()
for i in ns.steps(range(6)):
    x = draw.standard_normal(4) if i > 3 else np.ones(4)
    step(ns.tensor(x.astype(np.float32)))
""")  # fmt: skip
    status, text, verdict = judged(tmp_path, script)
    assert (status, verdict["cause"], verdict["step"]) == (1, "input", 5)
    assert "its input x (script.py:14) differs" in text
    assert "a generator without a seed" in text


@pytest.mark.deep
def test_what_was_fixed_by_tracing_is_reported(tmp_path: Path) -> None:
    script = written(tmp_path, """
count = itertools.count()

@ns.compile
def step(x):
    return np.tanh(x) * float(next(count) // 3 + 1)
""" + STEPS)  # fmt: skip
    status, text, verdict = judged(tmp_path, script)
    assert (status, verdict["cause"], verdict["step"]) == (1, "trace", 4)
    assert (verdict["name"], verdict["source"]["line"]) == ("multiply", 11)
    assert "fixed while it was traced" in text


@pytest.mark.deep
def test_an_error_of_the_program_is_not_a_difference(tmp_path: Path) -> None:
    script = written(tmp_path, """
@ns.compile
def step(x):
    return np.tanh(x)[x.astype("int64")]
""" + STEPS)  # fmt: skip
    status, _, verdict = judged(tmp_path, script)
    assert (status, verdict["outcome"]) == (0, "equal")


@pytest.mark.deep
def test_two_recordings_are_judged_again(tmp_path: Path) -> None:
    judged(tmp_path, planted_program.__file__, "wrong_axis", "orders")
    first = json.loads((tmp_path / "verdict.json").read_text())
    status, _, again = judged(tmp_path, "out/eager.nscope", "out/compiled.nscope")
    assert status == 1
    assert again == first
    assert first["rules"] == ["simplify/flip_twice"]


@pytest.mark.deep
def test_json_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    script = written(tmp_path, "@ns.compile\ndef step(x):\n    return x * 2\n" + STEPS)
    ended = nodescope(
        tmp_path, "compare", "--no-timing", "--exit", "--json", "no/where.json", script
    )
    assert ended.returncode == 2
    assert "cannot write 'no/where.json': No such file or directory" in ended.stderr


@pytest.mark.deep
@pytest.mark.parametrize(
    ("observed", "words"),
    [(True, "only while it is observed"), (False, "only while nobody observes it")],
)
def test_a_difference_from_the_timed_runs_is_found(
    observed: bool, words: str, tmp_path: Path
) -> None:
    """A fault outside plans and kernels, in one form only, from the third call on."""
    script = written(tmp_path, f"""
from nodescope.engine.static.entry import Entry

finished = Entry._finished

def wrong(self, leaves, arrays, feeds, ids=(), known=None):
    if bool(ids) is {observed} and self.calls >= 3:
        arrays = [arrays[0] + 1, *arrays[1:]]
    return finished(self, leaves, arrays, feeds, ids, known)

Entry._finished = wrong

@ns.compile
def step(x):
    return np.tanh(x) * 2
""" + STEPS)  # fmt: skip
    status, text, verdict = judged(tmp_path, script, timed=True)
    assert (status, verdict["cause"], verdict["step"]) == (1, "form", 3)
    assert text == f"step differs from step 3 on: its result is another {words}."


@pytest.mark.deep
def test_a_session_is_compared(tmp_path: Path) -> None:
    script = written(tmp_path, """
with ns.Graph().as_default() as graph:
    x = ns.placeholder(np.float32, (3,), name="x")
    ns.identity(np.tanh(x) * 2.0, name="y")
with ns.Session(graph) as session:
    for i in ns.steps(range(3)):
        session.run("y:0", {x: np.full(3, i, np.float32)})
""")  # fmt: skip
    status, text, _ = judged(tmp_path, script)
    assert status == 0
    assert text == (
        "No difference: the values of 3 steps (12 executions) are the same in both runs, and 3 "
        "runs of sessions gave what their graphs give node by node."
    )
