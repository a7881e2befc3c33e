"""Breakpoints of every kind, on real programs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.debug.breakpoints.matching import Catalog, counts, hits_of, line_of
from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.errors import BreakpointError, ConditionError
from nodescope.ir.graph import Node
from nodescope.protocol import Breakpoint
from tests.core.debug.debugged import debugged

HERE = Path(__file__).name


def steps(count: int = 4) -> None:
    w = ns.parameter(np.array([1.0, -2.0, 3.0]), name="w")
    x = ns.tensor(np.array([1.0, 1.0, 2.0]))
    for _ in range(count):
        ns.step()
        with ns.name_scope("net"):
            h = np.tanh(w * x)  # the line of tanh
        with ns.name_scope("loss"):
            loss = np.mean(h * h)
        loss.backward()
        w.data[...] -= 0.1 * w.grad.data
        w.grad = None


TANH_LINE = next(
    number
    for number, line in enumerate(Path(__file__).read_text().splitlines(), 1)
    if "# the line of tanh" in line
)


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("net/tanh", ["net/tanh"] * 4),
        ("regex:(net|loss)/t.*", ["net/tanh"] * 4),
        ("op:tanh", ["net/tanh"] * 4),
        ("op:mean [step 2..3]", ["loss/mean"] * 2),
        ("op:mean [step 3..]", ["loss/mean"] * 2),
        ("op:mean [hits % 2]", ["loss/mean"] * 2),
        ("op:mean [hits >= 4]", ["loss/mean"]),
        ("op:mean [hits == 2, once]", ["loss/mean"]),
        ("op:mean [once]", ["loss/mean"]),
        ("op:mean [off]", []),
        ("before op:mean [step 1]", ["loss/mean"]),
        ("op:tanh [backward]", []),
        (f"source:{HERE}:{TANH_LINE} [step 1, forward]", ["net/multiply", "net/tanh"]),
        (f"{HERE}:{TANH_LINE} [step 1, forward]", ["net/multiply", "net/tanh"]),
        (f"source:elsewhere/{HERE}:{TANH_LINE}", []),
        ("op:mean [step 2..3, hits % 2]", ["loss/mean"]),
    ],
)  # fmt: skip
def test_a_breakpoint_stops_where_its_target_says(spec: str, names: list[str]) -> None:
    with debugged(spec) as seen:
        steps()
    assert seen.names == names


def test_a_phase_limits_a_breakpoint() -> None:
    with debugged("glob:* [backward, step 1]") as seen:
        steps(1)
    assert seen.names
    assert all(name.startswith("backward/") for name in seen.names)


def test_a_logpoint_logs_and_does_not_stop() -> None:
    logpoint = (
        "op:mean [hits % 2] log {hits}: loss {value:.2f} in {scope}, {{x}} {min(inputs[0])>=0}"
    )
    with debugged(logpoint) as seen:
        steps()
    assert seen.stops == []
    assert [text.partition(" ")[0] for text in seen.logged] == ["2:", "4:"]
    assert seen.logged[0].endswith("in loss, {x} True")
    assert seen.statuses[0].hits == 4


def test_a_message_field_without_a_value_gives_the_reason() -> None:
    with debugged("op:mean [once] log {inputs[7]} and {value}") as seen:
        steps(1)
    assert seen.logged[0].startswith("<the index is out of range> and 0.")


def test_a_condition_on_a_gradient_waits_for_it() -> None:
    with debugged("net/tanh if max(abs(grad)) > 0") as seen:
        steps(3)
    assert [stop.step for stop in seen.stops] == [1, 2, 3]
    assert all("gradient of net/tanh" in stop.text for stop in seen.stops)
    assert all(name.startswith("backward/") for name in seen.names)
    (array,) = seen.live[0].values()
    assert array.shape == (3,)


def test_a_gradient_of_a_parameter() -> None:
    with debugged(
        "node:w if norm(grad) > 100", "node:w if norm(grad) > 0 log {norm(grad):.1f}"
    ) as s:
        steps(2)
    assert s.stops == []
    assert len(s.logged) == 2


def test_gradients_are_not_requested_without_need() -> None:
    with debugged("net/tanh") as seen:
        assert not seen.bus.demand.gradients
    with debugged("net/tanh if any(grad > 1)") as seen:
        assert seen.bus.demand.gradients


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("op:log [step 7..3]", "range of steps is empty: 7 to 3"),
        ("op:log [step]", "a step or a range of steps is missing"),
        ("op:log [hits 0]", "is not a hit count.*every fifth"),
        ("op:log [hits < 3]", "is not a hit count"),
        ("op:log [bakward]", "no option 'bakward'.*did you mean 'backward'"),
        ("source:model.py", "is not a line of a file"),
        ("regex:a++", "bad repetition operator"),
        ("regex:(", "not a regular expression"),
        ("regex:" + "a" * 201, "longer than 200"),
        ("op:log log", "no message after 'log'"),
        ("op:log if", "no condition after 'if'"),
        ("op:log log {value", "unmatched"),
        ("op:log log a {valu} b", "unknown name 'valu'"),
        ("before op:log log {value}", "known only after"),
        ("before op:log if value > 3", "known only after"),
    ],
)
def test_nonsense_is_reported(spec: str, expected: str) -> None:
    with pytest.raises((BreakpointError, ConditionError), match=f"(?s){expected}"):
        parse_breakpoint(spec)


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ("op:log log a {1 + valu} b", "valu"),
        ("  op:log if step > 1 and valu > 3 ", "valu"),
        ("op:log if step > 1 log a {valu} step > 1", "valu"),
        ("op:log if 9**9**9 log 9**9**9", "9**9**9"),
        ("regex:net/[a|b", "[a"),
        ("before op:log [step 3..] if any(value)", "value"),
    ],
)
def test_the_column_of_a_fault_counts_from_the_beginning(spec: str, fault: str) -> None:
    with pytest.raises((BreakpointError, ConditionError)) as raised:
        parse_breakpoint(spec)
    assert raised.value.column == spec.index(fault)


def test_hits_and_lines() -> None:
    assert hits_of(" 3 ") == ("==", 3)
    assert [n for n in range(1, 11) if counts(Breakpoint("op", "x", hits="% 5"), n)] == [5, 10]
    assert line_of("C:\\code\\model.py:12") == ("C:\\code\\model.py", 12)


# Compiled functions


def compiled_step(**how: Any) -> None:
    w = ns.parameter(np.linspace(-1.0, 1.0, 40_000), name="w")

    @ns.compile(**how)
    def step(x: Any) -> Any:
        with ns.name_scope("net"):
            h = np.tanh(w * x)
            twice = np.tanh(w * x)
            unused = np.exp(x)  # noqa: F841
            fixed = np.sqrt(ns.constant(np.array([4.0])))
        return np.mean((h + twice) * fixed)

    x = ns.tensor(np.linspace(0.0, 2.0, 40_000))
    for _ in range(2):
        ns.step()
        with ns.name_scope("train"):
            step(x)


@pytest.mark.parametrize("backend", ["plain", "numpy", "auto"])
def test_a_breakpoint_survives_compilation(backend: str) -> None:
    with debugged("train/net/tanh", "train/net/tanh_1", "train/net/exp", "train/net/sqrt") as seen:
        compiled_step(backend=backend)
    fused, merged, unused, folded = seen.statuses
    assert [stop.step for stop in seen.stops if stop.breakpoint == 1] == [1, 2]
    assert fused.verified
    if backend == "plain":
        return
    assert re.search(r"tanh_1 was \w+ into train/\S+ by cse/same", merged.message)
    assert merged.verified
    assert merged.hits == 2
    assert "eliminated" in unused.message
    assert "does not run" in unused.message
    assert not unused.verified
    assert "fold/constant" in folded.message
    assert not folded.verified


def test_the_inner_value_of_a_kernel_is_that_of_its_own_inputs() -> None:
    with debugged("train/net/tanh [step 2]") as seen:
        compiled_step(backend="numpy")
    assert seen.names == ["train/net/tanh"]
    values = [item for item in seen.live[0].values() if item.size == 40_000]
    x = np.linspace(0.0, 2.0, 40_000)
    assert any(
        np.array_equal(value, np.tanh(np.linspace(-1.0, 1.0, 40_000) * x)) for value in values
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("net/tanh if value > 1", "any"),
        ("op:tanh if value.any() and inputs[3] > 1", "out of range"),
        ("before op:tanh if inputs[3] > 1", "out of range"),
        ("glob:net/t* if 1 / (step - step) > 1", "division by zero"),
        ("regex:net/t.* if step ** 5000.0 > 1 or value", "any"),
        ("scope:loss if value[7] > 1", "out of range"),
        (f"{HERE}:{TANH_LINE} [forward] if value > 1", "any"),
        ("op:tanh if grad > 1", "any"),
        ("op:tanh [hits % 2, step 1..] if shape(value) > 1", "a tuple"),
        ("op:multiply [backward] if inputs > 1", "a tuple"),
        ("op:tanh if value > 1 log {value}", "any"),
        ("op:tanh if grad[9] > 1 log {grad}", "out of range"),
    ],
)
def test_a_condition_that_fails_disables_its_breakpoint_and_says_so(
    spec: str, expected: str
) -> None:
    with debugged(spec, "op:mean") as seen:
        steps(2)
    failed, other = seen.statuses
    assert seen.names == ["loss/mean"] * 2
    assert other.breakpoint.enabled
    assert not failed.breakpoint.enabled
    assert failed.message.startswith("disabled at ")
    assert expected in failed.message
    (line,) = seen.logged
    assert failed.message in line


def test_a_part_of_a_message_that_fails_says_why_in_its_place() -> None:
    with debugged("op:mean log {inputs[3]}; {value > inputs[0][0]}; {1 / (step - step)}") as seen:
        steps(2)
    assert seen.statuses[0].breakpoint.enabled
    assert len(seen.logged) == 2
    assert all("<the index is out of range>" in item for item in seen.logged)
    assert all("<division by zero>" in item for item in seen.logged)


def test_a_node_target_that_names_a_scope_gets_a_hint():
    node = Node(1, "net/inner/tanh", "tanh", "activation", (), scope="net/inner")
    catalog = Catalog((node,))
    assert catalog.near(parse_breakpoint("net")) == (
        "no node 'net' so far, but a scope: scope:net stops on entering it"
    )
    assert catalog.near(parse_breakpoint("neet")).startswith("no node 'neet' so far")
