"""``nodescope runs``: the recordings of this folder, and recent ones elsewhere, as a table.

Invariant: nothing is opened for writing, and an unreadable file is a row like any other.
"""

from __future__ import annotations

import argparse
import os
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from nodescope.console_output import show, visible
from nodescope.record.overview import Glance, glance
from nodescope.record.recent import recent, recordings_of

_THREADS: Final = 4
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_HEAD: Final = ("STARTED", "PROGRAM", "RUN TIME", "STEPS", "OUTCOME", "SIZE", "RECORDING")


def runs(options: argparse.Namespace) -> int:
    """Print the table, latest first; return the exit status."""
    folder = Path.cwd()
    paths = dict.fromkeys(recordings_of(folder))
    if options.all:
        paths |= dict.fromkeys(recent())
    dated = sorted(((_changed(path), path) for path in paths), reverse=True)
    chosen = [path for at, path in dated if at][: options.number]
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            glances = list(zip(chosen, pool.map(glance, chosen), strict=True))
    except RuntimeError:  # the system refuses another thread
        glances = [(path, glance(path)) for path in chosen]
    # A long run is written later than runs that began after it.
    glances.sort(key=lambda run: run[1].started_unix_ns or run[1].changed_unix_ns, reverse=True)
    rows = [_row(path, run, folder) for path, run in glances]
    if not rows:
        hint = "" if options.all else "; --all lists recent ones elsewhere"
        show(f"no recordings here; 'nodescope run train.py' makes one{hint}")
        return 0
    widths = [max(len(row[i]) for row in (_HEAD, *rows)) for i in range(len(_HEAD))]
    for row in (_HEAD, *rows):
        cells = [
            text.rjust(width) if name in ("RUN TIME", "STEPS", "SIZE") else text.ljust(width)
            for text, width, name in zip(row, widths, _HEAD, strict=True)
        ]
        show("  ".join(cells).rstrip())
    left = len(dated) - len(rows)
    if left > 0:
        show(f"and {left:,} older; -n lists more")
    return 0


def _changed(path: Path) -> float:
    try:
        at = path.stat()
    except OSError:
        return 0.0
    return at.st_mtime if at.st_size else 0.0


def _row(path: Path, run: Glance, folder: Path) -> tuple[str, ...]:
    started = (run.started_unix_ns or run.changed_unix_ns) / 1e9
    program = " ".join([run.name, *map(shlex.quote, run.argv[1:])])
    shown_path = str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
    unreadable = run.outcome == "unreadable"
    return tuple(
        map(
            _in_a_cell,
            (
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started)),
                program if len(program) <= 60 else program[:59] + "…",
                "-" if unreadable else _duration(run.ran_ns),
                "-" if unreadable else f"{run.steps:,}",
                outcome_word(run),
                _size(run.nbytes),
                os.fspath(shown_path),
            ),
        )
    )


def outcome_word(run: Glance) -> str:
    """How a run ended: ``finished``, ``ValueError``, ``status 3``, ``finished, NaN since step
    4``.
    """
    word: str = run.outcome
    if run.outcome == "failed":
        kind = run.error.partition(":")[0]
        plain = kind.replace(".", "_").isidentifier() and kind != "SystemExit"
        word = kind if plain else f"status {run.status}"
    return word if run.broken_loss is None else f"{word}, {run.broken_loss}"


def _duration(ns: int) -> str:
    seconds = ns / 1e9
    if seconds >= 59.995:  # a value that would be rounded up to the next unit is shown in that unit
        seconds = max(seconds, 60.0)
        return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
    return f"{seconds:.2f} s" if seconds >= 0.9995 else f"{seconds * 1e3:.0f} ms"


def _size(nbytes: float) -> str:
    for unit in _UNITS:
        if nbytes < 1024 or unit == _UNITS[-1]:
            break
        nbytes /= 1024
    return f"{nbytes:.0f} {unit}" if nbytes >= 100 or unit == "B" else f"{nbytes:.1f} {unit}"


def _in_a_cell(text: str) -> str:
    """Text for a cell, without line breaks and tabs, which would begin another row or column."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")
