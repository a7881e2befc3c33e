"""What linters cannot check: file sizes, module docstrings, marks of unfinished work."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAX_LINES = 600
SUFFIXES = {".py", ".ts", ".tsx"}
# In pieces, so that this file does not match itself.
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
# Nearly all modules begin like this; only the others are parsed.
DOCUMENTED = re.compile(r'"""\w')


def sources() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    paths = [ROOT / part for part in listed.split("\0") if part]
    return [path for path in paths if path.suffix in SUFFIXES and path.is_file()]


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    results = {str(path.relative_to(ROOT)): path.read_text() for path in sources()}
    assert len(results) > 50, "git lists too few sources for these checks to mean anything"
    return results


def test_no_file_is_too_long(texts: dict[str, str]) -> None:
    long = {
        name: count
        for name, text in texts.items()
        if (count := text.count("\n")) > MAX_LINES and not name.endswith(".gen.ts")
    }
    assert not long, f"split these: {long}"


def test_every_python_module_says_what_it_is_for(texts: dict[str, str]) -> None:
    silent = [
        name
        for name, text in texts.items()
        if name.endswith(".py")
        and text.strip()
        and not DOCUMENTED.match(text)
        and not ast.get_docstring(ast.parse(text))
    ]
    assert not silent


def test_nothing_is_marked_as_unfinished(texts: dict[str, str]) -> None:
    marked = [name for name, text in texts.items() if UNFINISHED.search(text)]
    assert not marked


def test_lock_files_name_no_registry() -> None:
    for lock in ROOT.glob("web/**/package-lock.json"):
        if "node_modules" not in lock.parts:
            assert '"resolved"' not in lock.read_text(), lock


def test_architecture_names_every_room() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = [
        path.name
        for path in (ROOT / "core" / "nodescope").iterdir()
        if (path / "__init__.py").is_file()
    ]
    assert rooms
    missing = [name for name in rooms if f"`{name}/`" not in text]
    assert not missing
