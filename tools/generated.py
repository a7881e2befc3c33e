"""Generated files or sections: checked, or brought up to date.

Invariant: nothing outside of a section changes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def with_section(text: str, name: str, content: str) -> str:
    """A document with new content between ``<!-- NAME:begin -->`` and its end."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    head, _, rest = text.partition(begin)
    _, mark, tail = rest.partition(end)
    if not mark:
        raise ValueError(f"the document has no section {begin} … {end}")
    return f"{head}{begin}\n{content}\n{end}{tail}"


def asked_to_write(generator: str, arguments: Sequence[str] | None) -> bool:
    """Whether the generator's command has the option ``--write``, the only one."""
    parser = argparse.ArgumentParser(prog=f"python -m tools.{generator}")
    parser.add_argument("--write", action="store_true", help="write it, instead of checking it")
    return bool(parser.parse_args(arguments).write)


def update(path: Path, text: str, generator: str, *, write: bool) -> int:
    """Check that a file has this text, or with ``write`` update it; return the exit code."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return 0
    if not write:
        print(
            f"{path.name} is out of date; run: python -m tools.{generator} --write",
            file=sys.stderr,
        )
        return 1
    path.write_text(text, encoding="utf-8", newline="\n")
    return 0
