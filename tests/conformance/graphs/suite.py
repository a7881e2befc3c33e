"""Checks many cases, and shows the first failure shrunk as far as possible.

Invariant: the same seeds give the same cases in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.conformance.graphs.making import Case
from tests.conformance.graphs.random_graph import random_case
from tests.conformance.graphs.shrink import fails, smallest


def holds(check: Callable[[Case], object], cases: Iterable[Case]) -> None:
    """Run the check on all cases; show a shrunk form of the first failure."""
    for case in cases:
        if fails(check, case) is not None:
            _, error = smallest(check, case)
            raise AssertionError(
                f"{case.name}, as small as it gets:\n{error!r}\n{error}"
            ) from error


def seeds(first: int, count: int) -> list[Case]:
    """Random graphs."""
    return [random_case(seed) for seed in range(first, first + count)]
