"""The order of the tests for several workers."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tests.order import dealt

SIZES = {
    "tests/core/ir/test_text.py": 50, "tests/core/cli/test_run.py": 9, "tests/e2e/test_looks.py": 3,
    "tests/e2e/test_why.py": 2, "tests/samples/test_broken.py": 7, "tests/test_tidy.py": 29,
}  # fmt: skip


def made() -> list[Any]:
    return [
        SimpleNamespace(nodeid=f"{module}::test_{number}")
        for module, size in SIZES.items()
        for number in range(size)
    ]


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7, 200])
def test_each_test_is_run_once_and_those_of_a_module_in_their_order(workers: int) -> None:
    order = [item.nodeid for item in dealt(made(), workers)]
    assert Counter(order) == Counter(item.nodeid for item in made())
    for module, size in SIZES.items():
        module_tests = [name for name in order if name.startswith(f"{module}::")]
        assert module_tests == [f"{module}::test_{number}" for number in range(size)]


def test_every_row_begins_with_what_is_slow_and_ends_with_what_is_quick() -> None:
    modules = [item.nodeid.partition("::")[0] for item in dealt(made(), 4)]
    rows = [modules[start : start + 25] for start in range(0, 100, 25)]
    assert [row[0] for row in rows] == [
        "tests/e2e/test_looks.py", "tests/e2e/test_why.py",
        "tests/core/cli/test_run.py", "tests/samples/test_broken.py",
    ]  # fmt: skip
    assert {row[-1] for row in rows} <= {"tests/core/ir/test_text.py", "tests/test_tidy.py"}
