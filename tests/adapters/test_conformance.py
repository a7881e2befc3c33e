"""The conformance suite of adapters: requirements on all, and what capabilities promise."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodescope.adapters import attached
from nodescope.api import Run
from nodescope.arrays import register, to_numpy
from nodescope.debug.replay import ExecutionIndex
from nodescope.events import Level, NodeFinished
from nodescope.ir.graph import Node, OpaqueSpec
from nodescope.record.recording import Recording
from nodescope.record.rows import FAILED, Dropped
from tests.adapters.cases import STEPS, Case
from tests.adapters.driving import recorded
from tests.adapters.foreign import library as lib


def test_the_result_of_the_program_is_unchanged(case: Case, tmp_path: Path) -> None:
    plain = case.train()
    for level in ("graph", "timing", "summary", "values"):
        seen = recorded(tmp_path / f"{level}.nscope", case.train, level=level)
        assert seen.tobytes() == plain.tobytes()


def test_steps_scopes_lines_and_dialect(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, case.train)
    with Recording.open(path) as recording:
        nodes = {row.node.id: row.node for row in recording.nodes()}
        product = next(node for node in nodes.values() if node.op == case.product)
        assert product.scope == case.layer
        assert product.dialect == case.dialect
        assert product.source is not None
        assert product.source.file == case.train.__code__.co_filename
        ran = Counter(execution.node for execution in recording.executions())
        # If the optimizer marks steps, the first step began before that was known.
        assert ran[product.id] in (STEPS, STEPS - 1)
        steps = [row.step for row in recording.steps()]
        assert steps == list(range(1, len(steps) + 1))
        assert len(steps) in (STEPS, STEPS - 1)


def test_values_at_each_level(case: Case, tmp_path: Path) -> None:
    for level in ("timing", "summary", "values"):
        path = tmp_path / f"{level}.nscope"
        recorded(path, case.train, level=level)
        with Recording.open(path) as recording:
            product = next(r.node for r in recording.nodes() if r.node.op == case.product)
            at = recording.latest_at(product.outputs[0])
            assert (at is not None) == (level != "timing")
            if at is not None:
                assert at.summary.spec.shape == (4, 3)
            whole = recording.array(product.outputs[0], at.seq) if at is not None else None
            if level == "values":
                assert whole is not None
                assert whole.shape == (4, 3)
            assert recording.dropped().summaries == 0


def test_a_loop_without_steps(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, lambda: case.loop(50))
    rounds, runs = (50, 1) if case.capabilities.unrolled else (1, 50)
    with Recording.open(path) as recording:
        nodes = {row.node.id: row.node for row in recording.nodes()}
        computing = [node for node in nodes.values() if not node.is_leaf]
        assert Counter(node.op for node in computing) == {case.product: rounds, case.bend: rounds}
        ran = Counter(execution.node for execution in recording.executions())
        assert {ran[node.id] for node in computing} == {runs}


def test_an_operation_that_raises_is_a_failed_node(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    with pytest.raises(case.raises):
        recorded(path, case.fail)
    with Recording.open(path) as recording:
        assert [row for row in recording.executions() if row.flags & FAILED]


def test_a_fault_in_the_adapter_never_kills_the_program(case: Case, tmp_path: Path) -> None:
    class Fault:
        def emit(self, event: Any) -> None:
            if isinstance(event, NodeFinished):
                raise RuntimeError("a fault")

    plain = case.train()
    said: list[str] = []
    run = Run(tmp_path / "run.nscope", say=said.append)
    run.bus.add(Fault())
    run.start()
    result = case.train()
    run.finish()
    assert result.tobytes() == plain.tobytes()
    assert any("a fault" in line for line in said)


def test_a_window_is_fetched_and_not_the_whole(distant: Case, tmp_path: Path) -> None:
    register(attached.known_adapters()[0].arrays())
    large = lib.distant(np.ones((500, 500)))
    before = lib.Process.fetched_bytes
    window = to_numpy(large, (slice(0, 2), slice(0, 3)))
    assert window.shape == (2, 3)
    assert lib.Process.fetched_bytes - before == window.nbytes


def nodes_of(recording: Recording) -> dict[str, Node]:
    """The first node of each op, by op, in its latest definition."""
    last = {row.node.id: row.node for row in recording.nodes()}
    by_op: dict[str, Node] = {}
    for node in last.values():
        by_op.setdefault(node.op, node)
    return by_op


@pytest.mark.needs("gradients")
def test_gradients_are_paired_with_their_values(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    gradient = recorded(path, case.differentiate, level="values")
    with Recording.open(path) as recording:
        weight = nodes_of(recording)["parameter"]
        assert weight.role == "parameter"
        pairs = {row.value: row.gradient for row in recording.gradients()}
        paired = pairs[weight.outputs[0]]
        at = recording.latest_at(paired)
        assert at is not None
        assert recording.array(paired, at.seq).tobytes() == gradient.tobytes()
        backward = [row.node for row in recording.nodes() if row.node.phase == "backward"]
        forward = {row.node.id: row.node.op for row in recording.nodes()}
        assert {forward[node.forward] for node in backward if node.forward} == {
            case.product, case.bend, case.mean
        }  # fmt: skip


@pytest.mark.needs("gradients")
def test_the_losses_of_the_steps(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    last = recorded(path, case.train)
    with Recording.open(path) as recording:
        losses = recording.losses()
        # If the optimizer marks steps, the first step began before that was known.
        assert len(losses) in (STEPS, STEPS - 1)
        assert losses[-1].value == float(last)
        assert {row.node for row in losses} == {nodes_of(recording)[case.mean].id}


@pytest.mark.needs(immutable=False)
def test_what_a_node_writes_is_reported(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, case.write, level="values")
    with Recording.open(path) as recording:
        by_op = nodes_of(recording)
        written = by_op[case.written]
        assert written.writes == ((0, 0),)
        read = ExecutionIndex(recording).made_by(written.inputs[0])
        assert read.role == "parameter"


def test_sizes_that_only_the_result_has(case: Case, tmp_path: Path) -> None:
    for level in ("timing", "values"):
        path = tmp_path / f"{level}.nscope"
        result = recorded(path, case.select, level=level)
        with Recording.open(path) as recording:
            value = nodes_of(recording)[case.selected].outputs[0]
            spec = next(row.value.spec for row in recording.values() if row.value.id == value)
            at = recording.latest_at(value)
            if level == "timing":
                assert at is None
                assert spec.shape in ((None,), result.shape)
            else:
                assert at is not None
                assert at.summary.spec.shape == spec.shape == result.shape
            assert recording.dropped().summaries == 0


@pytest.mark.needs(unrolled=False)
def test_a_node_that_is_given_other_shapes(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, lambda: case.grow(2), level="timing")
    with Recording.open(path) as recording:
        value = nodes_of(recording)[case.growing].outputs[0]
        shapes = [row.value.spec.shape for row in recording.values() if row.value.id == value]
        assert shapes[-1] == (3, 3)


def test_anything_but_an_array_is_named(distant: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    assert distant.opaque is not None
    recorded(path, distant.opaque, level="values", newest=True)
    with Recording.open(path) as recording:
        value = nodes_of(recording)[distant.obscured].outputs[0]
        spec = next(row.value.spec for row in recording.values() if row.value.id == value)
        assert spec == OpaqueSpec("library.Token")
        assert recording.latest_at(value) is None
        assert recording.dropped() == Dropped()


def test_views_share_their_storage(distant: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, distant.view)
    with Recording.open(path) as recording:
        viewed = nodes_of(recording)[distant.viewed]
        storages = {row.value.id: row.value.storage for row in recording.values()}
        assert storages[viewed.outputs[0]] == storages[viewed.inputs[0]] != 0


@pytest.mark.needs(workers=False)  # a fork of a driver cannot use the cluster
def test_a_forked_child_emits_nothing(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"

    def program() -> Any:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                case.fail()
            except case.raises:
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        return case.loop(1)

    recorded(path, program)
    with Recording.open(path) as recording:
        assert not [row for row in recording.executions() if row.flags & FAILED]
        assert case.product in nodes_of(recording)


def test_capabilities_are_the_runs(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, lambda: case.loop(1))
    (adapter,) = attached.known_adapters()
    with Recording.open(path) as recording:
        (framework,) = recording.run().frameworks
    assert framework == attached.framework_of(adapter)
    assert framework.dialect == case.dialect
    assert framework.version != ""


@pytest.mark.parametrize("level", ["graph", "timing", "summary"])
def test_the_newest_values_are_kept_whole(case: Case, tmp_path: Path, level: Level) -> None:
    path = tmp_path / "run.nscope"
    recorded(path, case.train, level=level, newest=True)
    with Recording.open(path) as recording:
        bend = nodes_of(recording)[case.bend].outputs[0]
        executions = [row for row in recording.executions() if row.step]
        last = max(row.step for row in executions)
        at = recording.latest_at(bend)
        assert at is not None
        assert at.step == last
        whole = recording.array(bend, at.seq)
        assert whole is not None
        assert whole.shape == (4, 3)
        assert recording.dropped() == Dropped()


def test_the_newest_values_of_a_plain_loop(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    result = recorded(path, lambda: case.loop(40), newest=True)
    with Recording.open(path) as recording:
        last = [row.node for row in recording.nodes() if row.node.op == case.bend][-1]
        at = recording.latest_at(last.outputs[0])
        assert at is not None
        assert recording.array(last.outputs[0], at.seq).tobytes() == result.tobytes()
