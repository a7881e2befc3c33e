"""Which tests are the same at every depth, and need not be run twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import repeated
from tests.repeated import ROOT, has_marked, same_at_every_depth

TESTS = ROOT / "tests"
PLAIN = '"""Tests."""\n\nfrom __future__ import annotations\n\nimport re\n'


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tests of a repository of its own."""
    monkeypatch.setattr(repeated, "ROOT", tmp_path)
    monkeypatch.setattr(repeated, "_OPTIONS", tmp_path / "tests" / "conftest.py")
    folder = tmp_path / "tests" / "core"
    folder.mkdir(parents=True)
    for name in ("conftest.py", "depth.py", "core/plain.py"):
        (tmp_path / "tests" / name).write_text(PLAIN)
    return folder


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(PLAIN + text)
    return path


@pytest.mark.parametrize(
    "text",
    ["", "from tests.core import plain\n", "import tests.core.plain\n", "def test() -> None: ...\n",
     'SLOW = config.getoption("--slow-page")\n', "from numpy import depth\n"],
)  # fmt: skip
def test_a_module_without_the_depth_is_the_same(tree: Path, text: str) -> None:
    assert same_at_every_depth(written(tree, "test_it.py", text))


@pytest.mark.parametrize(
    "text",
    [
        "from tests import depth\n", "from tests import forked, depth as d\n",
        "from tests import (\n    forked,\n    depth,\n)\n", "from tests.depth import is_deep\n",
        "import tests.depth\n", "import sys, tests.depth\n", "import hypothesis\n",
        "from hypothesis import given\n", "def test() -> None:\n    from tests import depth\n",
        "if True:\n    import hypothesis.strategies as st\n", 'getoption("--depth")\n',
        "getoption(name)\n", 'importlib.import_module("tests.depth")\n',
        "from . import depth\n", "from .. import core\n",
    ],
)  # fmt: skip
def test_a_module_that_may_use_the_depth_is_not_the_same(tree: Path, text: str) -> None:
    assert not same_at_every_depth(written(tree, "test_it.py", text))


@pytest.mark.parametrize("line", ["from tests.core.drawn import x", "from tests.core import drawn"])
def test_a_module_that_imports_hypothesis_indirectly_depends_on_the_depth(
    tree: Path, line: str
) -> None:
    written(tree, "drawn.py", "from hypothesis import given\nfrom tests.core import between\n")
    written(tree, "between.py", f"{line}\n")
    assert not same_at_every_depth(written(tree, "test_it.py", "from tests.core import between\n"))


def test_a_module_below_fixtures_that_use_the_depth_depends_on_it(tree: Path) -> None:
    written(tree, "conftest.py", "from tests import depth\n")
    assert not same_at_every_depth(written(tree / "below", "test_it.py", ""))


def test_a_package_with_code_of_its_own_may_load_all_of_its_modules(tree: Path) -> None:
    tests = {}
    for name, code in (("empty", ""), ("loading", "PASSES = Registry(__name__)\n")):
        (tree / name).mkdir()
        (tree / name / "__init__.py").write_text(f'"""A package."""\n{code}')
        written(tree / name, "drawn.py", "import hypothesis\n")
        written(tree / name, "plain.py", "")
        tests[name] = written(tree, f"test_{name}.py", f"from tests.core.{name} import plain\n")
    assert same_at_every_depth(tests["empty"])
    assert not same_at_every_depth(tests["loading"])


def test_marks_count_wherever_they_are(tree: Path) -> None:
    written(tree, "cases.py", "CASES = [pytest.param(1, marks=pytest.mark.deep)]\n")
    marked = "@pytest.mark.one_in(2)\ndef test() -> None: ...\n"
    assert has_marked(written(tree, "test_half.py", marked))
    assert has_marked(written(tree, "test_cases.py", "from tests.core.cases import CASES\n"))
    assert not has_marked(written(tree, "test_plain.py", "from tests.core import plain\n"))


def test_every_test_module_that_names_the_depth_runs_at_each_depth() -> None:
    modules = [*TESTS.rglob("test_*.py")]
    same = {path for path in modules if same_at_every_depth(path)}
    drawn = re.compile(r"\b(?:is_deep|given|examples)\(|\bdepth\.\w+\(|RuleBasedStateMachine")
    named = {path for path in modules if drawn.search(path.read_text())} - {Path(__file__)}
    assert 200 < len(same) < len(modules) - 50
    assert len(named) > 50
    assert not same & named
    # It depends on the depth through its imports.
    assert TESTS / "conformance" / "test_planted_bugs.py" not in same
