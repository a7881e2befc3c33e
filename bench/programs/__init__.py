"""The programs of the speed table, each written for every library that it is compared with.

There is a file per program; `cases` gives its sizes, `tiny` a case that is fast enough for a test.

Invariant: no contender is timed before its numbers agree with the case's reference.
"""

from __future__ import annotations

import importlib

from bench.programs.case import Case

PROGRAMS = ("chain", "mlp", "lstm", "cnn", "transformer")


def cases(program: str) -> tuple[Case, ...]:
    """The measured cases of a program."""
    all_cases: tuple[Case, ...] = importlib.import_module(f"bench.programs.{program}").cases()
    return all_cases


def tiny(program: str) -> Case:
    """A case of a program that takes milliseconds in every library."""
    case: Case = importlib.import_module(f"bench.programs.{program}").tiny()
    return case
