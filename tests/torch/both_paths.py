"""Records a program twice: with steps that follow scripts, and operator by operator."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

from nodescope.adapters.torch.native_tap import choosing, fast_path
from nodescope.record.measured import packing
from nodescope.record.measured.measured_table import values_of
from nodescope.record.recording import Recording
from tests.adapters.driving import recorded
from tests.torch.taps import tensors


def run(
    program: Callable[[], Any],
    path: Path,
    patch: pytest.MonkeyPatch,
    *,
    fast: bool,
    tap: str = "native",
    **options: Any,
) -> tuple[Any, dict[str, Any], int]:
    """A program's result, its recording, and the number of steps that followed a script."""
    paths: list[fast_path.StepFastPath] = []

    class FastPath(fast_path.StepFastPath):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            paths.append(self)

    patch.setattr("nodescope.adapters.torch.attachment.StepFastPath", FastPath)
    patch.setenv(choosing.VARIABLE, tap)
    patch.setenv(fast_path.VARIABLE, "1" if fast else "0")
    said: list[str] = []
    patch.setattr("nodescope.adapters.torch.attachment.say", said.append)
    torch.manual_seed(0)
    result = recorded(path, program, **options)
    assert not said
    return tensors(result), _contents(path), paths[0].steps


def _contents(path: Path) -> dict[str, Any]:
    """A recording's contents without times; values are numbered by their order."""
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
        executions = recording.executions()
        contents["executions"] = [(row.seq, row.node, row.step, row.flags) for row in executions]
        state = recording.state_at(recording.last_seq())
        contents["times"] = [(row.seq, times) for row, times in state]
        contents["steps"] = ask("SELECT step, start_seq, end_seq, observed FROM step ORDER BY step")
        contents["gradients"] = [
            (seq, number(a), number(b))
            for seq, a, b in ask("SELECT seq, value, gradient FROM gradient ORDER BY seq")
        ]
        contents["losses"] = ask(
            "SELECT seq, step, curve, node, times, value FROM loss ORDER BY row"
        )
        contents["calls"] = ask("SELECT seq, attrs FROM call ORDER BY seq")
        contents["scopes"] = ask("SELECT seq, data FROM document WHERE kind = 'scope' ORDER BY row")
        contents["failures"] = ask("SELECT seq, error FROM failure ORDER BY seq")
        contents["summaries"] = sorted(
            (seq, number(value), *rest)
            for value, seq, *rest in chain(
                ask(
                    "SELECT value, seq, step, dtype, shape, nbytes, min, max, mean, std, norm, "
                    "nan_count, inf_count, zero_count, histogram, preview FROM summary"
                ),
                _measured(ask("SELECT first_seq, last_seq, outputs, data FROM measured")),
            )
        )
        contents["blobs"] = sorted(
            (seq, number(value), array.dtype.name, array.shape, array.tobytes())
            for value, seq in ask("SELECT value, seq FROM blob")
            if (array := recording.array(value, seq)) is not None
        )
        threads = [row.thread for row in executions]
        contents["threads"] = [threads.index(thread) for thread in threads]
    return contents


def _measured(rows: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Statistics from columns, as rows of ``summary``."""
    for first, last, values, data in rows:
        yield from packing.unpacked(first, last, values_of(values), data).rows()


def check_equal(fast: dict[str, Any], slow: dict[str, Any]) -> None:
    """Check that two recordings have the same contents."""
    for name in slow:
        if name != "summaries":
            assert fast[name] == slow[name], name
    assert len(fast["summaries"]) == len(slow["summaries"])
    for one, other in zip(fast["summaries"], slow["summaries"], strict=True):
        assert (*one[:8], *one[11:]) == (*other[:8], *other[11:])
        # Sums may be added in another order.
        for number, expected in zip(one[8:11], other[8:11], strict=True):
            assert number == (expected and pytest.approx(expected, rel=1e-9, abs=1e-12))
