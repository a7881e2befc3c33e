"""The controller, with real programs on another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope import api
from nodescope.cli.terminal_commands import Console
from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.debug.controller import Controller
from nodescope.debug.edits.syntax import parse_edit
from nodescope.errors import ConditionError, EditError, UsageError
from nodescope.events import Level
from nodescope.protocol import (
    Continue,
    NextStep,
    Pause,
    RunTo,
    SetValue,
    StepIn,
    StepNode,
    StepOut,
    StepOver,
    StepTwin,
)

WAIT_S = 60.0
Program = Callable[[], object]


def train() -> None:
    w = ns.parameter(np.ones((3, 2)), name="w")
    for batch in ns.steps([np.full((4, 3), float(number)) for number in (1, 2, 3)]):
        with ns.name_scope("loss"):
            loss = np.mean(np.square(ns.tensor(batch, name="batch") @ w))
        loss.backward()


@contextmanager
def controlled(
    path: Path, program: Program, *specs: str, level: Level = "values", entry: bool = False
) -> Iterator[tuple[Controller, list[BaseException]]]:
    """A running program under a controller; at the end, it is released and has ended."""
    lines: list[str] = []
    run = api.Run(path / "run.nscope", level=level, debugger=True, stop_on_entry=entry,
                  breakpoints=tuple(map(parse_breakpoint, specs)), say=lines.append)  # fmt: skip
    controller = run.controller()
    raised: list[BaseException] = []

    def work() -> None:
        try:
            program()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work, name="program", daemon=True)
    run.start()
    try:
        thread.start()
        yield controller, raised
    finally:
        controller.leave()
        thread.join(WAIT_S)
        run.finish()
        controller.close()
    assert not thread.is_alive()


def stopped(controller: Controller) -> str:
    """Wait for the next stop, and return the node's name."""
    info = controller.wait(WAIT_S)
    assert info.stop is not None, info.phase
    return info.stop.node_name


def test_steps_and_waits(tmp_path):
    with controlled(tmp_path, train, entry=True) as (controller, _):
        assert stopped(controller) == "loss/matmul"
        names = []
        for command in (StepNode(), StepNode(), StepOver(), StepOut()):
            controller.command(command)
            names.append(stopped(controller))
        assert names[:3] == ["loss/matmul", "loss/square", "loss/mean"]
        assert names[3].startswith("backward/loss/")
        controller.command(NextStep())
        assert stopped(controller) == "loss/matmul"
        assert controller.stop.step == 2
        controller.command(RunTo("loss/mean"))
        assert stopped(controller) == "loss/mean"
        controller.command(StepTwin())
        assert stopped(controller).startswith("backward/loss/")
        assert controller.moment.node.forward is not None
        moved = controller.command(StepTwin())
        assert moved is not None
        assert (moved.moment.node.name, moved.moment.step) == ("loss/mean", 2)
        assert controller.stop.node_name.startswith("backward/loss/")
        controller.now()
        controller.leave()
        assert controller.wait(WAIT_S).phase in ("detached", "finished")
        with pytest.raises(UsageError, match=r"running|ended"):
            controller.moment  # noqa: B018


def test_wait_has_a_limit_and_pause_stops(tmp_path):
    go, end = threading.Event(), threading.Event()

    def forever() -> None:
        x = ns.parameter(np.ones(2), name="x")
        assert go.wait(WAIT_S)
        while not end.is_set():
            np.exp(x)

    with controlled(tmp_path, forever) as (controller, _):
        with pytest.raises(TimeoutError, match="still running"):
            controller.wait(0.0)
        controller.command(Pause())
        go.set()
        assert stopped(controller).startswith("exp")
        assert controller.stop.reason == "pause"
        end.set()


def test_values_by_name_and_expressions(tmp_path):
    with controlled(tmp_path, train, "loss/square [step 2]") as (controller, _):
        assert stopped(controller) == "loss/square"
        (x,), (y,) = controller.inputs(), controller.outputs()
        assert (x.name, x.role) == ("loss/matmul", "inputs[0]")
        assert np.array_equal(x.array, np.full((4, 2), 6.0))
        assert np.array_equal(y.array, np.full((4, 2), 36.0))
        assert controller.evaluate("max(value) - mean(inputs[0])") == 30
        assert controller.evaluate("step") == 2
        assert controller.evaluate("loss/matmul: value[0, 1]") == 6
        assert controller.evaluate("matmul: sum(value)") == 48
        # Step 2 has not run its backward pass yet, so the gradient is from step 1.
        gradient = controller.gradient()
        assert gradient.step == 1
        assert np.array_equal(gradient.array, np.full((4, 2), 1 / 8))
        with pytest.raises(ConditionError, match="valu"):
            controller.evaluate("valu")
        with pytest.raises(UsageError, match=r"no node named .loss/sqare.*did you mean"):
            controller.evaluate("loss/sqare: value")
        assert {"loss/square", "op:matmul", "scope:loss"} <= set(controller.names())


def test_scopes_are_frames_with_the_lines_of_the_user(tmp_path):
    with controlled(tmp_path, train, "loss/square") as (controller, _):
        stopped(controller)
        node, scope, *python = controller.frames()
        assert (node.kind, node.name) == ("node", "loss/square")
        assert "np.square" in node.code
        assert (scope.kind, scope.name) == ("scope", "loss")
        assert scope.code == 'with ns.name_scope("loss"):'
        assert scope.line == node.line - 1
        assert python[0].kind == "python"
        assert python[0].code == "program()"


def nested(x: ns.Tensor) -> ns.Tensor:
    with ns.name_scope("inner"):
        return np.exp(x)


@ns.name_scope("outer")
def decorated(x: ns.Tensor) -> ns.Tensor:
    return nested(x)


class Doubling(ns.nn.Module):
    def __init__(self) -> None:
        self.first = Halving()

    def forward(self, x: ns.Tensor) -> ns.Tensor:
        return self.first(x) * 2.0


class Halving(ns.nn.Module):
    def forward(self, x: ns.Tensor) -> ns.Tensor:
        return np.negative(x)


def test_frames_of_decorators_functions_and_modules(tmp_path):
    def program() -> None:
        x = ns.parameter(np.ones(2), name="x")
        decorated(x)
        for number in range(1):
            with ns.name_scope(f"model_{number}"):
                Doubling()(x)

    with controlled(tmp_path, program, "op:exp", "op:negative") as (controller, _):
        stopped(controller)
        frames = [(frame.kind, frame.name, frame.code) for frame in controller.frames()[:3]]
        assert frames == [
            ("node", "outer/inner/exp", "return np.exp(x)"),
            ("scope", "outer/inner", 'with ns.name_scope("inner"):'),
            ("scope", "outer", "decorated(x)"),
        ]
        controller.command(Continue())
        stopped(controller)
        frames = [(frame.kind, frame.name, frame.code) for frame in controller.frames()[:3]]
        assert frames == [
            ("node", "model_0/first/negative", "return np.negative(x)"),
            ("scope", "model_0/first", "return self.first(x) * 2.0"),
            ("scope", "model_0", 'with ns.name_scope(f"model_{number}"):'),
        ]


def test_back_and_forth_in_the_recording(tmp_path):
    with controlled(tmp_path, train, "loss/mean [step 3]") as (controller, _):
        stopped(controller)
        seen = [controller.back().moment for _ in range(3)]
        assert [(event.node.name, event.step) for event in seen[:2]] == [
            ("loss/square", 3), ("loss/matmul", 3),
        ]  # fmt: skip
        assert seen[2].step == 2
        assert seen[2].node.phase == "backward"
        assert controller.looking_back
        # Values and expressions are those of that moment.
        controller.back(RunTo("loss/square"))
        assert controller.moment.step == 2
        assert controller.evaluate("max(value)") == 36
        assert controller.gradient().step == 2
        assert controller.frames()[0].name == "loss/square"
        controller.back(NextStep())
        assert controller.moment.step == 1
        # Step forward again, up to the program's stop.
        assert controller.command(StepOver()).moment.step == 2
        names = []
        while controller.looking_back:
            names.append(controller.command(StepNode()).moment.node.name)
        assert names[:3] == ["loss/square", "loss/mean", names[2]]
        assert names[-1] == "loss/mean"
        assert controller.stop.step == controller.moment.step == 3
        assert controller.evaluate("value") == 81
        # Meanwhile the program has not moved.
        assert controller.command(StepNode()) is None
        assert stopped(controller).startswith("backward/")


def test_at_the_beginning_there_is_nothing_before(tmp_path):
    with controlled(tmp_path, train, entry=True) as (controller, _):
        stopped(controller)
        with pytest.raises(UsageError, match="nothing before this is recorded"):
            controller.back()
        with pytest.raises(UsageError, match="nothing before"):
            controller.reverse_continue()
        assert not controller.looking_back


def test_reverse_continue_evaluates_conditions_on_recorded_values(tmp_path):
    specs = ("loss/mean [step 3]", "loss/square if max(value) > 30", "op:matmul [off]")
    with controlled(tmp_path, train, *specs) as (controller, _):
        stopped(controller)
        assert controller.stop.step == 2  # Stopped at loss/square.
        controller.command(Continue())
        stopped(controller)
        assert controller.stop.step == 3
        controller.command(Continue())
        assert stopped(controller) == "loss/mean"
        moved = controller.reverse_continue()
        assert (moved.moment.node.name, moved.moment.step, moved.found) == ("loss/square", 3, True)
        assert "breakpoint 2" in moved.text
        assert controller.reverse_continue().moment.step == 2
        moved = controller.reverse_continue()  # The condition is false in step 1.
        assert not moved.found
        assert moved.moment.step == 1
        assert "No earlier breakpoint" in moved.text
        moved = controller.command(Continue())
        assert (moved.moment.node.name, moved.moment.step) == ("loss/square", 2)
        controller.command(Continue())
        moved = controller.command(Continue())
        assert moved.moment.live
        assert "Back at the live stop" in moved.text
        controller.back()
        assert controller.now().moment.node.name == "loss/mean"


def test_reverse_continue_to_the_entry_of_a_scope(tmp_path):
    with controlled(tmp_path, train, "loss/mean [step 2]", "scope:loss") as (controller, _):
        places = []
        for _ in range(2):
            stopped(controller)
            places.append((controller.stop.node_name, controller.stop.step))
            controller.command(Continue())
        assert places == [("loss/matmul", 1), ("loss/matmul", 2)]
        stopped(controller)
        back = [controller.reverse_continue().moment for _ in range(2)]
        assert [(event.node.name, event.step) for event in reversed(back)] == places


def test_what_was_not_recorded_is_reported(tmp_path):
    def program() -> None:
        w = ns.parameter(np.ones((3, 2)), name="w")
        for number in ns.steps((1, 2, 3)):  # Each batch has more elements than statistics keep.
            with ns.name_scope("loss"):
                np.mean(np.square(ns.tensor(np.full((5, 3), float(number)), name="batch") @ w))

    specs = ("loss/mean [step 3]", "loss/square [step 9] if max(value) > 30")
    with controlled(tmp_path, program, *specs, level="summary") as (controller, _):
        stopped(controller)
        # The program is stopped here, so the array is available.
        assert controller.outputs()[0].array is not None
        controller.set_breakpoints(
            [
                controller.breakpoints[0].breakpoint,
                parse_breakpoint("op:square if mean(value) > 30"),
            ]
        )
        moved = controller.reverse_continue()
        assert not moved.found
        assert (
            "could not be evaluated 3 times: loss/square is not available: level summary"
            in moved.text
        )
        controller.command(RunTo("loss/square"))
        (square,) = controller.outputs()
        assert square.array is None
        assert square.summary.max == 9
        assert square.missing == "level summary keeps no elements"
        with pytest.raises(ConditionError, match="level summary keeps no elements"):
            controller.evaluate("value")


def test_edits_at_a_stop(tmp_path):
    results = []

    def program() -> None:
        x = ns.parameter(np.ones((2, 2)), name="x")
        results.append(np.square(np.exp(x)).numpy())

    with controlled(tmp_path, program, "op:exp") as (controller, _):
        stopped(controller)
        assert controller.edit("value[0, :] = 3") == "exp[0, :] set to 3"
        assert controller.edit("exp[1, 0] *= 0") == "exp[1, 0] times 0"
        assert controller.evaluate("value[0, 1]") == 3
        with pytest.raises(EditError, match="not a value of exp"):
            controller.edit("inputs[3] = 1")
        with pytest.raises(EditError, match="is out of range"):
            controller.edit("value[7] = 1")
        controller.command(StepNode())
        stopped(controller)
        controller.back()
        with pytest.raises(UsageError, match="cannot be changed"):
            controller.edit("value = 1")
    assert results[0][0].tolist() == [9, 9]
    assert results[0][1, 0] == 0


@pytest.mark.parametrize(
    ("text", "target", "command"),
    [
        ("value = 1", "value", SetValue(0, "set", 1.0)),
        ("inputs[0][1, :] -= 2", "inputs[0]", SetValue(0, "add", -2.0, "1, :")),
        ("a/b_1[isnan] /= 4", "a/b_1", SetValue(0, "scale", 0.25, "isnan")),
        ("value clip - 1", "value", SetValue(0, "clip", high=1.0)),
        ("value[0] noise 0.1 7", "value", SetValue(0, "noise", 0.1, "0", seed=7)),
        ("loss/log = 1e-3+2j", "loss/log", SetValue(0, "set", 1e-3, imaginary=2.0)),
        ("value = True", "value", SetValue(0, "set", 1.0)),
    ],
)  # fmt: skip
def test_edits_are_parsed(text, target, command):
    assert parse_edit(text) == (target, command)


@pytest.mark.parametrize(
    "text", ["", "value", "value 3", "value == 3", "= 3", "value = x", "value clip 1", "a b = 1",
             "value load /no/such.npy", "value noise", "value /= 0"],
)  # fmt: skip
def test_invalid_edits_are_refused(text):
    with pytest.raises(EditError):
        parse_edit(text)


def test_what_a_node_raises_stops_first_and_arrives_unchanged(tmp_path):
    error = RuntimeError("mine")

    def program() -> None:
        x = ns.parameter(np.ones(2), name="x")
        np.exp(x)
        raise error

    with controlled(tmp_path, program, "op:exp") as (controller, raised):
        stopped(controller)
        controller.command(Continue())
        controller.leave()
    assert raised == [error]


def test_steps_into_scopes_go_back_too(tmp_path):
    with controlled(tmp_path, train, "loss/mean [step 2]") as (controller, _):
        stopped(controller)
        moved = controller.back(StepOut())
        assert moved.moment.node.phase == "backward"
        assert controller.command(StepIn()).moment.node.name == "loss/matmul"


def test_a_parameter_is_what_was_assigned_to_it(tmp_path):
    def program() -> None:
        w = ns.parameter(np.array([1.0, 2.0]), name="w")
        for _ in ns.steps([1, 2]):
            loss = np.sum(w * w)
            with ns.no_grad():
                ns.assign(w, w - 0.5 * loss)

    with controlled(tmp_path, program, "assign") as (controller, _):
        stopped(controller)
        assert controller.evaluate("w: min(value)") == -1.5
        named = controller.named("w")
        assert named is not None
        assert list(named.array) == [-1.5, -0.5]
        assert controller.evaluate("min(inputs[0])") == 1.0
        controller.back()
        assert controller.evaluate("w: min(value)") == 1.0
        controller.now()
        controller.command(RunTo("sum"))
        stopped(controller)
        assert controller.evaluate("w: min(value)") == -1.5


def test_a_parameter_is_what_was_assigned_to_it_last(tmp_path):
    def program() -> None:
        w = ns.parameter(np.array([1.0, 2.0]), name="w")
        for _ in ns.steps([1, 2]):
            with ns.no_grad():
                ns.assign(w, w * 0.5)
                ns.assign(w, w + 1.0)
            np.exp(w)

    with controlled(tmp_path, program, "exp") as (controller, _):
        stopped(controller)
        assert controller.evaluate("w: max(value)") == 2.0
        assert controller.evaluate("w: min(value)") == 1.5


def test_a_parameter_is_what_a_kernel_assigned_to_it(tmp_path):
    def program() -> None:
        w = ns.parameter(np.array([1.0, 2.0]), name="w")
        optimizer = ns.optim.SGD([w], lr=0.25, momentum=0.5)

        @ns.compile(backend="c")
        def step() -> ns.Tensor:
            loss = np.sum(w * w)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        for _ in ns.steps([1, 2]):
            step()

    with controlled(tmp_path, program, "reduction") as (controller, _):
        stopped(controller)
        controller.command(RunTo("optimizer/w/momentum"))
        stopped(controller)
        assert controller.moment.node.op == "fused"
        named = controller.named("w")
        assert named is not None
        assert list(named.array) == [0.5, 1.0]
        assert controller.evaluate("w: max(value)") == 1.0
        controller.back()
        assert controller.evaluate("w: max(value)") == 2.0


def scheduled() -> None:
    """A learning rate that changes in each step: one node, another attribute."""
    w = ns.parameter(np.ones(2), name="w")
    for step in ns.steps(range(3)):
        with ns.name_scope("update"):
            np.sum(w * (0.5**step))


def test_attributes_are_those_of_the_execution(tmp_path):
    lines: list[str] = []
    with controlled(tmp_path, scheduled, "update/sum [step 3]") as (controller, _):
        assert stopped(controller) == "update/sum"
        console = Console(controller, lines.append)
        console.run("info update/multiply")
        assert any(line.endswith(" = 0.25") for line in lines)
        moment = controller.of_node("update/multiply")
        assert 0.25 in controller.attrs(moment).values()
        assert 1.0 in moment.node.attrs.values()
        lines.clear()
        (name,) = [name for name, value in moment.node.attrs.items() if value == 1.0]
        console.run(f"p update/multiply.{name}")
        assert lines == ["0.25"]
