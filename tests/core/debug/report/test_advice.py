"""Advice for programs without observed operations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.report.advice import advise, lines
from nodescope.record.recording import Recording

PLAIN = """\
import numpy as np

rng = np.random.default_rng(0)
batches = [1, 2]
w = 0.1 * np.random.randn(3, 1)
for x in batches:
    w = w - x
"""


def test_a_numpy_program_gets_the_lines_to_change() -> None:
    advice = advise({"numpy"}, Path("folder/plain.py"), PLAIN)
    assert "plain NumPy" in advice.headline
    assert [
        (change.file, change.line, change.before, change.after) for change in advice.changes
    ] == [
        ("plain.py", 1, "", "import nodescope as ns"),
        (
            "plain.py",
            5,
            "w = 0.1 * np.random.randn(3, 1)",
            "w = ns.tensor(0.1 * np.random.randn(3, 1))",
        ),
        ("plain.py", 6, "for x in batches:", "for x in ns.steps(batches):"),
    ]
    assert any("plain.py:6: for x in batches:  →  for x in ns" in line for line in lines(advice))


def test_the_array_that_a_loop_changes_is_named_and_the_program_still_runs() -> None:
    source = (
        "import numpy as np\nx = np.ones((4, 3))\nw = np.zeros(3)\nb = np.zeros(1)\n"
        "for step in range(9):\n    y = x @ w\n    w -= y.mean()\n"
    )
    (_, made, _) = advise({"numpy"}, Path("fit.py"), source).changes
    assert (made.line, made.after) == (3, "w = ns.tensor(np.zeros(3))")
    lines = source.splitlines()
    for change in advise({"numpy"}, Path("fit.py"), source).changes:
        if change.before:
            assert lines[change.line - 1] == change.before
            lines[change.line - 1] = change.after
    names: dict = {"ns": ns}
    exec("\n".join(lines), names)
    assert isinstance(names["y"], ns.Tensor)
    unchanged = advise({"numpy"}, Path("fit.py"), "import numpy as np\nx = np.ones(3)\n").changes
    assert unchanged[1].after == "x = ns.tensor(np.ones(3))"


@pytest.mark.parametrize(
    ("modules", "source", "more", "expected"),
    [
        ({"torch", "numpy"}, PLAIN, {}, "computes with PyTorch"),
        ({"jax", "tensorflow"}, "", {}, "computes with JAX and TensorFlow"),
        ({"sklearn"}, "from sklearn import svm", {}, "computes with scikit-learn"),
        (set(), "from multiprocessing import Pool", {}, "other processes (multiprocessing)"),
        ({"numpy"}, "import numpy as np\nprint(1)", {}, "plain NumPy"),
        (set(), "print(1)", {}, "neither NumPy nor a framework"),
        (set(), "def (", {}, "neither NumPy nor a framework"),
        (set(), PLAIN, {"error": "KeyError: 'x'"}, "It raised KeyError: 'x'"),
        (set(), PLAIN, {"leaves": 2}, "2 tensors were made, but nothing was computed from them"),
    ],
)
def test_what_was_found_is_reported(
    modules: set[str], source: str, more: dict, expected: str
) -> None:
    assert expected in "\n".join(lines(advise(modules, Path("a.py"), source, **more)))


def test_advice_is_in_the_recording_of_a_run_without_operations(tmp_path: Path) -> None:
    with ns.record(tmp_path / "none.nscope"):
        ns.tensor([1.0])
    with ns.record(tmp_path / "some.nscope"):
        np.exp(ns.tensor([1.0]))
    with Recording.open(tmp_path / "none.nscope") as none:
        advice = none.advice()
        assert advice is not None
        assert "1 tensor was made" in advice.headline
    with Recording.open(tmp_path / "some.nscope") as recording:
        assert recording.advice() is None
