"""``nodescope check``: statuses, reports, and whether the recording is kept."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.cli import main
from nodescope.cli.check_reports import junit_text, words
from nodescope.debug.watch.check_report import CheckReport, check
from nodescope.debug.watch.watch import parse_watches
from nodescope.record.recording import Recording
from tests.integration.processes import TRAIN, nodescope, one_line

BROKEN = """
import os
import numpy as np
import nodescope as ns
np.seterr(all="ignore")
os.chdir("/")
for x in ns.steps([1.0, -1.0, -2.0]):
    with ns.name_scope("loss"):
        np.log(ns.tensor([x, 2.0]))
print("done")
"""


def runs(folder: Path) -> list[Path]:
    return sorted((folder / ".nodescope" / "runs").glob("*.nscope"))


def cases(path: Path) -> dict[str, ET.Element]:
    suites = ET.parse(path).getroot()
    assert suites.tag == "testsuites"
    (suite,) = suites
    results = {item.attrib["name"]: item for item in suite.findall("testcase")}
    order = [item.tag for item in suite]
    assert order == ["properties", *["testcase"] * len(results), "system-out", "system-err"]
    inner = [item.tag for case in results.values() for item in case]
    for tag, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert int(suite.attrib[count]) == inner.count(tag)
    assert int(suite.attrib["tests"]) == len(results)
    for name in ("name", "timestamp", "hostname", "time"):
        assert suite.attrib[name]
    assert all({"classname", "name", "time"} <= set(item.attrib) for item in results.values())
    return results


DISCARDED = """
import numpy as np
import nodescope as ns
w = ns.parameter(np.ones(3), name="w")
for step in ns.steps(range(3)):
    (w * w).sum().backward()
    if step == 1:
        w @ ns.tensor(np.ones((4, 2)))
"""


def test_a_node_that_raised_and_has_a_hit_is_named_once(tmp_path: Path) -> None:
    done = nodescope(tmp_path, "check", "script.py", text=DISCARDED)
    assert done.returncode == 1
    assert "HIT  unused_result" in done.stdout
    commands = [line for line in done.stdout.splitlines() if line.startswith("next: ")]
    assert len(commands) == 1
    assert commands[0].endswith(" matmul@2")


def test_a_clean_program_leaves_nothing(tmp_path: Path) -> None:
    done = nodescope(tmp_path, "check", "--junit", "r.xml", "script.py", text=TRAIN)
    assert (done.returncode, done.stderr) == (0, "")
    printed, summary, *_ = done.stdout.splitlines()
    assert printed == "trained 9.0"
    assert re.fullmatch(
        r"script.py ended with status 0, 3 steps: \d+ watches, none with hits, \d+ not evaluated",
        summary,
    )
    assert "needs 6 steps, had 1" in done.stdout
    assert runs(tmp_path) == []
    result = cases(tmp_path / "r.xml")
    assert "operator_overflow" in result
    assert {item.tag for case in result.values() for item in case} == {"skipped"}


def test_a_clean_recording_is_kept_if_requested(tmp_path: Path) -> None:
    done = nodescope(tmp_path, "check", "--keep", "--watch", "nan", "script.py", text=TRAIN)
    assert done.returncode == 0
    (path,) = runs(tmp_path)
    assert f"recording: {path.relative_to(tmp_path)}" in done.stdout
    done = nodescope(tmp_path, "check", "--record", "own.nscope", "--watch", "inf", "script.py")
    assert done.returncode == 0
    assert (tmp_path / "own.nscope").is_file()


def test_a_hit_is_status_1_with_reports_and_the_recording(tmp_path: Path) -> None:
    done = nodescope(
        tmp_path, "check", "--watch", "nan on op:log; inf", "--watch", "nan on scope:lost",
        "--json", "r.json", "--junit", "r.xml", "script.py", text=BROKEN,
    )  # fmt: skip
    assert done.returncode == 1
    assert "HIT  nan on op:log: 2 hits" in done.stdout
    assert "loss/log in step 2 (script.py:9): " in done.stdout
    assert "-    nan on scope:lost: no value in the program matches it" in done.stdout
    (path,) = runs(tmp_path)
    shown = path.relative_to(tmp_path)
    assert done.stdout.endswith(f"next: nodescope why {shown} loss/log@2\n")
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["status"], report["recording"]) == (0, str(path))
    assert [item["state"] for item in report["verdicts"]] == ["hit", "clean", "unasked"]
    first = report["verdicts"][0]["found"][0]
    assert (first["node"], first["step"], first["source"]["line"]) == ("loss/log", 2, 9)
    result = cases(tmp_path / "r.xml")
    assert [[item.tag for item in case] for case in result.values()] == [
        ["failure"], [], ["skipped"],
    ]  # fmt: skip
    # The command that the output names works as printed.
    why = nodescope(tmp_path, "why", str(shown), "loss/log@2")
    assert "log of -1" in why.stdout


@pytest.mark.parametrize(
    ("text", "status", "expected"),
    [
        ("raise SystemExit(7)", 7, "ended with status 7"),
        ("raise ValueError('no')", 1, "the program failed: ValueError: no"),
    ],
)
def test_the_status_of_the_program(tmp_path: Path, text: str, status: int, expected: str) -> None:
    done = nodescope(
        tmp_path, "check", "--junit", "r.xml", "--watch", "nan", "script.py", text=f"{TRAIN}{text}"
    )
    assert done.returncode == status
    assert expected in done.stdout
    assert len(runs(tmp_path)) == 1
    assert [item.tag for item in cases(tmp_path / "r.xml")["the program's exit status"]] == [
        "error"
    ]


def test_what_explains_the_error_that_ended_the_program(tmp_path: Path) -> None:
    text = f"{TRAIN}import numpy as np\nnp.exp(ns.tensor(np.ones(3))) * ns.tensor(np.ones(4))\n"
    done = nodescope(tmp_path, "check", "--watch", "nan", "script.py", text=text)
    assert done.returncode == 1
    (path,) = runs(tmp_path)
    shown = path.relative_to(tmp_path)
    target = re.search(rf"next: nodescope why {shown} (multiply\S*@\d+)\n\Z", done.stdout)
    assert target, done.stdout
    why = nodescope(tmp_path, "why", str(shown), target[1])
    assert "raised in step " in why.stdout


SCHEDULE = """
import numpy as np
import nodescope as ns
from nodescope import nn
rng = np.random.default_rng(0)
net = nn.Sequential(nn.Linear(4, 8, rng=rng), nn.tanh, nn.Linear(8, 1, rng=rng))
optimizer = ns.optim.SGD(net, lr=0.1)
for number in ns.steps(range(70)):
    optimizer.lr = 0.1 * max(0.0, 1 - number / 16)
    x = rng.normal(0, 1, (16, 4)).astype(np.float32)
    optimizer.minimize(nn.mse(net(ns.tensor(x)), x[:, :1]))
"""


def test_a_schedule_is_reported_once_and_its_node_is_named_next(tmp_path: Path) -> None:
    done = nodescope(
        tmp_path, "check", "--watch", "schedule_ends_early", "script.py", text=SCHEDULE
    )
    assert done.returncode == 1
    assert "HIT  schedule_ends_early: 1 hit\n" in done.stdout
    (path,) = runs(tmp_path)
    target = re.search(r"next: nodescope why (\S+) (\S+)\n\Z", done.stdout)
    assert target is not None, done.stdout
    assert target[1] == str(path.relative_to(tmp_path))
    why = nodescope(tmp_path, "why", target[1], target[2])
    assert (why.returncode, "multiply" in why.stdout) == (0, True), why.stderr


def test_a_program_without_steps_gets_a_hint_to_mark_them(tmp_path: Path) -> None:
    unmarked = SCHEDULE.replace("ns.steps(range(70))", "range(1)")
    done = nodescope(tmp_path, "check", "script.py", text=unmarked)
    assert "needs " in done.stdout
    assert "write its training loop as `for batch in ns.steps(batches):`" in done.stdout
    done = nodescope(tmp_path, "check", "script.py", text=SCHEDULE.replace("70", "1"))
    assert "needs " in done.stdout
    assert "the program marks none" not in done.stdout


def test_a_program_that_closes_its_output_is_still_reported(tmp_path: Path) -> None:
    text = "import sys\nimport numpy as np\nimport nodescope as ns\nnp.exp(ns.tensor(1.0))\n"
    done = nodescope(tmp_path, "check", "script.py", text=text + "sys.stdout.close()\n")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("script.py ended with status 0")


def test_a_recording_is_checked_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.nscope"
    with ns.record(path), np.errstate(all="ignore"):
        for x in ns.steps([1.0, -1.0]):
            np.log(ns.tensor([x]))
    assert main(["check", str(path)]) == 1
    assert "operator_overflow: 1 hit" in capsys.readouterr().out
    assert main(["check", "--watch", "unchanged_tensor", str(path)]) == 1
    assert "not evaluated 2 of 4 times: the full array was not kept" in capsys.readouterr().out
    assert main(["check", "--watch", "inf", "--watch", "unchanged_tensor", str(path)]) == 0
    assert main(["check", "--strict", "--watch", "inf; unchanged_tensor", str(path)]) == 1
    assert main(["check", "--watch", "off nan; inf", str(path)]) == 0

    assert "1 watch, none with hits" in capsys.readouterr().out
    assert main(["check", str(path), "more"]) == 2
    assert main(["check", str(tmp_path / "none.nscope")]) == 2


@pytest.mark.parametrize(
    ("level", "watch", "why"),
    [
        ("summary", "nan on op:lgo", "no watch could be evaluated\n"),
        ("timing", "nan", "no watch could be evaluated (the recording holds only timings)\n"),
    ],
)
def test_a_watch_that_was_never_evaluated_does_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], level: Any, watch: str, why: str
) -> None:
    path = tmp_path / "run.nscope"
    with ns.record(path, level):
        np.log(ns.tensor([1.0]))
    assert main(["check", "--watch", watch, str(path)]) == 1
    assert f"nothing was checked: {why}" in capsys.readouterr().out
    # One watch that could be evaluated is enough.
    assert main(["check", "--watch", watch, "--watch", "inf", str(path)]) == (level == "timing")


def test_what_is_wrong_is_reported_before_anything_runs(tmp_path: Path) -> None:
    text = "print('ran')"
    done = nodescope(tmp_path, "check", "--watch", "nan; nann", "script.py", text=text)
    assert done.returncode == 2
    assert "no watch rule named 'nann'; did you mean 'nan'? (column 6)" in one_line(done)
    done = nodescope(tmp_path, "check", "--json", "no/r.json", "script.py", text=text)
    assert done.returncode == 2
    assert "no such folder" in one_line(done)


def report_of(path: Path, watches: str) -> CheckReport:
    with Recording.open(path) as recording:
        return check(recording, parse_watches(watches), recommended=False)


@pytest.mark.parametrize("command", ["run", "check", "compare"])
def test_only_what_is_needed_is_named_as_missing(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command])
    (missing,) = re.findall("are required: (.*)", capsys.readouterr().err)
    assert missing in ("script", "what")


@pytest.mark.parametrize(
    ("content", "expected"), [("", "is empty"), ("1 / 0\n", "not a recording")]
)
def test_a_file_named_like_a_recording_is_not_run(
    tmp_path: Path, content: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.nscope"
    path.write_text(content)
    assert main(["check", str(path)]) == 2
    assert expected in capsys.readouterr().err
    assert main(["run", "--no-browser", str(path)]) == 2
    assert "is a recording; nodescope open" in capsys.readouterr().err


def test_xml_holds_whatever_names_hold(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    with ns.record(path), ns.name_scope('a<b>&"\x07'), np.errstate(all="ignore"):
        np.log(ns.tensor([-1.0]))
    (suite,) = ET.fromstring(junit_text(report_of(path, "nan")))
    message = suite.findall("testcase/failure")[0].attrib["message"]
    assert message.startswith('a<b>&"\ufffd/log ')


def test_the_hits_of_a_value_are_reported_once_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    with ns.record(path), np.errstate(all="ignore"):
        for _ in ns.steps(range(120)):
            np.log(ns.tensor([-1.0]))
    (verdict,) = report_of(path, "nan").verdicts
    (hit,) = verdict.found
    assert (verdict.hits, hit.times, hit.step, hit.last_step) == (120, 120, 1, 120)


def test_compiled_kernels_are_opened_for_what_is_watched(tmp_path: Path) -> None:
    text = """
import numpy as np
import nodescope as ns
np.seterr(all="ignore")
@ns.compile
def f(x):
    return np.sum(np.log(x * 2.0) + 1.0)
for x in ns.steps([1.0, -1.0]):
    f(ns.tensor([x, 3.0]))
"""
    done = nodescope(tmp_path, "check", "--watch", "nan on op:log", "script.py", text=text)
    assert done.returncode == 1
    assert "script.py:7" in done.stdout


def test_a_program_without_operations_is_not_a_clean_run(tmp_path: Path) -> None:
    text = "import numpy as np\nw = np.zeros(3)\nprint(w.sum())\n"
    done = nodescope(tmp_path, "check", "--junit", "r.xml", "script.py", text=text)
    assert done.returncode == 1
    assert (
        "nothing was checked: the program computed nothing with nodescope's tensors" in done.stdout
    )
    assert "script.py:2: w = np.zeros(3)  →  w = ns.tensor(np.zeros(3)" in done.stdout
    assert [item.tag for item in cases(tmp_path / "r.xml")["something was checked"]] == ["error"]


LOSS = """
import numpy as np
import nodescope as ns
for step in ns.steps(range(40)):
    w = ns.parameter(np.array([LOSS]), name="w")
    with ns.name_scope("loss"), np.errstate(all="ignore"):
        loss = np.mean(np.log(w))
    loss.backward()
"""


@pytest.mark.parametrize(
    ("loss", "watch", "status", "expected"),
    [
        ("40.0 - step", "loss_not_falling(num_steps=100)", 1, "needs 101 steps, had 40"),
        ("40.0 - step", "loss_not_decreasing(num_steps=50)", 1, "needs 51 steps, had 40"),
        ("40.0 - step", "loss_not_falling(num_steps=30)", 0, "ok  loss_not_falling"),
        ("20.5 - step", "loss_not_falling(num_steps=100)", 1, "19 hits"),
        ("20.5 - step", "loss_not_decreasing", 1, "it is NaN"),
        ("20.5 - step", "overtraining(patience_train=50)", 1, "it is NaN"),
        ("40.0 - step", "overfit", 1, "not evaluated: needs validation losses (*val*)"),
        ("40.0 - step", "weight_not_changed; nan", 0, "none with hits"),
    ],
)  # fmt: skip
def test_what_was_not_evaluated_is_never_ok(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], loss: str, watch: str, status: int,
    expected: str,
) -> None:  # fmt: skip
    path = tmp_path / "run.nscope"
    with ns.record(path, "values"):
        exec(LOSS.replace("LOSS", loss), {})
    assert main(["check", "--watch", watch, str(path)]) == status
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize("spec", ["", " ; ", "off nan"])
def test_watches_that_watch_nothing_are_no_clean_run(tmp_path: Path, spec: str) -> None:
    done = nodescope(tmp_path, "check", "--watch", spec, "script.py", text=TRAIN)
    assert done.returncode == 2
    assert "no watch is enabled" in one_line(done)


def test_next_prefers_what_a_hit_leaves_to_trace(tmp_path: Path) -> None:
    """Softmax passed to cross-entropy is reported with its line; a NaN is traced back."""
    for watches, target in (("softmax_twice", "cross_entropy@1"), ("softmax_twice; nan", "log@1")):
        path = tmp_path / f"{len(watches)}.nscope"
        with ns.record(path, level="values"), np.errstate(all="ignore"):
            for _ in ns.steps(range(2)):
                x = ns.parameter(np.zeros((3, 2)), name="x")
                ns.nn.cross_entropy(ns.softmax(x), np.zeros(3, int)).backward()
                np.log(x - 1)
        with Recording.open(path) as recording:
            report = check(recording, parse_watches(watches), recommended=False)
        assert report.having("hit")
        last = words(report).splitlines()[-1]
        assert re.fullmatch(rf"next: nodescope why \S+ {target}", last)
