"""Unobserved calls in the native core do what the Python code does."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import ops
from nodescope.engine import dispatch_mode
from nodescope.engine import run as engine
from nodescope.engine import tensor as tensors
from nodescope.engine.tensor import LEAF, Tensor, make
from nodescope.ops.op import Op


def outcome(run: Any, op: Op, inputs: Any, attrs: dict[str, Any], recording: bool) -> Any:
    """What a call gives: arrays and places on the tape without their numbers, or an error."""
    try:
        result = run(op, inputs, attrs, recording)
    except Exception as error:
        return type(error), str(error), type(error.__cause__), str(error.__cause__)
    results = result if isinstance(result, tuple) else (result,)
    return [
        (type(one), one.data.dtype, one.data.shape, one.data.tobytes(), place_of(one, inputs))
        for one in results
    ]


def place_of(result: Tensor, inputs: Any) -> Any:
    if result.edge is None:
        return None
    number, op, operands, attrs = result.edge
    assert number > 0
    assert op is not None
    known = {*map(id, inputs)}
    return op.name, [id(one) if id(one) in known else type(one) for one in operands], attrs


def both(op: Op, inputs: Any, attrs: dict[str, Any], recording: bool) -> None:
    assert engine._plain is not None, "no native core"
    expected = outcome(engine._run, op, inputs, attrs, recording)
    assert repr(outcome(engine.run, op, inputs, attrs, recording)) == repr(expected)


@pytest.mark.parametrize("op", [*ops.all_ops()], ids=lambda op: op.name)
def test_every_op_gives_the_same(op: Op) -> None:
    for sample in op.samples(np.random.default_rng(3)):
        for tracked in (False, True):
            inputs = tuple(
                make(value, edge=LEAF if tracked else None)
                if isinstance(value, np.ndarray)
                else value
                for value in sample.inputs
            )
            both(op, inputs, sample.attrs, tracked)
            both(op, inputs, sample.attrs, not tracked)
            both(op, inputs[:-1], sample.attrs, True)  # Too few inputs: some ops refuse them.
            both(op, (*inputs, "x"), sample.attrs, True)


def called(function: Any, op: Op, inputs: Any, attrs: dict[str, Any]) -> str:
    def run(op: Op, inputs: Any, attrs: dict[str, Any], recording: bool) -> Any:
        return function(op, tensors.operand, tensors.NO_ATTRS)(*inputs, **attrs)

    return repr(outcome(run, op, inputs, attrs, True))


@pytest.mark.parametrize("op", [*ops.all_ops()], ids=lambda op: op.name)
def test_every_op_as_a_function_gives_the_same(op: Op) -> None:
    assert engine._plain is not None, "no native core"
    for sample in op.samples(np.random.default_rng(4)):
        inputs = tuple(
            make(value, edge=LEAF) if isinstance(value, np.ndarray) else value
            for value in sample.inputs
        )
        for some in (inputs, sample.inputs, inputs[:-1], (*inputs, "x")):
            for attrs in (sample.attrs, {}, {**sample.attrs, "unknown": 1}):
                expected = called(engine._function, op, some, attrs)
                assert called(engine.function, op, some, attrs) == expected


def test_a_function_without_keywords_has_the_shared_attributes() -> None:
    x = ns.parameter(np.ones(2), name="x")
    for function in (engine.function, engine._function):
        negated = function(ops.get("negative"), tensors.operand, tensors.NO_ATTRS)(x)
        assert negated.edge[3] is tensors.NO_ATTRS


def test_tensors_and_numbers_are_not_converted() -> None:
    x, given = ns.tensor(np.ones(2)), np.float64(2.5)
    converted: list[Any] = []

    def operand(value: Any) -> Any:
        converted.append(value)
        return tensors.operand(value)

    add = engine.function(ops.get("add"), operand, tensors.NO_ATTRS)
    results = [add(x, number) for number in (True, 2, 0.5, 1j, given)]
    assert [result.data.tolist() for result in results] == [
        [2.0, 2.0], [3.0, 3.0], [1.5, 1.5], [1 + 1j, 1 + 1j], [3.5, 3.5],
    ]  # fmt: skip
    assert len(converted) == 1
    assert converted[0] is given


def test_unsupported_calls_are_left_to_python() -> None:
    x = ns.parameter(np.ones((2, 2)), name="x")
    add, joined = ops.get("add"), ops.get("concatenate")
    both(add, [x, x], {}, True)
    both(joined, (x,) * 20, {"axis": 0}, True)
    both(add, (x, object.__new__(Tensor)), {}, True)
    both(add, (x, ns.tensor(np.ones(3))), {}, True)
    written = ns.tensor(np.zeros((2, 2)))
    written[0] = 3.0
    both(add, (x, written), {}, True)


def test_operands_are_the_same() -> None:
    x, half = ns.tensor(np.ones(2)), ns.tensor(np.ones(2), dtype=ns.bfloat16)
    for inputs in ((), (x, x), (x, 2), [x, x], (half, 0.1), (0.1, x), (x, np.ones(2)), (x, "y")):
        for result, expected in (
            (engine.operands(inputs), tensors.operands(inputs)),
            *([(engine.weakened(inputs), tensors.weak(inputs))] if type(inputs) is tuple else []),
        ):
            assert repr(result) == repr(expected)


def test_a_switch_of_the_path_holds_at_once() -> None:
    x = ns.parameter(np.ones(2), name="x")
    assert np.exp(x).requires_grad
    with ns.no_grad():
        assert not np.exp(x).requires_grad
        flags = []
        thread = threading.Thread(target=lambda: flags.append(np.exp(x).requires_grad))
        thread.start()
        thread.join()
        assert flags == [True]
    assert np.exp(x).requires_grad
    seen = []

    class Observer:
        def run(self, op: Op, inputs: Any, attrs: dict[str, Any]) -> Tensor:
            seen.append(op.name)
            return engine.run(op, inputs, attrs, True)

        def operator(self, op: Op) -> Any:
            return engine.operator_of(op)

    dispatch_mode.set_observer(Observer())
    try:
        np.exp(x)
    finally:
        dispatch_mode.set_observer(None)
    np.exp(x)
    assert seen == ["exp"]


def test_calls_leave_no_objects_behind() -> None:
    x = ns.parameter(np.ones(2), name="x")
    op = ops.get("exp")
    gc.collect()  # Collect what other tests have left.
    before = sys.getrefcount(x), sys.getrefcount(op), sys.getrefcount(x.data)
    for _ in range(100):
        engine.apply(op, (x,), {})
        with pytest.raises(ns.NodescopeError):
            engine.apply(ops.get("matmul"), (x, ns.tensor(np.ones((3, 3)))), {})
    gc.collect()  # Collect errors and their frames.
    assert (sys.getrefcount(x), sys.getrefcount(op), sys.getrefcount(x.data)) == before


def test_without_a_core_python_does_the_same() -> None:
    program = (
        "import numpy as np, nodescope as ns; from nodescope.engine import run;"
        "x = ns.parameter(np.ones((2, 3)), name='x'); y = np.concatenate([x, x]).sum();"
        "np.where(x > 0, x, y).sum().backward();"
        "print(run._plain, x.grad.numpy().tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={"NODESCOPE_NATIVE": "0"}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"None {[[1.0] * 3] * 2}\n"
