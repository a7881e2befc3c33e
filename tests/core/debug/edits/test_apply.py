"""Values edited at a stop: what is stored, what is refused, and the effect on the program."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import nodescope as ns
from nodescope.debug.edits.apply import describe_edit, edited
from nodescope.debug.gate.gate import Gate
from nodescope.errors import EditError, UsageError
from nodescope.protocol import Command, Continue, SetValue, StepTwin, Stop
from tests.core.debug.debugged import debugged

F = np.arange(6, dtype=np.float32).reshape(2, 3)


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    ("array", "command", "wanted"),
    [
        (F, SetValue(1, "set", 7.0), np.full((2, 3), 7.0)),
        (F, SetValue(1, "set", float("nan"), "0, 1"), [[0, np.nan, 2], [3, 4, 5]]),
        (F, SetValue(1, "set", 0.0, "..., -1"), [[0, 1, 0], [3, 4, 0]]),
        (F, SetValue(1, "add", 1.0, ":, 1:"), [[0, 2, 3], [3, 5, 6]]),
        (F, SetValue(1, "scale", -2.0, "1"), [[0, 1, 2], [-6, -8, -10]]),
        (F, SetValue(1, "clip", low=1.0, high=4.0), [[1, 1, 2], [3, 4, 4]]),
        (F, SetValue(1, "clip", high=4.0), [[0, 1, 2], [3, 4, 4]]),
        (F - 2, SetValue(1, "set", 0.0, "negative"), [[0, 0, 0], [1, 2, 3]]),
        (np.array([1.0, np.nan, np.inf]), SetValue(1, "set", 0.0, "isnan"), [1.0, 0.0, np.inf]),
        (np.array([1.0, np.nan, np.inf]), SetValue(1, "set", 0.0, "nonfinite"), [1.0, 0.0, 0.0]),
        (np.array([1, 2], np.int8), SetValue(1, "set", 100.0), [100, 100]),
        (np.array([1, 2], np.int8), SetValue(1, "scale", 3.0), [3, 6]),
        (np.array([True, False]), SetValue(1, "set", 1.0), [True, True]),
        (np.array([1j]), SetValue(1, "set", 2.0, imaginary=1.0), [2 + 1j]),
        (np.array(3.0), SetValue(1, "set", 4.0), 4.0),
        (np.zeros((0, 3)), SetValue(1, "set", 4.0), np.zeros((0, 3))),
        (F, SetValue(1, "npy", npy=npy(np.ones((2, 3)))), np.ones((2, 3))),
        (F, SetValue(1, "npy", index="0", npy=npy(np.array([7, 8, 9]))), [[7, 8, 9], [3, 4, 5]]),
    ],
)
def test_what_is_stored(array: Any, command: SetValue, wanted: Any) -> None:
    before = array.copy()
    result = edited(array, command)
    assert (result.dtype, result.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(result, np.asarray(wanted, array.dtype))
    np.testing.assert_array_equal(array, before)
    assert not np.shares_memory(result, array)


@pytest.mark.parametrize(
    ("array", "command", "expected"),
    [
        (F, SetValue(1, index="5"), r"\[5\] is out of range for shape \(2, 3\)"),
        (F, SetValue(1, index="0, 0, 0"), "is out of range"),
        (F, SetValue(1, index="x.y"), "is not an index"),
        (F, SetValue(1, index="__import__('os')"), "is not an index"),
        (F, SetValue(1, index="0]; import os; x[0"), "is not an index"),
        (F, SetValue(1, index="True"), "no element selection"),
        (F, SetValue(1, index="isnam"), "did you mean 'isnan'"),
        (F, SetValue(1, index="::0"), "step of a slice"),
        (F, SetValue(1, index="1" * 201), "longer than 200"),
        (F, SetValue(1, "set", 1e300), "does not fit into float32"),
        (F, SetValue(1, "set", imaginary=1.0), "does not fit"),
        (F, SetValue(1, "clip"), "needs a lower or an upper bound"),
        (F, SetValue(1, "clip", low=2.0, high=1.0), "in the wrong order"),
        (F, SetValue(1, "noise", -1.0), "is not positive"),
        (np.array([1], np.int8), SetValue(1, "set", 1000.0), "-128 to 127"),
        (np.array([1], np.int8), SetValue(1, "set", 0.5), "not an integer"),
        (np.array([1], np.int8), SetValue(1, "set", float("nan")), "not an integer"),
        (np.array([3], np.int8), SetValue(1, "scale", 0.5), "has a fractional part"),
        (np.array([100], np.int8), SetValue(1, "scale", 2.0), "does not fit"),
        (np.array([1], np.int8), SetValue(1, "noise", 1.0), "noise is for floating-point"),
        (np.array([True]), SetValue(1, "add", 1.0), "booleans cannot be added"),
        (np.array([True]), SetValue(1, "set", 3.0), "not a boolean"),
        (np.array(["a"]), SetValue(1, "set", 3.0), "cannot be edited"),
        (F, SetValue(1, "npy", npy=b"nothing"), "not a .npy array"),
        (F, SetValue(1, "npy", npy=b"\x93NUMPY\x01\x00\x20\x00" + b"(" * 99), "not a .npy array"),
        (F, SetValue(1, "npy", npy=npy(np.ones((2, 3)))[:-1]), "the file is truncated"),
        (
            F,
            SetValue(1, "npy", npy=npy(np.ones(3)).replace(b"(3,), }", b"(9999999999999,), }")),
            "not a .npy array|the file is truncated",
        ),
        (F, SetValue(1, "npy", npy=b"\x93NUMPY\x03\x00" + b"0" * 99), "version 3.0"),
        (F, SetValue(1, "noise", 1.0, seed=-1), "the seed -1 is negative"),
        (F, SetValue(1, "npy", npy=npy(np.ones(3))), r"shape \(3,\), but replaces shape \(2, 3\)"),
        (
            F,
            SetValue(1, "npy", npy=npy(np.ones((2, 3), complex))),
            "cannot be converted to float32",
        ),
        (F, SetValue(1, "npy", npy=npy(np.array([None] * 6, object))), "not a .npy array"),
    ],
)
def test_what_is_refused(array: Any, command: SetValue, expected: str) -> None:
    with pytest.raises(EditError, match=expected):
        edited(array, command)


@given(
    arrays.arrays(
        st.sampled_from([np.int8, np.uint16, np.float16, np.float64, np.complex64, np.bool_]),
        arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ),
    st.builds(
        SetValue,
        value=st.just(1),
        how=st.sampled_from(["set", "add", "scale", "clip", "noise"]),
        number=st.floats() | st.integers(-300, 300).map(float),
        index=st.sampled_from(["", "0", "-1", ":", "...", "1:", "0, 0", "isnan", "zero"]),
        low=st.none() | st.floats(),
        high=st.none() | st.floats(),
    ),
)
def test_an_edit_keeps_shape_and_dtype_or_is_refused(array: Any, command: SetValue) -> None:
    kept = array.copy()
    try:
        result = edited(array, command)
    except EditError:
        result = array
    assert (result.dtype, result.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(array, kept)
    assert describe_edit(command, "net/tanh").startswith("net/tanh")


# Edits in a running program


def output_of(stop: Stop, gate: Gate) -> int:
    return gate._catalog.nodes[stop.node].outputs[0]


def setting(**how: Any) -> Any:
    def then(stop: Stop, gate: Gate) -> Command:
        gate.command(SetValue(output_of(stop, gate), **how))
        return Continue()

    return then


@pytest.mark.parametrize("compiled", [False, True])
def test_the_program_continues_with_an_edit(compiled: bool) -> None:
    def program(x: Any) -> Any:
        return np.exp(x * 2.0) + 1.0

    run = ns.compile(program, backend="numpy") if compiled else program
    x = ns.tensor(np.array([0.0, 1.0]))
    plain = run(x).numpy()
    with debugged("op:multiply", then=setting(how="set", number=0.0)) as seen:
        result = run(x).numpy()
    assert result.tolist() == [2.0, 2.0]
    assert [edit.how for edit in seen.edits] == [f"{seen.names[0]} set to 0"]
    assert seen.logged == [f"edited: {seen.names[0]} set to 0"]
    assert x.tolist() == [0.0, 1.0]
    np.testing.assert_array_equal(run(x).numpy(), plain)


def test_an_input_is_not_reported_as_another_output() -> None:
    def change(stop: Stop, gate: Gate) -> Command:
        gate.command(SetValue(gate._catalog.nodes[stop.node].inputs[0], number=0.0))
        return Continue()

    def program(x: Any) -> Any:
        doubled = x * 2.0
        return np.exp(doubled), doubled + 1.0

    with debugged("op:exp", then=change) as seen:
        exponential, later = program(ns.tensor(np.array([1.0])))
    assert exponential.tolist() == [np.exp(2.0)]
    assert later.tolist() == [1.0]
    name = seen.names[0]
    assert seen.logged == [
        f"edited: multiply set to 0; {name} has already run with the old value and does not run "
        f"again, only what reads it later gets the new one. To see {name} with it, use What if, "
        "or stop before it"
    ]
    assert [edit.how for edit in seen.edits] == ["multiply set to 0"]


def test_before_a_node_an_edit_needs_no_explanation() -> None:
    def change(stop: Stop, gate: Gate) -> Command:
        gate.command(SetValue(gate._catalog.nodes[stop.node].inputs[0], number=0.0))
        return Continue()

    with debugged("before op:exp", then=change) as seen:
        result = np.exp(ns.tensor(np.array([1.0])) * 2.0)
    assert result.tolist() == [1.0]
    assert seen.logged == ["edited: multiply set to 0"]


def test_an_operator_between_tensors_continues_with_an_edit() -> None:
    a, b = ns.tensor(np.array([1.0, 2.0])), ns.tensor(np.array([3.0, 4.0]))
    results = []
    with debugged("op:add [step 2]", then=setting(how="set", number=10.0, index="1")):
        for _ in range(3):
            ns.step()
            results.append((a + b).tolist())
    assert results == [[4.0, 6.0], [4.0, 10.0], [4.0, 6.0]]


def test_gradients_flow_as_if_the_operation_had_returned_the_edit() -> None:
    x = ns.parameter(np.array([0.5, 1.0]), name="x")
    with debugged("op:tanh", then=setting(how="set", number=0.5)):
        y = np.tanh(x)
        (y * y).sum().backward()
    # The derivative of tanh at the output 0.5 is 0.75; times 2 y, which is 1.
    np.testing.assert_allclose(x.grad.numpy(), [0.75, 0.75])


def test_an_input_is_changed_before_the_node_runs() -> None:
    x = ns.tensor(np.array([1.0, 4.0]), name="x")

    def then(stop: Stop, gate: Gate) -> Command:
        gate.command(SetValue(gate._catalog.nodes[stop.node].inputs[0], "set", 9.0, "0"))
        return Continue()

    with debugged("before op:sqrt", then=then):
        ns.step()
        first = np.sqrt(x)
    assert first.tolist() == [3.0, 2.0]
    assert x.tolist() == [9.0, 4.0]


def test_a_parameter_is_changed_for_good() -> None:
    w = ns.parameter(np.array([1.0, 2.0]), name="w")
    with debugged("node:w [step 2]", then=setting(how="scale", number=10.0)):
        for _ in range(3):
            ns.step()
            result = (w * 1.0).tolist()
    assert result == [10.0, 20.0]


def test_a_value_elsewhere_is_refused_and_nothing_changes() -> None:
    refused: list[str] = []

    def then(stop: Stop, gate: Gate) -> Command:
        for value in (9999, output_of(stop, gate)):
            try:
                gate.command(SetValue(value, "set", 1e300, "77"))
            except EditError as error:
                refused.append(str(error))
        return Continue()

    with debugged("op:exp", then=then) as seen:
        result = np.exp(ns.tensor(np.zeros(2)))
    assert result.tolist() == [1.0, 1.0]
    assert "does not belong to the node" in refused[0]
    assert "is out of range" in refused[1]
    assert seen.edits == []


def test_a_running_program_is_not_edited() -> None:
    with debugged("op:nothing") as seen:
        gate = next(probe for probe in seen.bus.probes if isinstance(probe, Gate))
        with pytest.raises(UsageError, match="running"):
            gate.command(SetValue(1))


def test_step_twin_reaches_the_backward_node_and_is_refused_for_a_forward_one() -> None:
    refused: list[str] = []

    def asked(stop: Stop, gate: Gate) -> Command:
        if stop.node_name == "net/tanh":
            return StepTwin()
        with pytest.raises(UsageError, match="net/tanh ran before") as error:
            gate.command(StepTwin())
        refused.append(error.value.hint)
        return Continue()

    w = ns.parameter(np.array([1.0, 2.0]), name="w")
    with debugged("net/tanh [once]", then=asked) as seen:
        for _ in range(2):
            ns.step()
            with ns.name_scope("net"):
                h = np.tanh(w)
            h.sum().backward()
            w.grad = None
    first, back = seen.stops
    assert (first.node_name, first.step) == ("net/tanh", 1)
    assert back.node_name.startswith("backward/net/")
    assert "a backward node of net/tanh" in back.text
    assert refused == ["go back to it in the recording"]
