"""Noted outputs are summarised before they hold much memory."""

from __future__ import annotations

import weakref

import numpy as np

from nodescope import native
from nodescope.ir.graph import Node
from nodescope.record.noted_outputs import MOST_BYTES, NotedLot
from nodescope.record.noted_rows import AT_ONCE_BYTES, Noted
from nodescope.record.operand_writers import UNKNOWN, operand_writers
from nodescope.record.queued import QueuedOutputs
from nodescope.record.timed.collected import Collected
from nodescope.record.value_rows import ValueRows

NODE = Node(1, "n1", "add", "elementwise", outputs=(1,))
EACH = 20


def lot_of(number: int) -> NotedLot:
    """Executions whose outputs nearly fill a block."""
    assert native.NotedOutputs is not None
    sink = native.NotedOutputs(256, MOST_BYTES, lambda: None, lambda: None, False)
    for place in range(EACH):
        array = np.full(12_000, number * EACH + place, np.float32)
        assert sink(NODE, 1, 1, 0, 0, 1, (), (array,))
    *taken, _ = sink.take()
    return NotedLot(*taken)


def test_copies_are_let_go_before_the_batch_ends() -> None:
    noted = Noted(Collected({}), ValueRows(), operand_writers())
    waiting: list[weakref.ref[NotedLot]] = []
    for number in range(12):
        lot = lot_of(number)
        waiting.append(weakref.ref(lot))
        noted.add(QueuedOutputs(1 + number * EACH, lot.nbytes, lot))
        del lot
        assert sum(other() is not None for other in waiting) * MOST_BYTES < 2 * AT_ONCE_BYTES
    noted.note()
    assert len(noted.measured) == 12 * EACH
    noted.measured.close()
    assert (
        sum(row[0] <= seq <= row[1] for row in noted.measured.rows for seq in (1, 12 * EACH)) == 2
    )


def test_arrays_that_move_between_lots_move_between_their_executions() -> None:
    assert native.NotedOutputs is not None
    noted = Noted(Collected({}), ValueRows(), operand_writers())
    reader = Node(2, "n2", "exp", "elementwise", inputs=(1,), outputs=(2,))
    sink = native.NotedOutputs(256, MOST_BYTES, lambda: None, lambda: None, False)
    first, latest, elsewhere, read = (np.ones(3) for _ in range(4))
    seq = 1

    def lot(*executions: tuple[Node, tuple[np.ndarray, ...], np.ndarray]) -> None:
        nonlocal seq
        for node, inputs, output in executions:
            assert sink(node, node.id, 1, 1, 0, 1, inputs, (output,))
        *taken, _ = sink.take()
        noted.add(QueuedOutputs(seq, 1, NotedLot(*taken)))
        seq += len(executions)

    lot((NODE, (), first), (NODE, (), latest), (reader, (elsewhere,), read))
    noted.moved(1, id(first), id(elsewhere))
    lot((reader, (elsewhere,), read), (reader, (latest,), read))
    noted.moved(1, id(latest), id(read))
    noted.note()
    noted.moved(1, id(latest), id(read))
    assert noted.operands == [(None, 3, 0, UNKNOWN), (None, 4, 0, 1)]
