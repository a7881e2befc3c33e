"""Noted outputs are summarised before they hold much memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodescope import native
from nodescope.events import ArrayMoved
from nodescope.ir.graph import Node
from nodescope.record.noted_outputs import MOST_BYTES, MOVE, NotedLot, statistics_of
from nodescope.record.noted_rows import AT_ONCE_BYTES, Noted
from nodescope.record.operand_writers import UNKNOWN, operand_writers
from nodescope.record.queue_writer import QueueWriter
from nodescope.record.queued import QueuedOutputs, QueuedRecord
from nodescope.record.recorder import Recorder
from nodescope.record.timed.collected import Collected
from nodescope.record.value_rows import ValueRows

NODE = Node(1, "n1", "add", "elementwise", outputs=(1,))
READER = Node(2, "n2", "exp", "elementwise", inputs=(1,), outputs=(2,))
EACH = 20


def sink_of_copies() -> Any:
    assert native.NotedOutputs is not None
    return native.NotedOutputs(256, MOST_BYTES, lambda: None, lambda: None, False)


def lot_of(number: int) -> NotedLot:
    """Executions with outputs of a megabyte in all."""
    sink = sink_of_copies()
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
        nbytes = lot.nbytes
        noted.add(QueuedOutputs(1 + number * EACH, nbytes, lot))
        del lot
        assert sum(other() is not None for other in waiting) * nbytes < 2 * AT_ONCE_BYTES
    noted.note()
    assert len(noted.measured) == 12 * EACH
    noted.measured.close()
    assert (
        sum(row[0] <= seq <= row[1] for row in noted.measured.rows for seq in (1, 12 * EACH)) == 2
    )


def test_arrays_that_move_between_lots_move_between_their_executions() -> None:
    noted, sink = Noted(Collected({}), ValueRows(), operand_writers()), sink_of_copies()
    first, latest, elsewhere, read = (np.ones(3) for _ in range(4))
    seq = 1

    def lot(*executions: tuple[Node, tuple[np.ndarray, ...], np.ndarray]) -> None:
        nonlocal seq
        for node, inputs, output in executions:
            assert sink(node, node.id, 1, 1, 0, 1, inputs, (output,))
        *taken, _ = sink.take()
        noted.add(QueuedOutputs(seq, 1, NotedLot(*taken)))
        seq += len(executions)

    lot((NODE, (), first), (NODE, (), latest), (READER, (elsewhere,), read))
    noted.moved(1, id(first), id(elsewhere))
    lot((READER, (elsewhere,), read), (READER, (latest,), read))
    noted.moved(1, id(latest), id(read))
    noted.note()
    noted.moved(1, id(latest), id(read))
    assert noted.operands == [(None, 3, 0, UNKNOWN), (None, 4, 0, 1)]


def test_arrays_that_move_between_noted_executions_are_noted_with_them() -> None:
    noted, sink = Noted(Collected({}), ValueRows(), operand_writers()), sink_of_copies()
    first, latest, elsewhere, read = (np.ones(3) for _ in range(4))
    assert not sink.moved(1, id(first), id(elsewhere))  # after no execution
    for seq in (1, 101):  # the second lot finds what the first one wrote, and moves
        assert sink(NODE, NODE.id, 1, 1, 0, 1, (), (first,))
        assert sink(NODE, NODE.id, 1, 1, 0, 1, (), (latest,))
        assert sink.moved(1, id(first), id(elsewhere))
        assert sink(READER, READER.id, 1, 1, 0, 1, (elsewhere,), (read,))
        assert sink.moved(1, id(latest), id(elsewhere))
        *taken, _ = sink.take()
        assert np.frombuffer(taken[6], np.int64).reshape(-1, MOVE)[:, 0].tolist() == [2, 3]
        noted.add(QueuedOutputs(seq, 1, NotedLot(*taken)))
    assert not sink.moved(1, id(latest), id(read))  # as the executions were taken
    assert sink(READER, READER.id, 1, 1, 0, 1, (elsewhere,), (read,))
    *taken, _ = sink.take()
    noted.add(QueuedOutputs(201, 1, NotedLot(*taken)))
    noted.note()
    assert noted.operands == [(None, 3, 0, 1), (None, 103, 0, 101)]


def test_executions_of_several_threads_keep_their_elements() -> None:
    sink = sink_of_copies()
    for thread in (7, 8, 7, 9):
        assert sink(NODE, NODE.id, 1, thread, 0, 1, (), (np.full(3, thread),))
    *taken, thread = sink.take()
    lot = NotedLot(*taken, keep=True)
    assert thread is None
    assert lot.last_of_threads(11) == {7: 13, 8: 12, 9: 14}
    assert lot.statistics is None  # which take the place of the elements
    lot.reduce()
    assert lot.last_of_threads(11) == {7: 13, 8: 12, 9: 14}


class _Runs:
    """Runs code of the program when the garbage collector finds it."""

    def __init__(self, code: Callable[[], object]) -> None:
        self.code, self.itself = code, self

    def __del__(self) -> None:
        self.code()


def test_executions_that_finalizers_run_meanwhile_are_noted_and_taken_once() -> None:
    sink = sink_of_copies()
    array, total = np.ones(3), 0

    def note(attrs: dict[str, int] | None = None) -> None:
        assert sink(NODE, NODE.id, 1, 1, 0, 1, (), (array,), attrs)

    limits = gc.get_threshold()
    try:
        for limit in range(1, 40):  # so that the collector runs at each allocation in turn
            note()
            gc.collect()
            _Runs(note)
            gc.set_threshold(limit)
            note({"axis": limit})
            taken = sink.take()
            gc.set_threshold(*limits)
            gc.collect()
            lot = NotedLot(*taken[:-1])
            assert len(statistics_of([lot], [0]).executions) == len(lot.nodes) == lot.outputs
            # The execution with attributes is the last one; the finalizer's may come at any time.
            assert lot.calls[0][1] == {"axis": limit}
            assert lot.calls[0][0] in (len(lot) - 1, len(lot) - 2)
            total += len(lot)
    finally:
        gc.set_threshold(*limits)
    assert total + len(sink) == 3 * 39


@pytest.mark.parametrize("bytes_left", [0, 1 << 20])
def test_moves_survive_executions_for_which_there_is_no_room(
    bytes_left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QueueWriter, "start", lambda writer: None)
    recorder = Recorder(tmp_path / "r.nscope", level="summary")
    sink: Any = recorder.outputs_sink()
    array, elsewhere = np.ones(3), np.ones(3)
    assert sink(NODE, NODE.id, 1, 1, 0, 1, (), (array,))
    recorder.number_times()
    assert sink(NODE, NODE.id, 1, 1, 0, 1, (), (elsewhere,))
    assert sink.moved(1, id(array), id(elsewhere))
    recorder.queued = recorder.most_bytes - bytes_left
    recorder.number_times()
    _, last = recorder.records
    if bytes_left:
        assert isinstance(last, QueuedOutputs)
        assert last.lot.moves
    else:
        assert recorder.dropped().executions == 1
        assert isinstance(last, QueuedRecord)
        assert last.event == ArrayMoved(1, id(array), id(elsewhere))
    recorder.writer.file.abandon()
