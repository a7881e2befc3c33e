"""The table of planted faults: what ``nodescope compare`` reports for each.

    python -m tests.conformance.compare_table [--sound 50] [FAULT ...]

Each fault is planted into a separate program, which is compared with default options, as a user
would do it. Correct random programs are compared too; none may raise an alarm.

Invariant: only the status and the JSON of the command are read.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import forked
from tests.conformance.planted import all_planted, by_hand, program
from tests.conformance.planted.detectors import usable
from tests.conformance.planted.named import NAMED

BY_HAND = ("cse_waiting", "dce_waited_for", "effects_merge", "schedule_waits")
"""Faults about waiting and effects, which only explicitly built graphs have."""
_SECONDS = 300.0
_AT_ONCE = 2


@dataclass(frozen=True)
class Row:
    """The report on one program.

    Attributes:
        fault, case: The planted fault, or ``none``, and the case that it is planted in.
        status: The command's exit status; 1 if it reports that the runs differ.
        verdict: Its JSON; empty if it wrote none.
    """

    fault: str
    case: str
    status: int
    verdict: dict[str, Any]

    @property
    def told(self) -> bool:
        """Whether the command reports that the runs differ."""
        return self.status == 1 and self.verdict.get("outcome") == "differs"

    @property
    def named(self) -> bool:
        """Whether it names the right node, and the right rule, pass or kernel.

        A kernel with a single node in a played graph may have more nodes in a traced one.
        """
        _, kind, culprit = NAMED[self.fault]
        names = {*self.verdict.get("rules", ()), self.verdict.get("kernel_name")}
        names |= {self.verdict.get("name")} if kind == "kernel" else set()
        where = self.verdict.get("name") or kind in ("compilation", "provenance")
        return bool(self.told and culprit and culprit in names and where)

    def __str__(self) -> str:
        what = "named" if self.fault != "none" and self.named else "told" if self.told else "EQUAL"
        text = self.verdict.get("text", f"no verdict, status {self.status}")
        return f"{self.fault:<20} {self.case:<16} {what:<6} {text}"


def faults(names: Iterable[str] = ()) -> list[tuple[str, str]]:
    """The faults that can be planted on this machine, each with the program that shows it."""
    wanted = set(names)
    return [
        (item.name, by_hand.NAME if item.name in BY_HAND else NAMED[item.name][0])
        for item in all_planted()
        if usable(item.found_by) and (not wanted or item.name in wanted)
    ]


def sound(count: int) -> list[tuple[str, str]]:
    """Programs without a fault."""
    return [("none", f"seed {seed}") for seed in range(count)]


def compared(pairs: Sequence[tuple[str, str]], *options: str) -> list[Row]:
    """Compare programs, a few at a time in parallel."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda pair: _compared(*pair, *options), pairs))


def _compared(fault: str, case: str, *options: str) -> Row:
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        command = [sys.executable, "-m", "nodescope", "compare", "--exit", "--json", "verdict.json"]
        command += [*options, "-o", "out", program.__file__, fault, case]
        ended = forked.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, timeout=_SECONDS,
            # With this hash seed, the runs that it starts are forked as well.
            env={**os.environ, "HEADLESS": "1", "PYTHONHASHSEED": "0"},
        )  # fmt: skip
        path = Path(folder) / "verdict.json"
        return Row(fault, case, ended.returncode, json.loads(path.read_text()) if path.is_file()
                   else {})  # fmt: skip


def main() -> None:
    """Print a row for each program, and the counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.compare_table")
    parser.add_argument("--sound", type=int, default=0, help="correct random programs as well")
    parser.add_argument("--no-timing", action="store_true")
    parser.add_argument("fault", nargs="*")
    chosen = parser.parse_args()
    forked.choose(sys.platform == "linux")
    options = ("--no-timing",) if chosen.no_timing else ()
    rows = compared(faults(chosen.fault), *options)
    for row in rows:
        print(row, flush=True)
    named, told = sum(row.named for row in rows), sum(row.told for row in rows)
    print(f"{len(rows)} faults: {named} named, {told - named} told without the culprit, "
          f"{len(rows) - told} taken for equal")  # fmt: skip
    if chosen.sound:
        correct = compared(sound(chosen.sound), *options)
        alarms = [row for row in correct if row.status != 0]
        for row in alarms:
            print(row)
        print(f"{len(correct)} correct programs: {len(alarms)} alarms")


if __name__ == "__main__":
    main()
