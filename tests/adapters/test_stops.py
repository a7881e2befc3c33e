"""Stops that the capabilities promise: before and after a node, conditions, edits, watches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nodescope.errors import ConditionError, EditError
from nodescope.protocol import StepNode
from nodescope.record.recording import Recording
from tests.adapters.cases import ROWS, STEPS, WEIGHTS, Case
from tests.adapters.driving import debugged


def test_stops_after_with_values(case: Case, tmp_path: Path) -> None:
    plain = case.train()
    with debugged(tmp_path / "run.nscope", case.train, f"op:{case.product}") as seen:
        stops = [stop for stop in seen.stops() if stop.scope == case.layer]
    assert len(stops) == STEPS
    assert {stop.when for stop in stops} == {"after"}
    assert seen.result.tobytes() == plain.tobytes()


def test_what_is_seen_at_a_stop(case: Case, tmp_path: Path) -> None:
    with debugged(tmp_path / "run.nscope", case.train, f"op:{case.product}") as seen:
        assert seen.stop() is not None
        data, weights = seen.controller.inputs()
        (product,) = seen.controller.outputs()
        for value, expected in ((data, ROWS), (weights, WEIGHTS), (product, ROWS @ WEIGHTS)):
            assert value.array is not None
            np.testing.assert_allclose(value.array, expected)
        assert seen.controller.evaluate("value[1, 2] == max(value[1])") is not None
        assert seen.controller.stop.stack[0].function.startswith(("_train_", "Layer."))


def test_stops_before_a_node(case: Case, tmp_path: Path) -> None:
    with debugged(tmp_path / "run.nscope", case.train, f"before op:{case.product}") as seen:
        stop = seen.stop()
        assert stop is not None
        assert stop.when == "before"
        with pytest.raises(ConditionError, match="has not run yet"):
            seen.controller.evaluate("value")
        np.testing.assert_allclose(seen.controller.evaluate("inputs[1]"), WEIGHTS)


@pytest.mark.parametrize(
    ("when", "hits"),
    [("max(value) > 100", 0), ("max(value) > 0", STEPS), ("size(inputs[1]) == 9", STEPS)],
)
def test_conditions(case: Case, tmp_path: Path, when: str, hits: int) -> None:
    breakpoint = f"op:{case.product} if {when}"
    with debugged(tmp_path / "run.nscope", case.train, breakpoint) as seen:
        stops = [stop for stop in seen.stops() if stop.scope == case.layer]
    assert len(stops) == hits


def test_conditions_before(case: Case, tmp_path: Path) -> None:
    breakpoint = f"before op:{case.bend} if max(inputs[0]) > 0.44"
    with debugged(tmp_path / "run.nscope", case.train, breakpoint) as seen:
        assert len(list(seen.stops())) == STEPS


def test_steps_from_node_to_node(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    with debugged(path, case.train, f"op:{case.product}", level="values") as seen:
        assert seen.stop() is not None
        seen.controller.command(StepNode())
        stop = seen.stop()
        assert stop is not None
        assert stop.node_name == f"{case.layer}/{case.bend}"
        moved = seen.controller.back()
        assert moved.found
        assert moved.moment.node.op == case.product
        np.testing.assert_allclose(seen.controller.inputs()[1].array, WEIGHTS)


def test_the_program_continues_with_an_edited_result(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    with debugged(path, lambda: case.loop(1), f"op:{case.product}") as seen:
        assert seen.stop() is not None
        seen.controller.edit("value[0, 0] = 3")
        assert seen.controller.evaluate("value[0, 0]") == 3
    expected = ROWS @ WEIGHTS
    expected[0, 0] = 3
    np.testing.assert_allclose(seen.result, np.tanh(expected))
    with Recording.open(path) as recording:
        (edit,) = recording.edits()
        assert edit.how == f"{case.product_name}[0, 0] set to 3"


def test_an_edited_input_is_what_is_computed_with(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    with debugged(path, lambda: case.loop(1), f"before op:{case.product}") as seen:
        assert seen.stop() is not None
        seen.controller.edit("inputs[1] *= 0")
    assert not seen.result.any()


def test_edits_that_are_refused_change_nothing(case: Case, tmp_path: Path) -> None:
    plain = case.loop(1)
    path = tmp_path / "run.nscope"
    with debugged(path, lambda: case.loop(1), f"op:{case.product}") as seen:
        assert seen.stop() is not None
        with pytest.raises(EditError, match="out of range"):
            seen.controller.edit("value[7, 7] = 1")
        with pytest.raises(EditError, match="not a value of"):
            seen.controller.edit("elsewhere = 1")
    assert seen.result.tobytes() == plain.tobytes()


def test_a_view_is_edited_only_where_values_are_replaced(case: Case, tmp_path: Path) -> None:
    plain = case.view()
    with debugged(tmp_path / "run.nscope", case.view, f"op:{case.viewed}") as seen:
        assert seen.stop() is not None
        replaces = seen.run.info.frameworks[0].capabilities.edit == "replace"
        if replaces:
            seen.controller.edit("value = 0")
        else:
            with pytest.raises(EditError, match="it is a view of another value"):
                seen.controller.edit("value = 0")
    assert (seen.result == 0) == replaces
    assert plain != 0


@pytest.mark.needs("gradients")
def test_the_program_continues_with_an_edited_gradient(case: Case, tmp_path: Path) -> None:
    breakpoint = "op:parameter if size(grad) == 9"
    with debugged(tmp_path / "run.nscope", case.differentiate, breakpoint) as seen:
        stop = seen.stop()
        assert stop is not None
        seen.controller.edit("value *= 0")
    assert case.differentiate().any()
    assert not seen.result.any()


@pytest.mark.parametrize("action", ["log", "stop", "mark", "save"])
def test_watches(case: Case, tmp_path: Path, action: str) -> None:
    path = tmp_path / "run.nscope"
    watch = f"tensor_overflow on op:{case.overflowing} -> {action}"
    with debugged(path, case.overflow, watches=[watch]) as seen:
        stops = [(stop.reason, stop.node_name) for stop in seen.stops()]
    assert stops == ([("watch", case.overflowing)] if action == "stop" else [])
    assert seen.run.watching is not None
    (status,) = seen.run.gate.info.watches
    assert status.hits == 1
    assert any(case.overflowing in line for line in seen.said) == (action == "log")
    with Recording.open(path) as recording:
        node = next(row.node for row in recording.nodes() if row.node.op == case.overflowing)
        at = recording.latest_at(node.outputs[0])
        assert at is not None
        assert at.summary.inf_count
        kept = recording.array(node.outputs[0], at.seq)
        assert (kept is not None) or action != "save"


def test_recommended_watches(case: Case, tmp_path: Path) -> None:
    with debugged(tmp_path / "run.nscope", case.train, watches=["recommended"]) as seen:
        pass
    assert any("operator_overflow" in line for line in seen.said)
    assert not any("failed" in line for line in seen.said)


def test_an_opaque_value_has_no_elements_at_a_stop(distant: Case, tmp_path: Path) -> None:
    assert distant.opaque is not None
    breakpoints = (f"op:{distant.obscured}", f"op:{distant.obscured} if max(value) > 0")
    with debugged(tmp_path / "run.nscope", distant.opaque, *breakpoints) as seen:
        assert seen.stop() is not None
        (value,) = seen.controller.outputs()
        assert value.array is None
        with pytest.raises(EditError, match="a Token cannot be changed here"):
            seen.controller.edit("value = 0")
