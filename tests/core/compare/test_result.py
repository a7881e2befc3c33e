"""Real programs, recorded in both modes and compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.compare.measure import worst_of
from nodescope.compare.provenance import with_origins
from nodescope.compare.result import compare, history
from nodescope.compare.values import PairReader
from nodescope.errors import UsageError
from nodescope.record.compiled_functions import functions
from nodescope.record.recording import Recording
from tests.core.compare.programs import both, compared, in_mode, training


def test_a_training_step_is_matched_measured_and_timed(tmp_path: Path) -> None:
    (function,) = compared(tmp_path, training()).functions
    assert function.owner.startswith("train_step")
    assert function.steps == (1, 2, 3)
    inner = [node for node in function.nodes if node.role == "op"]
    # Every traced node has a fate, and is a node of the eager run.
    assert sum(function.fates.values()) == len(inner)
    assert {node.matched for node in inner} == {"name"}
    assert function.unmatched == ()
    assert all(node.eager_ns for node in inner)
    # Exact nodes are bit-equal in each measured step.
    measured = [value for node in inner for value in node.values if value.compiled]
    assert measured
    assert all(value.worst is not None and value.worst.equal for value in measured)
    assert {value.steps for value in measured} == {(1, 2, 3)}
    # Unmeasured values have a reason.
    assert all(value.why for node in inner for value in node.values if not value.compiled)
    # Nodes that run have their time, and the time of the nodes that they cover.
    assert all(kernel.run and kernel.ns and kernel.times == 3 for kernel in function.kernels)
    assert all(kernel.eager_ns for kernel in function.kernels if kernel.covers)
    covered = {cover for kernel in function.kernels for cover in kernel.covers}
    running = {kernel.id for kernel in function.kernels}
    assert {node.id for node in inner if running & set(node.into)} == covered


def test_the_scope_around_the_call_is_found(tmp_path: Path) -> None:
    (function,) = compared(tmp_path, training(scope="outer/epoch")).functions
    assert function.base == "outer/epoch"
    assert {node.matched for node in function.nodes if node.role == "op"} == {"name"}


def test_statistics_are_compared_where_elements_were_not_kept(tmp_path: Path) -> None:
    (function,) = compared(tmp_path, training(), level="summary").functions
    results = [
        value.worst for node in function.nodes for value in node.values
        if value.compiled and value.worst is not None
    ]  # fmt: skip
    assert {item.source for item in results} == {"summaries"}
    assert all(item.equal and item.ulp is None for item in results)


def test_times_alone(tmp_path: Path) -> None:
    (function,) = compared(tmp_path, training(), level="timing").functions
    values = [value for node in function.nodes for value in node.values if value.compiled]
    assert all(value.worst is not None and value.worst.source == "none" for value in values)
    assert all("kept no value" in value.worst.why for value in values if value.worst)
    assert all(kernel.ns for kernel in function.kernels)


def test_an_error_is_found_where_it_is(tmp_path: Path) -> None:
    """A program that computes something different when compiled."""

    def program() -> None:
        offset = 0.0 if ns.get_mode() == "eager" else 1e-3

        @ns.compile
        def f(x: ns.Tensor) -> ns.Tensor:
            return np.exp(x) + np.float32(offset)

        f(ns.tensor(np.ones(3, np.float32)))

    eager, compiled = both(tmp_path, program)
    with eager, compiled:
        (function,) = compare(eager, compiled).functions
        by_op = {node.op: node for node in function.nodes}
        wrong = by_op["add"].values[0].worst
        right = by_op["exp"].values[0]
        histories = history(eager, compiled, function.owner, by_op["add"].id)
    assert wrong is not None
    assert wrong.max_abs == pytest.approx(1e-3, rel=1e-3)
    assert wrong.mismatched == 1.0
    assert not wrong.equal
    assert right.worst is None or right.worst.equal
    assert [measure.max_abs for measure in histories.measures] == [wrong.max_abs]
    assert worst_of([right.worst, wrong] if right.worst else [wrong]) == wrong


@pytest.mark.parametrize("level", ["values", "summary"])
def test_steps_that_one_run_lacks_are_left_out_and_reported(tmp_path: Path, level: str) -> None:
    def program() -> None:
        training(steps=2 if ns.get_mode() == "eager" else 5)()

    eager, compiled = both(tmp_path, program, level=level)
    with eager, compiled:
        result = compare(eager, compiled)
        (function,) = result.functions
        node = next(n for n in function.nodes if n.op == "tanh")
        histories = history(eager, compiled, function.owner, node.id)
    assert result.notes == ("The eager run has 2 steps, the compiled run 5",)
    assert function.steps == (1, 2, 3, 4, 5)
    assert node.values[0].steps == (1, 2)
    assert histories.steps == (1, 2)
    assert {measure.source for measure in histories.measures} == {
        "arrays" if level == "values" else "summaries"
    }


def test_a_run_that_failed_is_reported(tmp_path: Path) -> None:
    def program() -> None:
        training(steps=1)()
        if ns.get_mode() == "compiled":
            raise ValueError("half-way")

    path = tmp_path / "eager.nscope"
    with in_mode("eager"), ns.record(path):
        program()
    with (
        pytest.raises(ValueError, match="half-way"),
        in_mode("compiled"),
        ns.record(tmp_path / "compiled.nscope"),
    ):
        program()
    with Recording.open(path) as first, Recording.open(tmp_path / "compiled.nscope") as two:
        result = compare(first, two)
    assert [note for note in result.notes if "half-way" in note] == [
        "The compiled run failed: ValueError: half-way"
    ]
    assert result.functions[0].steps == (1,)


def test_stages_go_from_the_traced_graph_to_the_one_that_runs(tmp_path: Path) -> None:
    eager, compiled = both(tmp_path, training())
    with eager, compiled:
        (compared_,) = compare(eager, compiled).functions
        (function,) = functions(compiled)
    assert compared_.stages[0].name == "traced"
    assert compared_.stages[0].graph == function.traced.id
    assert compared_.stages[-1].graph == function.final.id
    traced = {node.id for node in function.traced.nodes}
    for stage in compared_.stages:
        graph = with_origins(function, stage.graph)
        assert graph is not None
        assert {item for node in graph.nodes for item in node.origin} <= traced
    assert with_origins(function, 10_000) is None


def test_a_run_without_compiled_functions_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with ns.record(tmp_path / f"{name}.nscope"):
            np.exp(ns.tensor([1.0]))
    with (
        Recording.open(tmp_path / "a.nscope") as first,
        Recording.open(tmp_path / "b.nscope") as two,
        pytest.raises(UsageError, match="no compiled function"),
    ):
        compare(first, two)


def test_an_unknown_node_has_no_history(tmp_path: Path) -> None:
    eager, compiled = both(tmp_path, training(steps=1))
    with eager, compiled, pytest.raises(UsageError, match="no node 999"):
        history(eager, compiled, "train_step", 999)


@pytest.mark.parametrize("level", ["values", "timing"])
def test_each_function_is_beside_the_step_in_which_it_ran(tmp_path: Path, level: str) -> None:
    def program() -> None:
        weight = ns.parameter(np.ones((6, 4), np.float32), name="weight")

        @ns.compile
        def forward(batch: ns.Tensor) -> ns.Tensor:
            hidden = np.tanh(batch @ weight)
            return np.mean(hidden * hidden)

        # The last batch is smaller, so the function is traced again.
        for rows in ns.steps((8, 8, 5)):
            forward(ns.tensor(np.ones((rows, 6), np.float32), name="batch"))

    eager, compiled = both(tmp_path, program, level=level)
    with eager, compiled:
        result = compare(eager, compiled).functions
        reader = PairReader(eager, compiled)
        for function, rows, steps in zip(result, (8, 5), ((1, 2), (3,)), strict=True):
            assert function.steps == steps
            inner = [node for node in function.nodes if node.role == "op"]
            assert {node.matched for node in inner} == {"name"}
            nodes, specs = reader.as_of(steps[0])
            shapes = {specs[value].shape for id in function.beside for value in nodes[id].outputs}
            assert shapes == {(6, 4), (rows, 6), (rows, 4), ()}
            traced = {node.eager: node for node in function.nodes if node.eager}
            for id, node in traced.items():
                known = [specs[value] for value in nodes[id].outputs]
                assert known == [value.spec for value in node.values], node.name
