"""The native core adds the same times to steps as the Python code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodescope import native
from nodescope.ir.graph import Node
from nodescope.record.step_times import step_ledger
from nodescope.record.step_times.step_ledger import Block, StepLedger

Integers = np.ndarray[Any, Any]
NODES = (
    Node(1, "x", "add", "elementwise", outputs=(1,)),
    Node(2, "backward/x", "add", "elementwise", outputs=(2,), phase="backward"),
    Node(3, "input", "input", "leaf", outputs=(3,), role="input"),
    Node(9, "u", "add", "elementwise", outputs=(9,), phase="optimizer"),
)
UNKNOWN = (0, 4, 10, -1, 1 << 40)

# Of an execution: its node, how much later than the last one it starts, and how long it takes.
EXECUTIONS = st.tuples(
    st.sampled_from([*(node.id for node in NODES), *UNKNOWN]),
    st.integers(0, 9) | st.just(-4),
    st.integers(-2, 12),
)
# Of a step: by how much its number grows, whether it ends, how many executions run later, and all
# of its executions.
STEPS = st.tuples(
    st.integers(1, 3), st.booleans(), st.integers(0, 2), st.lists(EXECUTIONS, max_size=9)
)


def booked(steps: Any, *, core: bool, parts: int) -> tuple[list[Any], list[Any]]:
    """The sums of a run; blocks are sealed after every few steps."""
    blocks: list[Block] = []
    ledger = StepLedger(blocks.append)
    ledger.take_nodes(NODES)
    number = seq = now = 0
    pages = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_ledger, "BLOCK_STEPS", 2)
        if not core:
            patch.setattr(native, "step_additions", None)
        for at, (more, ends, later, executions) in enumerate(steps):
            number += more
            seq += 1
            began, rows = (seq, now), []
            for place, (node, wait, long) in enumerate(executions):
                seq, now = seq + 1, now + wait
                late = place >= len(executions) - later
                rows.append((seq, node, number - late * (place % 3), now, long))
            stop = now - 3 if ends else -1
            ledger.take_steps(np.array([(number, *began, stop, 1)], np.int64))
            ledger.take_executions(np.array(rows, np.int64).reshape(-1, 5))
            if at % parts == 0:
                ledger.book()
                pages.append((ledger.page.table.tolist(), ledger.marks))
        ledger.book()
        pages.append((ledger.page.table.tolist(), ledger.marks))
        late_times = ledger.late().tolist()
    return [*pages, late_times], [
        (block.row.tolist(), block.data, block.marks, block.late.tolist()) for block in blocks
    ]


@given(st.lists(STEPS, max_size=12), st.integers(1, 3))
def test_sums_are_the_same_with_and_without_the_core(steps: Any, parts: int) -> None:
    assert booked(steps, core=True, parts=parts) == booked(steps, core=False, parts=parts)


def added(rows: Any, *, cover: int = 0, sealed: int = 0) -> Any:
    assert native.step_additions is not None
    numbers, stops, parts = (np.array(x, np.int64) for x in ([1, 3], [50, -1], [-1, 0, 2]))
    found = native.step_additions(
        np.array(rows, np.int64).reshape(-1, 5), cover, parts, numbers, stops, sealed, 10
    )
    return found and tuple(np.frombuffer(part, np.int64).tolist() for part in found)


def test_neighbours_of_the_same_part_are_summed_up() -> None:
    rows = [(1, 1, 1, 10, 5), (2, 1, 1, 12, 10), (3, 2, 1, 30, 2), (4, 1, 1, 50, 1),
            (5, 1, 2, 60, 1), (6, 0, 1, 70, 9), (7, 1, 3, 71, 10)]  # fmt: skip
    covered, additions = added(rows, cover=11)
    assert covered == [11, 15, 22, 32, 51, 61, 79, 81]
    assert additions == [0, 0, 11, 0, 2, 2, 0, 10, 1, 1, 0, 2]


@pytest.mark.parametrize(
    ("rows", "sealed"),
    [
        ([(1, 1, 1, 10, 5), (2, 1, 1, 10, 5)], 0),
        ([(1, 1, 1, 10, 5), (2, 1, 1, 9, 5)], 0),
        ([(1, 1, 1, 10, 5)], 1),
    ],
    ids=["at once", "out of order", "sealed"],
)
def test_other_executions_are_left_to_python(rows: Any, sealed: int) -> None:
    assert added(rows, sealed=sealed) is None


def test_no_executions_add_nothing() -> None:
    assert added([], cover=7) == ([7], [])


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": np.zeros(4, np.int64)},
        {"rows": np.zeros(5, np.int32)},
        {"rows": np.zeros(5)},
        {"rows": b"0" * 40},
        {"stops": np.zeros(1, np.int64)},
        {"numbers": np.zeros((2, 2), np.int64)[:, 0]},
    ],
)
def test_other_numbers_are_refused(wrong: Any) -> None:
    assert native.step_additions is not None
    given = {
        "rows": np.zeros((0, 5), np.int64), "cover": 0, "parts": np.zeros(2, np.int64),
        "numbers": np.zeros(2, np.int64), "stops": np.zeros(2, np.int64), "sealed": 0, "after": 4,
    } | wrong  # fmt: skip
    with pytest.raises((ValueError, BufferError)):
        native.step_additions(*given.values())
