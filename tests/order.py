"""The order in which several workers run the tests: first those that wait for processes.

pytest-xdist's ``worksteal`` gives each worker as many tests, in a row; who has finished takes over
from the end of the longest row. So the slow modules are dealt out to the beginnings of the rows,
and what is taken over is quick. A browser is started by each worker that has tests in one: by few.

Invariant: the same tests, each once, and those of a module in their order; all workers agree.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests import depth

_BROWSER = "e2e/"


def dealt(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Reorder tests for ``workers`` workers; unchanged for one."""
    if workers < 2:
        return list(items)
    modules: dict[str, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(_module(item), []).append(item)
    rows: list[list[pytest.Item]] = [[] for _ in range(workers)]
    slow = [name for name in modules if depth.is_slow(name)]
    in_browser = [name for name in slow if name.startswith(_BROWSER)]
    _deal(rows[: workers // 2], [modules.pop(name) for name in in_browser])
    _deal(rows, [modules.pop(name) for name in slow if name in modules])
    rest = [item for module in modules.values() for item in module]
    found: list[pytest.Item] = []
    for row, length in zip(rows, _lengths(len(items), workers), strict=True):
        missing = max(length - len(row), 0)
        found += row + rest[:missing]
        del rest[:missing]
    return found + rest


def _module(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0].removeprefix("tests/")


def _deal(rows: list[list[pytest.Item]], modules: list[list[pytest.Item]]) -> None:
    """Give each module to the shortest row, the largest first."""
    for module in sorted(modules, key=len, reverse=True):
        min(rows, key=len).extend(module)


def _lengths(tests: int, workers: int) -> list[int]:
    """How many tests each worker is given at first."""
    lengths = []
    for left in range(workers, 0, -1):
        lengths.append((tests - sum(lengths)) // left)
    return lengths
