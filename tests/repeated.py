"""Which tests are the same at every depth: ``make test`` has run them, and need not run twice.

``pytest --depth deep --no-repeats`` leaves these out. A test is the same if nothing that its module
is made of knows of a depth: neither the module, nor a ``conftest.py`` above it, nor what any of
these imports from this repository reads `tests.depth` or draws by Hypothesis, whose number of
examples the depth sets. What is marked as ``deep`` or ``one_in(n)`` is run in any case.

Invariant: a module in doubt is run. Imports are read from the text, wherever they are in it. If a
package has code of its own, which may load its modules, all of its modules count as imported.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_OWN: Final = ("bench", "samples", "tests", "tools")
# The file with all options of tests. It sets the depth; no fixture reads it.
_OPTIONS: Final = ROOT / "tests" / "conftest.py"
_FROM: Final = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)", re.M)
_IMPORT: Final = re.compile(r"^[ \t]*import[ \t]+([^\n]+)", re.M)
_NAME: Final = re.compile(r"[\w.]+")
_READS: Final = re.compile(
    r"""\bhypothesis\b|\btests\.depth\b|\bimport_module\(.tests|\bgetoption\((?!"--(?!depth))"""
)
_MARKS: Final = re.compile(r"\bmark\.(?:deep|one_in)\b")
_CODE: Final = re.compile(r'\s*(?:"""(?:[^"]|"(?!""))*""")?\s*')


def same_at_every_depth(module: Path) -> bool:
    """Whether the tests of a module, but for the marked ones, are the same at every depth."""
    return not any(map(_reads_depth, _parts(module)))


def has_marked(module: Path) -> bool:
    """Whether some tests of a module may be marked for a depth."""
    return any(_MARKS.search(_text(part)) for part in _parts(module))


@functools.cache
def _parts(module: Path) -> frozenset[Path]:
    """A module, the ``conftest.py`` above it, and what they import of this repository."""
    above = [folder / "conftest.py" for folder in module.parents if folder.is_relative_to(ROOT)]
    todo = [module, *(path for path in above if path.is_file())]
    parts: set[Path] = set()
    while todo:
        part = todo.pop()
        if part not in parts and part != _OPTIONS:
            parts.add(part)
            todo += _imported(part)
    return frozenset(parts)


@functools.cache
def _imported(path: Path) -> tuple[Path, ...]:
    return tuple(file for name in _imports(_text(path)) for file in _files(name))


def _imports(text: str) -> Iterator[str]:
    """The dotted names of what is imported: modules, and what may be a module of a package."""
    for module, names in _FROM.findall(text):
        yield module
        for name in _NAME.findall(names):
            yield f"{module}.{name}"
    for names in _IMPORT.findall(text):
        yield from _NAME.findall(names)


def _files(name: str) -> Iterator[Path]:
    """The files that an import of a dotted name runs, and those that it may load besides."""
    words = name.split(".")
    if words[0] not in _OWN:
        return
    for end in range(1, len(words) + 1):
        place = ROOT.joinpath(*words[:end])
        if (start := place / "__init__.py").is_file():
            yield start
            if _CODE.sub("", _text(start), count=1):
                yield from place.glob("*.py")
        elif (file := place.with_suffix(".py")).is_file():
            yield file


@functools.cache
def _reads_depth(path: Path) -> bool:
    text = _text(path)
    return bool(_READS.search(text)) or any(
        name == "tests.depth" or name.startswith(".") for name in _imports(text)
    )


@functools.cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
