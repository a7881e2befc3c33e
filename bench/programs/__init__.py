"""The programs of the speed table, each written for every library that it is measured beside.

A file per program; `cases` gives its sizes, `tiny` a case that a test can afford.

Invariant: nothing is timed before all contenders of a case have given the same numbers.
"""

from __future__ import annotations

import importlib

from bench.programs.case import Case

PROGRAMS = ("chain", "mlp", "lstm", "cnn", "transformer")


def cases(program: str) -> tuple[Case, ...]:
    """The cases of a program that are measured."""
    all_cases: tuple[Case, ...] = importlib.import_module(f"bench.programs.{program}").cases()
    return all_cases


def tiny(program: str) -> Case:
    """A case of a program that takes milliseconds in every library."""
    case: Case = importlib.import_module(f"bench.programs.{program}").tiny()
    return case
