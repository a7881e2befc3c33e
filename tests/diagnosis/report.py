"""The table of the corpus: ``python -m tests.diagnosis.report [--jobs N] [-o FILE] [NAME...]``.

For each broken program, it shows whether the fault was found and the culprit named, and by which
rules; for the twins and the correct programs, false alarms with their text.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests import forked
from tests.diagnosis.case import Broken, Right, reached
from tests.diagnosis.cases import BROKEN, RIGHT
from tests.diagnosis.runner import Judgement, false_alarms, judge, run_case, run_twin

ALL: Final = [case.name for case in (*BROKEN, *RIGHT)]


@dataclass(frozen=True)
class Row:
    """A program in the table.

    Attributes:
        judgement: The judgement on a broken program.
        alarms: False alarms in its twin or in a correct program, or why it could not run.
        failed: Suggested next commands that failed, including the twin's.
        goals: Whether the correct program reached its goal, and the broken one did not.
    """

    name: str
    what: str
    judgement: Judgement | None
    alarms: tuple[str, ...]
    failed: tuple[str, ...] = ()
    goals: bool = False


def rows(folder: Path, names: Collection[str] = (), jobs: int = 1) -> Iterator[Row]:
    """Run the named programs, or all; yields each row once those before it are finished."""
    work: list[Callable[[], Row]] = [
        *(partial(_broken_row, case, folder) for case in BROKEN if case.name in (names or ALL)),
        *(partial(_right_row, case, folder) for case in RIGHT if case.name in (names or ALL)),
    ]
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda job: job(), work)


def _broken_row(case: Broken, folder: Path) -> Row:
    try:
        twin = run_twin(case, folder)
        broken = run_case(case, folder)
        alarms = tuple(false_alarms(twin))
        failed = broken.failed + twin.failed
        goals = reached(case.goal, twin.printed) and not reached(case.goal, broken.printed)
        return Row(case.name, case.kind, judge(case, broken, twin), alarms, failed, goals)
    except Exception as error:
        return Row(case.name, case.kind, Judgement((), "", (), ""), (_failed(error),))


def _right_row(case: Right, folder: Path) -> Row:
    try:
        right = run_case(case, folder)
        goal, alarms = reached(case.goal, right.printed), tuple(false_alarms(right))
        return Row(case.name, case.oddity, None, alarms, right.failed, goal)
    except Exception as error:
        return Row(case.name, case.oddity, None, (_failed(error),))


def _failed(error: Exception) -> str:
    return f"COULD NOT BE RUN: {traceback.format_exception_only(error)[-1].strip()[-300:]}"


def counts(table: Sequence[Row]) -> dict[str, int]:
    """The totals at the end of the table."""
    broken = [(row, row.judgement) for row in table if row.judgement is not None]
    right = [row for row in table if row.judgement is None]
    return {
        "broken": len(broken),
        "found": sum(judgement.found for _, judgement in broken),
        "named": sum(judgement.named for _, judgement in broken),
        "noisy twins": sum(bool(row.alarms) for row, _ in broken),
        "right": len(right),
        "false alarms": sum(bool(row.alarms) for row in right),
        "failed commands": sum(len(row.failed) for row in table),
    }


def words(row: Row) -> str:
    """A row as several lines of text."""
    judgement, lines = row.judgement, []
    if judgement is None:
        lines.append(f"right   {'ALARM' if row.alarms else 'ok':5}  {row.name}: {row.what}")
    else:
        named = f"named in {judgement.named_by}" if judgement.named else "NOT named"
        if judgement.named_by == "aside":
            named += " (only among all that is listed)"
        lines.append(
            f"broken  {'found' if judgement.found else 'MISS':5}  {row.name}: {row.what}; "
            f"{named}; by {', '.join(judgement.found_by) or 'nothing'}"
        )
        if judgement.other:
            lines.append(f"           not about it: {', '.join(judgement.other)}")
        lines.append(f"           first: {judgement.first[:220] or '-'}")
    whose = "" if judgement is None else "twin "
    lines += [f"           {whose}ALARM {alarm[:260]}" for alarm in row.alarms]
    if not row.goals:
        lines.append("           GOAL missed by a correct program, or reached by a broken one")
    lines += [f"           FAILED {command[:360]}" for command in row.failed]
    return "\n".join(lines)


def summary(table: Sequence[Row]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts(table).items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="programs; all by default")
    parser.add_argument("--jobs", type=int, default=2, help="how many run at once")
    parser.add_argument("-o", type=Path, help="write the table here, too")
    parser.add_argument("--keep", type=Path, help="a folder for programs and recordings")
    options = parser.parse_args()
    forked.choose(sys.platform == "linux")
    table: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary:
        for row in rows(options.keep or Path(temporary), options.names, options.jobs):
            print(words(row), flush=True)
            table.append(row)
    print(summary(table))
    if options.o is not None:
        text = "\n".join([*map(words, table), summary(table)])
        options.o.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
