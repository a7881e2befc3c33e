"""The longest chain of a step, through data and lanes."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import numpy as np

import nodescope as ns
from nodescope.ir.graph import Node
from nodescope.record.critical_path import Chain, critical_path
from nodescope.record.recording import Recording
from nodescope.record.rows import Execution
from nodescope.record.step_runs import StepRuns, step_runs

Row = tuple[Node, int, int, int]
"""Node, thread, start, end."""


def op(id: int, inputs: tuple[int, ...] = (), **more: object) -> Node:
    """A node whose output has its own number."""
    return Node(id, f"n{id}", "op", "other", inputs, (), (id,), **more)  # type: ignore[arg-type]


def runs(*rows: Row, **more: object) -> StepRuns:
    executions = [
        Execution(at + 1, node.id, 1, thread, start, end - start, 0)
        for at, (node, thread, start, end) in enumerate(rows)
    ]
    return StepRuns(executions, [row[0] for row in rows], {}, **more)  # type: ignore[arg-type]


def ids(step: StepRuns, chain: Chain) -> list[int]:
    return [step.nodes[row].id for row in chain.members]


# Node 4 depends on node 1 through node 2 and through node 3.
DIAMOND = (op(1), op(2, (1,)), op(3, (1,)), op(4, (2, 3)))


def test_the_path_through_a_diamond_takes_the_longer_side() -> None:
    one, two, three, four = DIAMOND
    step = runs((one, 1, 0, 10), (two, 1, 10, 15), (three, 2, 10, 40), (four, 1, 41, 50))
    path = critical_path(step)
    assert ids(step, path.ran) == ids(step, path.data) == [1, 3, 4]
    assert path.ran.total_ns == path.data.total_ns == 10 + 30 + 9
    assert (path.lanes, path.operations_ns) == (2, 54)


def test_on_one_thread_all_follow_one_another_and_data_alone_needs_fewer() -> None:
    one, two, three, four = DIAMOND
    step = runs((one, 1, 0, 10), (two, 1, 10, 15), (three, 1, 15, 45), (four, 1, 50, 60))
    path = critical_path(step)
    assert ids(step, path.ran) == [1, 2, 3, 4]
    assert path.ran.total_ns == path.operations_ns == 55
    assert (ids(step, path.data), path.data.total_ns) == ([1, 3, 4], 50)


def test_a_thread_that_waits_for_another_ones_data_continues_its_chain() -> None:
    step = runs(
        (op(1), 1, 0, 10), (op(2), 2, 0, 50), (op(3), 1, 10, 15), (op(4, (3, 2)), 1, 60, 70)
    )
    assert ids(step, critical_path(step).ran) == [2, 4]


def test_members_never_overlap() -> None:
    """Neither an execution inside another, nor one that seems to read data before it exists."""
    step = runs((op(1), 1, 0, 100), (op(2), 1, 10, 30), (op(3, (1,)), 2, 90, 120))
    path = critical_path(step)
    assert ids(step, path.ran) == [1]
    assert path.ran.total_ns == 100


def test_what_reads_a_parameter_depends_on_what_assigned_to_it() -> None:
    weight = op(1, role="parameter")
    step = runs(
        (weight, 1, 0, 3),
        (op(2, (1,)), 1, 3, 10),
        (op(3, (1, 2), writes=((0, 0),)), 1, 10, 20),
        (op(4, (1,)), 2, 30, 40),
    )
    path = critical_path(step)
    assert ids(step, path.data) == [2, 3, 4]  # The parameter itself computes nothing.
    assert path.data.total_ns == 27


def test_an_operand_that_an_earlier_execution_wrote_is_no_result_of_the_latest() -> None:
    node = op(1)
    rows = ((node, 1, 0, 5), (node, 1, 5, 100), (op(2, (1,)), 2, 100, 110))
    assert critical_path(runs(*rows)).data.total_ns == 105
    assert critical_path(runs(*rows, operands={(3, 0): 1})).data.total_ns == 95
    assert critical_path(runs(*rows, operands={(3, 0): 0})).data.total_ns == 95


def test_what_the_debugger_held_is_no_time_of_an_operation() -> None:
    step = runs((op(1), 1, 0, 100), (op(2, (1,)), 1, 200, 210), holds=((40, 90), (95, 205)))
    assert critical_path(step).ran.total_ns == 45 + 5
    assert runs((op(1), 1, 50, 100), holds=((40, 90),)).durations() == [10]


def test_a_step_without_executions_has_no_path() -> None:
    assert critical_path(runs()).ran == Chain([], 0)


def test_without_times_the_path_follows_data_alone() -> None:
    one, two = op(1), op(2, (1,))
    step = runs((one, 1, 7, 7), (two, 1, 7, 7))
    assert ids(step, critical_path(step).data) == [1, 2]
    assert critical_path(step).ran.total_ns == 0


def names(step: StepRuns, rows: Iterable[int]) -> list[str]:
    return [step.nodes[row].name for row in rows]


def test_a_recorded_step_of_two_threads_and_a_compiled_function(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    weight = ns.parameter(np.full((64, 64), 0.01, np.float32), name="weight")

    @ns.compile
    def model(x: ns.Tensor) -> ns.Tensor:
        return np.tanh(x @ weight).mean()

    with ns.record(path, level="timing"):
        for _ in ns.steps(range(2)):
            made: list[ns.Tensor] = []
            thread = threading.Thread(target=lambda made=made: made.append(  # type: ignore[misc]
                np.exp(ns.tensor(np.ones((8, 64), np.float32)))))  # fmt: skip
            thread.start()
            thread.join()
            model(made[0]).backward()
    with Recording.open(path) as recording:
        step = step_runs(recording, 2)
        paths = critical_path(step)
        assert not step_runs(recording, 9).observed
    wall = step.end_ns - step.start_ns
    assert 0 < paths.data.total_ns <= paths.ran.total_ns <= paths.operations_ns <= wall
    assert paths.lanes == 2
    chain = names(step, paths.ran.members)
    first = next(i for i, name in enumerate(chain) if name.startswith("matmul"))
    assert chain[:first] == ["exp"]
    assert chain[-1].startswith("backward/")


def longest_by_walking(step: StepRuns, took: list[int], *, by_lane: bool) -> int:
    """The length of the longest chain, computed moment by moment from the latest writers."""
    length, wrote, lanes = [0] * len(took), dict[int, int](), dict[int, int]()
    seqs = {row.seq: at for at, row in enumerate(step.rows)}
    ended = set[int]()
    for moment in step.moments()[1].tolist():
        row, node = moment >> 1, step.nodes[moment >> 1]
        thread = step.rows[row].thread
        if moment & 1:
            lanes[thread] = max(lanes.get(thread, 0), length[row])
            into = [node.inputs[port] for _, port in node.writes]
            wrote.update(dict.fromkeys((*node.outputs, *into), row))
            ended.add(row)
            continue
        known = [lanes.get(thread, 0) if by_lane else 0]
        for port, value in enumerate(node.inputs):
            source = wrote.get(value)
            if (exact := step.operands.get((step.rows[row].seq, port))) is not None:
                source = seqs.get(exact)
            if source in ended:
                known.append(length[source])  # type: ignore[index]
        length[row] = took[row] + max(known)
    return max(length, default=0)


def test_any_step_has_the_chains_that_walking_through_it_finds() -> None:
    random = np.random.default_rng(5)
    for _ in range(300):
        kinds = [
            op(
                id,
                tuple(random.integers(1, 8, random.integers(0, 4)).tolist()),
                role=str(random.choice(["op", "op", "op", "parameter"])),
            )
            for id in range(1, 8)
        ]
        kinds.append(op(9, (1, 2), writes=((0, 1),)))
        chosen = random.integers(0, len(kinds), random.integers(0, 40)).tolist()
        starts = np.sort(random.integers(0, 60, len(chosen))).tolist()
        rows = [
            (kinds[kind], int(random.integers(1, 4)), start, start + int(random.integers(0, 9)))
            for kind, start in zip(chosen, starts, strict=True)
        ]
        operands = {
            (int(random.integers(1, 41)), int(random.integers(0, 3))): int(random.integers(0, 41))
            for _ in range(random.integers(0, 4))
        }
        step = runs(*rows, operands=operands)
        took = [0 if node.is_leaf else end - start for node, _, start, end in rows]
        path = critical_path(step)
        assert path.ran.total_ns == longest_by_walking(step, took, by_lane=True)
        assert path.data.total_ns == longest_by_walking(step, took, by_lane=False)
        for chain in path.ran, path.data:
            assert sum(took[row] for row in chain.members) == chain.total_ns
            assert chain.members == sorted(chain.members, key=lambda row: rows[row][2])
