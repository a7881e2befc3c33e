"""The order in which several workers run the tests: those that wait for processes come first.

pytest-xdist's ``worksteal`` gives each worker an equal row of tests; a worker that has finished
takes tests from the end of the longest row. So slow modules are put at the beginnings of the rows,
and the tests that move are quick. Each worker with browser tests starts a browser, so few get them.

Invariant: each test is there once, in its module's order; all workers compute the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests import depth

_BROWSER = "e2e/"
_LONG = ("core/record/test_operand_writers.py",)
"""Modules that are not slow at the depth ``quick``, but at the depth ``deep``."""


def dealt(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Reorder tests for ``workers`` workers; unchanged for one."""
    if workers < 2:
        return list(items)
    modules: dict[str, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(_module(item), []).append(item)
    rows: list[list[pytest.Item]] = [[] for _ in range(workers)]
    slow = [name for name in modules if depth.is_slow(name) or name in _LONG]
    in_browser = [name for name in slow if name.startswith(_BROWSER)]
    _deal(rows[: workers // 2], [modules.pop(name) for name in in_browser])
    _deal(rows, [modules.pop(name) for name in slow if name in modules])
    rest = [item for module in modules.values() for item in module]
    order: list[pytest.Item] = []
    for row, length in zip(rows, _lengths(len(items), workers), strict=True):
        missing = max(length - len(row), 0)
        order += row + rest[:missing]
        del rest[:missing]
    return order + rest


def _module(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0].removeprefix("tests/")


def _deal(rows: list[list[pytest.Item]], modules: list[list[pytest.Item]]) -> None:
    """Give each module to the shortest row, the largest first."""
    for module in sorted(modules, key=len, reverse=True):
        min(rows, key=len).extend(module)


def _lengths(tests: int, workers: int) -> list[int]:
    """The number of tests that each worker gets at first."""
    lengths = []
    for left in range(workers, 0, -1):
        lengths.append((tests - sum(lengths)) // left)
    return lengths
