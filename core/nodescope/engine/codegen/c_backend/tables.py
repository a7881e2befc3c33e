"""Tables: long runs of kernels as data, so that their compile time grows with the kernels alone.

A compiler takes longer per call the more calls a function has; thousands of calls take longer than
all kernels. A row of a table takes no compile time; at run time, building its pointers takes a few
nanoseconds.

Invariant: the same kernels run on the same memory in the same order as with a call each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

FEWEST: Final = 64
"""Runs of fewer steps contain a call for each step."""

_COLUMNS: Final = 6  # of a row, before its pointers

_RUN: Final = """
const i64 *const end = steps + sizeof steps / sizeof *steps;
for (const i64 *a = steps; a < end; a += {columns} + 2 * a[5]) {{
char *p[{most}];
i64 *m = s && a[2] ? s + 2 * a[1] : 0;
for (i64 j = 0; j < a[5]; j++) p[j] = t[a[{columns} + 2 * j]] + a[{columns} + 1 + 2 * j];
if (m) m[0] = m[1] = ns_now();
if (a[0] < 0) continue;
if (f[a[0]](p, a[3] < 0 ? (char *)a[4] : t[a[3]] + a[4])) return a[1] + 1;
if (m) m[1] = ns_now();
}}
"""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A step of a run.

    Attributes:
        function: The kernel; ``""`` for a step that only notes the time.
        place: Its number among the nodes.
        timed: Whether the step is a node, whose times are noted.
        scratch: The slot and the offset of its working memory; or -1, and the number that it takes
            instead.
        pointers: Slots and offsets of its operands and results.
        comment: The node as text, or ``""``.
    """

    function: str
    place: int
    timed: bool
    scratch: tuple[int, int]
    pointers: tuple[tuple[int, int], ...]
    comment: str = ""


def statements(rows: Sequence[TableRow], *, commented: bool = False) -> list[str]:
    """The statements of a run."""
    functions = list(dict.fromkeys(row.function for row in rows if row.function))
    numbers = {name: number for number, name in enumerate(functions)}
    lines = ["static const i64 steps[] = {"]
    for row in rows:
        cells = [
            numbers.get(row.function, -1), row.place, int(row.timed), *row.scratch,
            len(row.pointers), *(number for pointer in row.pointers for number in pointer),
        ]  # fmt: skip
        comment = f"/* {row.comment} */ " if commented and row.comment else ""
        lines.append(f"{comment}{', '.join(map(str, cells))},")
    lines.append("};")
    lines.append(f"int (*const f[])(char **, char *) = {{{', '.join(functions) or '0'}}};")
    most = max([1, *(len(row.pointers) for row in rows)])
    return [*lines, *_RUN.strip().format(columns=_COLUMNS, most=most).splitlines()]
