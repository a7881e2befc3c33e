"""Measure the rows that exist, print the table, write bench/results/latest.json."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

from bench.measure import Row, machine_note

GROUPS = ("tiny_ops", "compiled", "execution", "networks", "levels", "pipeline", "page")
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Run the named groups, or all."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="group", help=f"any of {', '.join(GROUPS)}")
    chosen = parser.parse_args().groups or GROUPS
    if unknown := set(chosen) - set(GROUPS):
        parser.error(f"no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    note = machine_note()
    print(f"{note}\n")
    print(f"{'what':52} {'beside':22} {'figure':>14} {'must':>9} {'aim':>9}  met")
    rows: list[Row] = []
    for group in chosen:
        for row in importlib.import_module(f"bench.{group}").rows():
            rows.append(row)
            print(_line(row), flush=True)
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / "latest.json"
    target.write_text(json.dumps([_as_json(row, note) for row in rows], indent=1) + "\n")
    print(f"\nwritten to bench/results/{target.name}")
    return 0


def _line(row: Row) -> str:
    met = {None: "", True: "yes", False: "NO"}[row.reaches(row.must)]
    if row.reaches(row.aim):
        met = "aim"
    return (
        f"{row.name:52} {row.peer:22} {_number(row.figure, row.unit):>14} "
        f"{_number(row.must):>9} {_number(row.aim):>9}  {met:4} {row.detail}"
    )


def _number(figure: float | None, unit: str = "") -> str:
    if figure is None:
        return ""
    text = f"{figure:,.0f}" if figure >= 1000 else f"{figure:.3g}"
    return f"{text} {unit}".rstrip()


def _as_json(row: Row, note: str) -> dict[str, object]:
    return {
        **asdict(row),
        "ratio": row.figure if row.unit == "x" else None,
        "met": row.reaches(row.must),
        "machine": note,
    }


if __name__ == "__main__":
    sys.exit(main())
