"""Steps that follow the step before give the recording that they would have given one by one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nodescope.adapters.torch.native_tap import choosing, fast_road
from nodescope.events import Level
from nodescope.record.recording import Recording
from tests.adapters.driving import recorded
from tests.torch import step_programs
from tests.torch.taps import tensors

Patch = pytest.MonkeyPatch
PROGRAMS = (*step_programs.FOLLOWED, *step_programs.NOT_FOLLOWED)


def _run(
    program: Callable[[], Any], path: Path, level: Level, patch: Patch, *, fast: bool
) -> tuple[Any, dict[str, Any], int]:
    """What a program returns, its recording, and how many steps followed another."""
    roads: list[fast_road.FastRoad] = []

    class Road(fast_road.FastRoad):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            roads.append(self)

    patch.setattr("nodescope.adapters.torch.attachment.FastRoad", Road)
    patch.setenv(choosing.VARIABLE, "native")
    patch.setenv(fast_road.VARIABLE, "1" if fast else "0")
    said: list[str] = []
    patch.setattr("nodescope.adapters.torch.attachment.say", said.append)
    torch.manual_seed(0)
    result = recorded(path, program, level=level)
    assert not said
    return tensors(result), _contents(path), roads[0].steps


def _contents(path: Path) -> dict[str, Any]:
    """All that a recording says, but for times; values by their order."""
    contents: dict[str, Any] = {}
    with Recording.open(path) as recording:
        database = sqlite3.connect(path)

        def ask(statement: str) -> list[Any]:
            return database.execute(statement).fetchall()

        ids: dict[int, int] = {}

        def number(id: int | None) -> int:
            return ids.setdefault(id or 0, len(ids))

        contents["values"] = [
            (number(id), *rest)
            for id, *rest in ask(
                "SELECT id, name, dtype, shape, producer, device FROM value ORDER BY row"
            )
        ]
        contents["nodes"] = [
            (
                row.seq, row.node.id, row.node.name, row.node.op, row.node.scope, row.node.phase,
                tuple(map(number, row.node.inputs)), tuple(map(number, row.node.outputs)),
                repr(row.node.attrs), row.node.forward, row.node.source, row.node.writes,
                row.node.role,
            )
            for row in recording.nodes()
        ]  # fmt: skip
        contents["executions"] = ask(
            "SELECT seq, node, step, flags, times FROM execution ORDER BY seq"
        )
        contents["steps"] = ask("SELECT step, start_seq, end_seq, observed FROM step ORDER BY step")
        contents["gradients"] = [
            (seq, number(a), number(b))
            for seq, a, b in ask("SELECT seq, value, gradient FROM gradient ORDER BY seq")
        ]
        contents["losses"] = ask(
            "SELECT seq, step, curve, node, times, value FROM loss ORDER BY row"
        )
        contents["calls"] = ask("SELECT seq, attrs FROM call ORDER BY seq")
        contents["failures"] = ask("SELECT seq, error FROM failure ORDER BY seq")
        contents["summaries"] = sorted(
            (seq, number(value), *rest)
            for value, seq, *rest in ask(
                "SELECT value, seq, step, dtype, shape, nbytes, min, max, mean, std, norm, "
                "nan_count, inf_count, zero_count, histogram, preview FROM summary"
            )
        )
        threads = ask("SELECT thread FROM execution ORDER BY seq")
        contents["threads"] = [threads.index(thread) for thread in threads]
    return contents


def _equal(fast: dict[str, Any], slow: dict[str, Any]) -> None:
    for name in slow:
        if name != "summaries":
            assert fast[name] == slow[name], name
    assert len(fast["summaries"]) == len(slow["summaries"])
    for one, other in zip(fast["summaries"], slow["summaries"], strict=True):
        assert (*one[:8], *one[11:]) == (*other[:8], *other[11:])
        for number, expected in zip(one[8:11], other[8:11], strict=True):  # the order of sums
            assert number == (expected and pytest.approx(expected, rel=1e-9, abs=1e-12))


def _draws(contents: dict[str, Any]) -> bool:
    """Whether operators drew random numbers, whose state is recorded with each."""
    return any(b"generator" in attrs for _, attrs in contents["calls"])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("level", ["timing", "summary"])
def test_the_recording_does_not_show_the_road(
    program: Callable[[], Any], level: Level, tmp_path: Path, monkeypatch: Patch
) -> None:
    torch.manual_seed(0)
    plain = tensors(program())
    slow, expected, _ = _run(program, tmp_path / "slow.nscope", level, monkeypatch, fast=False)
    fast, contents, steps = _run(program, tmp_path / "fast.nscope", level, monkeypatch, fast=True)
    for results in (slow, fast):
        assert all(map(torch.equal, plain, results))
    _equal(contents, expected)
    if program in step_programs.FOLLOWED and not (level == "summary" and _draws(contents)):
        assert steps >= 2
