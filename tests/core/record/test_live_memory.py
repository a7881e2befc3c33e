"""How many bytes a step needs at each node."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import nodescope as ns
from nodescope.ir.graph import Node, TensorSpec, Value
from nodescope.record.live_memory import LiveMemory, live_memory, of_nodes
from nodescope.record.recording import Recording

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
    found = measured(nodes, value(1, 5), value(2, 1), value(3, 2), value(4, 4))
    assert found.live == {1: 5 * KB, 2: 6 * KB, 3: 8 * KB, 4: 11 * KB}
    assert (found.peak, found.peak_node) == (11 * KB, 4)


def test_what_the_backward_pass_reads_is_held_for_it() -> None:
    nodes = [op(1, (), (1,)), op(2, (1,), (2,)), op(3, (2,), (3,)), op(4, (3, 1), (4,))]
    found = measured(nodes, *(value(id) for id in range(1, 5)))
    assert found.live == {1: KB, 2: 2 * KB, 3: 3 * KB, 4: 3 * KB}


def test_views_and_writes_in_place_take_no_memory() -> None:
    nodes = [
        op(1, (), (1,)), op(2, (1,), (2,)), op(3, (2,), (3,), writes=((0, 0),)), op(4, (3,), (4,)),
    ]  # fmt: skip
    found = measured(nodes, value(1), value(2, storage=7), value(3), value(4))
    assert found.live == {1: KB, 2: KB, 3: KB, 4: 2 * KB}


def test_what_was_made_before_the_step_is_there_throughout() -> None:
    found = measured([op(1, (9,), (1,)), op(2, (1,), (2,))], value(9, 3), value(1), value(2))
    assert found.live == {1: 4 * KB, 2: 5 * KB}


def test_a_recorded_step_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    x = np.ones(1000, dtype=np.float32)
    with ns.record(path, level="timing"):
        for _ in ns.steps(range(2)):
            np.sum(np.tanh(ns.tensor(x)) * 2)
    with Recording.open(path) as recording:
        names = {row.node.name: row.node.id for row in recording.nodes()}
        found = live_memory(recording, 2)
        assert found.live[names["tanh"]] == 8000
        assert found.live[names["multiply"]] == 12000
        assert found.peak == 12000
        assert live_memory(recording, 9).live == {}
