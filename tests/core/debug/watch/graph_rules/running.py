"""Records a program in this process, and evaluates rules on the recording."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import nodescope as ns
from nodescope.debug.watch.offline import Asking, Coverage
from nodescope.debug.watch.watch import Hit, Watch
from nodescope.record.recording import Recording

Program = Callable[[], Any]


class Judged(NamedTuple):
    """The result of rules on a program: hits, each with its line, and the covered nodes."""

    hits: list[tuple[Hit, int]]
    coverage: Coverage


def judge(program: Program, path: Path, rules: Iterable[str]) -> Judged:
    """Record a program and evaluate rules on it. A rule that fails is an error."""
    faults: list[str] = []
    with ns.record(path, level="values"):
        program()
    with Recording.open(path) as recording:
        lines = {row.node.id: row.node.source.line for row in recording.nodes() if row.node.source}
        asking = Asking(recording, [Watch(rule) for rule in rules], on_fault=faults.append)
        hits = [(hit, lines.get(hit.node, 0)) for hit in asking]
        coverage = asking.coverage()
    assert faults == []
    return Judged(hits, coverage)


@functools.cache
def marked(program: Program) -> set[tuple[str, int]]:
    """The rules and lines at which a program must have hits.

    A line says ``# hit: RULE``, or outside of the program ``# hit: RULE in PROGRAM``.
    """
    lines, first = inspect.getsourcelines(program)
    own = range(first, first + len(lines))
    text = inspect.getsource(inspect.getmodule(program) or program).splitlines()
    return {
        (match[1], number)
        for number, line in enumerate(text, 1)
        for match in re.finditer(r"# hit: (\w+)(?: in (\w+))?", line)
        if (match[2] == program.__name__ if match[2] else number in own)
    }
