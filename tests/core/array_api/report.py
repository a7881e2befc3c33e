"""Runs the tests of the array API and prints counts: ``python -m tests.core.array_api.report``.

Invariant: counts only tests that ran; `DIFFERENCES` lists intended differences from the standard.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import nodescope as ns
from nodescope import array_api
from tests.core.array_api.oracle import EXTENSIONS, FUNCTIONS, signature

DIFFERENCES = {
    "promotion": "mixed kinds (int32 + float32) promote as in NumPy 2; the standard leaves it open",
    "can_cast": "says yes across kinds where NumPy does",
    "dtypes": "functions take every dtype that NumPy's take (sqrt of integers gives float64)",
    "sign": "of complex infinities and subnormals is NumPy's limit, not x / abs(x)",
    "asarray, from_dlpack": "copy=False is refused for everything but tensors: tensors own their "
    "elements",
    "empty, empty_like": "are zeros, so that runs repeat",
    "linalg, fft": "take NumPy's arguments besides the standard's",
    "__array__": "is refused: a tensor leaves the graph by .numpy() or DLPack only",
    "isin, float16, bfloat16": "stand beside the names of 2024.12",
}


class _Counts:
    """A plugin of pytest that counts outcomes by file."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        """See pytest."""
        if report.when == "call" or report.failed:
            section = Path(report.nodeid.partition("::")[0]).stem.removeprefix("test_")
            self.outcomes[section, report.outcome] += 1
            if report.failed:
                self.failed.append(report.nodeid)


def names() -> list[tuple[str, int, int, int]]:
    """By section, the number of the standard's names, of those present, and of equal signatures."""
    rows = []
    for section in dict.fromkeys(array_api.NAMES.values()):
        wanted = [name for name, where in array_api.NAMES.items() if where == section]
        known = [name for name in wanted if name in FUNCTIONS]
        equal = [n for n in known if signature(getattr(ns, n)) == signature(FUNCTIONS[n])]
        present = [name for name in wanted if hasattr(ns, name)]
        rows.append((section, len(wanted), len(present), len(wanted) - len(known) + len(equal)))
    for space, functions in EXTENSIONS.items():
        module = getattr(ns, space)
        present = [name for name in functions if hasattr(module, name)]
        equal = [n for n in present if signature(getattr(module, n)) == signature(functions[n])]
        rows.append((space, len(functions), len(present), len(equal)))
    return rows


def main() -> int:
    """Run the tests and print the counts; returns pytest's exit code."""
    counts = _Counts()
    folder = str(Path(__file__).parent)
    code = pytest.main([folder, "-q", "--no-header", "-p", "no:cacheprovider"], plugins=[counts])
    print(f"\n{'section':<14}{'names':>7}{'there':>7}{'same signature':>16}")
    for section, wanted, present, equal in names():
        print(f"{section:<14}{wanted:>7}{present:>7}{equal:>16}")
    print(f"\n{'tests':<14}{'passed':>7}{'failed':>7}")
    for section in sorted({item for item, _ in counts.outcomes}):
        passed, failed = (counts.outcomes[section, item] for item in ("passed", "failed"))
        print(f"{section:<14}{passed:>7}{failed:>7}")
    print("\nOn purpose other than the standard or its strict implementation:")
    for difference, why in DIFFERENCES.items():
        print(f"  {difference}: {why}")
    for item in counts.failed:
        print("FAILED", item)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
