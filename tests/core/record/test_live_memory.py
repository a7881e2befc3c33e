"""How many bytes a step needs at each node."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import nodescope as ns
from nodescope.ir.graph import Node, TensorSpec, Value
from nodescope.record.live_memory import LiveMemory, live_memory, memory_of, of_nodes
from nodescope.record.recording import Recording
from nodescope.record.rows import Execution
from nodescope.record.step_runs import StepRuns

KB = 1000


def value(id: int, kilobytes: int = 1, storage: int = 0) -> Value:
    return Value(id, TensorSpec((kilobytes * KB,), "int8"), f"v{id}", storage)


def measured(nodes: list[Node], *values: Value) -> LiveMemory:
    return of_nodes(nodes, {value.id: value for value in values})


def op(id: int, inputs: tuple[int, ...], outputs: tuple[int, ...], **more: object) -> Node:
    return Node(id, f"n{id}", "op", "other", inputs, (), outputs, dialect="torch", **more)  # type: ignore[arg-type]


def leaf(id: int, output: int) -> Node:
    return Node(id, f"n{id}", "parameter", "leaf", outputs=(output,), role="parameter")


def test_a_value_lives_until_it_was_read_last() -> None:
    nodes = [leaf(1, 1), op(2, (1,), (2,)), op(3, (2,), (3,)), op(4, (3,), (4,))]
    memory = measured(nodes, value(1, 5), value(2, 1), value(3, 2), value(4, 4))
    assert memory.live == {1: 5 * KB, 2: 6 * KB, 3: 8 * KB, 4: 11 * KB}
    assert (memory.peak, memory.peak_node) == (11 * KB, 4)


def test_what_the_backward_pass_reads_is_held_for_it() -> None:
    nodes = [op(1, (), (1,)), op(2, (1,), (2,)), op(3, (2,), (3,)), op(4, (3, 1), (4,))]
    memory = measured(nodes, *(value(id) for id in range(1, 5)))
    assert memory.live == {1: KB, 2: 2 * KB, 3: 3 * KB, 4: 3 * KB}


def test_views_and_writes_in_place_take_no_memory() -> None:
    nodes = [
        op(1, (), (1,)), op(2, (1,), (2,)), op(3, (2,), (3,), writes=((0, 0),)), op(4, (3,), (4,)),
    ]  # fmt: skip
    memory = measured(nodes, value(1), value(2, storage=7), value(3), value(4))
    assert memory.live == {1: KB, 2: KB, 3: KB, 4: 2 * KB}


def test_what_was_made_before_the_step_is_there_throughout() -> None:
    memory = measured([op(1, (9,), (1,)), op(2, (1,), (2,))], value(9, 3), value(1), value(2))
    assert memory.live == {1: 4 * KB, 2: 5 * KB}


def test_a_recorded_step_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    x = np.ones(1000, dtype=np.float32)
    with ns.record(path, level="timing"):
        for _ in ns.steps(range(2)):
            np.sum(np.tanh(ns.tensor(x)) * 2)
    with Recording.open(path) as recording:
        names = {row.node.name: row.node.id for row in recording.nodes()}
        memory = live_memory(recording, 2)
        assert memory.live[names["tanh"]] == 8000
        assert memory.live[names["multiply"]] == 12000
        assert memory.peak == 12000
        assert live_memory(recording, 9).live == {}


def timed(*rows: tuple[Node, int, int, int], values: tuple[Value, ...]) -> LiveMemory:
    """Nodes with a thread, a start and an end."""
    executions = [
        Execution(at + 1, node.id, 1, thread, start, end - start, 0)
        for at, (node, thread, start, end) in enumerate(rows)
    ]
    by_id = {value.id: value for value in values}
    return memory_of(StepRuns(executions, [row[0] for row in rows], by_id))


def curve(memory: LiveMemory) -> list[tuple[int, int]]:
    return list(zip(memory.times.tolist(), (memory.needed // KB).tolist(), strict=True))


def test_memory_over_time_of_two_threads_that_run_at_once() -> None:
    memory = timed(
        (op(1, (), (1,)), 1, 0, 10),
        (op(3, (1,), (3,)), 1, 20, 30),
        (op(2, (), (2,)), 2, 5, 25),
        values=(value(1, 1), value(2, 10), value(3, 100)),
    )
    assert curve(memory) == [(0, 1), (5, 11), (10, 11), (20, 111), (25, 101), (30, 0)]
    assert memory.live == {1: 11 * KB, 2: 111 * KB, 3: 111 * KB}
    assert (memory.peak, memory.peak_node, memory.peak_at) == (111 * KB, 3, 3)
    held = memory.held_at(memory.peak_at)
    assert [(buffer.value, buffer.nbytes, buffer.row) for buffer in held] == [
        (3, 100 * KB, 1), (2, 10 * KB, 2), (1, KB, 0),
    ]  # fmt: skip


def test_a_value_that_is_made_again_is_another_one() -> None:
    one, two = op(1, (), (1,)), op(2, (1,), (2,))
    rounds = [(one, 1, 0, 1), (two, 1, 1, 2), (one, 1, 5, 6), (two, 1, 6, 7)]
    memory = timed(*rounds, values=(value(1), value(2)))
    assert curve(memory) == [
        (0, 1), (1, 1), (1, 2), (2, 0), (5, 1), (6, 1), (6, 2), (7, 0),
    ]  # fmt: skip


def test_a_value_of_the_previous_step_lives_until_it_is_made_again() -> None:
    rows = [(op(1, (2,), (1,)), 1, 0, 1), (op(2, (1,), (2,)), 1, 1, 2)]
    memory = timed(*rows, values=(value(1), value(2, 5)))
    assert memory.live == {1: 6 * KB, 2: 6 * KB}
    assert memory.buffers[:, 1].tolist() == [-1, 0, 1]


def test_views_are_counted_with_their_base() -> None:
    rows = [(op(1, (), (1,)), 1, 0, 1), (op(2, (1,), (2,)), 1, 1, 2), (op(3, (2,), (3,)), 1, 2, 3)]
    memory = timed(*rows, values=(value(1), value(2, storage=7), value(3, storage=7)))
    (buffer,) = memory.held_at(memory.peak_at)
    assert (buffer.value, buffer.views) == (1, 2)


def test_an_unknown_size_is_reported_as_unknown() -> None:
    unknown = Value(1, TensorSpec((None,), "int8"), "v1")
    memory = measured([op(1, (), (1,)), op(2, (1,), (2,))], unknown, value(2))
    assert [buffer.nbytes for buffer in memory.held_at(2)] == [KB, None]
    broken = Value(1, TensorSpec((1 << 62, 1 << 62), "int8"), "v1")
    (buffer,) = measured([op(1, (), (1,))], broken).held_at(0)
    assert buffer.nbytes is None
