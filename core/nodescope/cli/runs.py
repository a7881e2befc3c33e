"""``nodescope runs``: the recordings of this folder, and recent ones elsewhere, as a table.

Invariant: nothing is opened for writing, and a file that cannot be read is a line like any other.
"""

from __future__ import annotations

import argparse
import os
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from nodescope.record.glance import Glance, glance
from nodescope.record.recent import recent, recordings_of

_THREADS: Final = 4
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_HEAD: Final = ("STARTED", "PROGRAM", "DURATION", "STEPS", "OUTCOME", "SIZE", "RECORDING")


def runs(options: argparse.Namespace) -> int:
    """Print the table, the latest first; the exit status."""
    here = Path.cwd()
    paths = dict.fromkeys(recordings_of(here))
    if options.all:
        paths |= dict.fromkeys(recent())
    dated = sorted(((_changed(path), path) for path in paths), reverse=True)
    with ThreadPoolExecutor(_THREADS) as pool:
        chosen = [path for at, path in dated if at][: options.number]
        seen = list(zip(chosen, pool.map(glance, chosen), strict=True))
    # A run that took long was written after those that began later.
    seen.sort(key=lambda run: run[1].started_unix_ns or run[1].changed_unix_ns, reverse=True)
    rows = [_row(path, run, here) for path, run in seen]
    if not rows:
        more = "" if options.all else "; --all lists recent ones elsewhere"
        print(f"no recordings here; 'nodescope run train.py' makes one{more}")
        return 0
    widths = [max(len(row[i]) for row in (_HEAD, *rows)) for i in range(len(_HEAD))]
    for row in (_HEAD, *rows):
        cells = [
            text.rjust(width) if name in ("DURATION", "STEPS", "SIZE") else text.ljust(width)
            for text, width, name in zip(row, widths, _HEAD, strict=True)
        ]
        print("  ".join(cells).rstrip())
    left = len(dated) - len(rows)
    if left > 0:
        print(f"and {left:,} older; -n lists more")
    return 0


def _changed(path: Path) -> float:
    try:
        at = path.stat()
    except OSError:
        return 0.0
    return at.st_mtime if at.st_size else 0.0


def _row(path: Path, seen: Glance, here: Path) -> tuple[str, ...]:
    started = (seen.started_unix_ns or seen.changed_unix_ns) / 1e9
    program = " ".join([seen.name, *map(shlex.quote, seen.argv[1:])])
    shown = str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
    unreadable = seen.outcome == "unreadable"
    return tuple(
        map(
            _clean,
            (
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started)),
                program if len(program) <= 60 else program[:59] + "…",
                "-" if unreadable else _duration(seen.duration_ns),
                "-" if unreadable else f"{seen.steps:,}",
                outcome_word(seen),
                _size(seen.nbytes),
                os.fspath(shown),
            ),
        )
    )


def outcome_word(seen: Glance) -> str:
    """How it ended, in a word or two: ``finished``, ``ValueError``, ``status 3``, ``killed``."""
    if seen.outcome != "failed":
        return seen.outcome
    kind = seen.error.partition(":")[0]
    plain = kind.replace(".", "_").isidentifier() and kind != "SystemExit"
    return kind if plain else f"status {seen.status}"


def _duration(ns: int) -> str:
    seconds = ns / 1e9
    if seconds >= 60:
        return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def _size(nbytes: float) -> str:
    for unit in _UNITS:
        if nbytes < 1024 or unit == _UNITS[-1]:
            break
        nbytes /= 1024
    return f"{nbytes:.0f} {unit}" if nbytes >= 100 or unit == "B" else f"{nbytes:.1f} {unit}"


def _clean(text: str) -> str:
    """Without what a terminal would take for commands."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
