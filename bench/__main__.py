"""Measure the rows that exist, print the table, write them into bench/results/latest.json.

Invariant: the rows of groups that are not measured are unchanged in the file.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

from bench import processes
from bench.measure import Row, machine_note

GROUPS = ("tiny_ops", "numpy_calls", "compiled", "compiled_programs", "compile_times",
          "unrolled", "memory", "execution", "networks", "levels", "sample_levels", "default",
          "wall", "governed", "stops", "pipeline", "page", "layouts", "torch_tap",
          "torch_default", "ray_tasks", "ray_partitions", "cuts")  # fmt: skip
LATEST = Path(__file__).parent / "results" / "latest.json"


def main() -> int:
    """Run the named groups, or all."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=_said())
    parser.add_argument("groups", nargs="*", metavar="group", help=f"any of {', '.join(GROUPS)}")
    parser.add_argument("--profile", metavar="PROGRAM",
                        help="print instead where the time of a compiled program goes: chain, mlp, "
                        "lstm, cnn, transformer")  # fmt: skip
    parser.add_argument("--threads", type=int, default=1, help="for --profile; default: 1")
    options = parser.parse_args()
    if options.profile:
        return _profile(options.profile, options.threads)
    chosen = options.groups or GROUPS
    if unknown := set(chosen) - set(GROUPS):
        parser.error(f"no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    note = machine_note()
    print(f"{note}\n")
    print(f"{'what':52} {'beside':22} {'figure':>14} {'must':>9} {'aim':>9}  met")
    for group in chosen:
        rows: list[Row] = []
        for row in importlib.import_module(f"bench.{group}").rows():
            rows.append(row)
            print(_line(row), flush=True)
        _write(group, [_as_json(row, note) for row in rows])
    print(f"\nwritten to bench/results/{LATEST.name}")
    return 0


def _said() -> str:
    return (__doc__ or "").partition("\n")[0]


def _write(group: str, rows: list[dict[str, object]]) -> None:
    """Replace the group's rows in the file."""
    known = json.loads(LATEST.read_text()) if LATEST.is_file() else {}
    figures = {**known, group: rows}
    LATEST.parent.mkdir(exist_ok=True)
    LATEST.write_text(
        json.dumps(
            {group_name: figures[group_name] for group_name in GROUPS if group_name in figures},
            indent=1,
        )
        + "\n"
    )


def _profile(program: str, threads: int) -> int:
    processes.confine(threads)  # before anything that loads NumPy
    known: tuple[str, ...] = importlib.import_module("bench.programs").PROGRAMS
    if program not in known:
        print(f"no program {program}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    print(f"{machine_note()}, {processes.said(threads)}\n")
    for line in importlib.import_module("bench.profiling").lines(program):
        print(line, flush=True)
    return 0


def _line(row: Row) -> str:
    met = {None: "", True: "yes", False: "NO"}[row.reaches(row.must)]
    if row.reaches(row.aim):
        met = "aim"
    beside = ", ".join(f"{_number(ratio, 'x')} {peer}" for peer, ratio in row.beside.items())
    detail = "; ".join(part for part in (row.detail, beside) if part)
    return (
        f"{row.name:52} {row.peer:22} {_number(row.figure, row.unit):>14} "
        f"{_number(row.must):>9} {_number(row.aim):>9}  {met:4} {detail}"
    )


def _number(figure: float | None, unit: str = "") -> str:
    if figure is None:
        return "" if not unit else "not measured"
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
