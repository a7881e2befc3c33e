"""Observed calls of the native core: the events, results and errors of Python's."""

from __future__ import annotations

import dataclasses
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nodescope as ns
from nodescope import native, ops
from nodescope.engine import dispatch_mode, native_calls, tracer
from nodescope.engine.run import apply
from nodescope.engine.tensor import make
from nodescope.errors import ShapeError
from nodescope.events import (
    Bus,
    Event,
    GradientComputed,
    GraphExtended,
    HostSpan,
    NodeFailed,
    NodeFinished,
)
from nodescope.ops.op import Op
from nodescope.record.recording import Recording
from tests.core.engine.contents import content
from tests.core.engine.events_of import Events, observed
from tests.parts import in_parts

Program = Callable[[], list[Any]]


def operators() -> list[Any]:
    x, w = ns.tensor([1.0, 2.0], name="x"), ns.parameter([3.0, 4.0], name="w")
    results = []
    for number in ns.steps(range(5)):
        h = x * w + (w if number < 3 else x)
        h = h - 2.0 * h / (1 + w) ** 2 + np.ones(2)
        results.append(h > 1.5)
        results.append(h)
    return results


def training() -> list[Any]:
    rng = np.random.default_rng(3)
    first, second = ns.nn.Linear(4, 3, rng=rng), ns.nn.Linear(3, 2, rng=rng)
    model = ns.nn.Sequential(first, ns.nn.relu, second)
    optimizer = ns.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in ns.steps(range(5)):
        inputs = ns.tensor(rng.standard_normal((6, 4)).astype(np.float32))
        loss = ns.nn.cross_entropy(model(inputs), rng.integers(0, 2, 6))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)
    return [*losses, *model.parameters()]


def attributes() -> list[Any]:
    x = ns.tensor(np.arange(12.0).reshape(3, 4))
    results = []
    for number in ns.steps(range(5)):
        results.append(x.sum(axis=0 if number < 3 else 1))
        results.append(np.transpose(x, (1, 0)) @ x)
        results.append(x[1:, ::2] + float(number))
        results.append(np.clip(x, 0, True if number == 2 else 1))
        results.append(x.astype(np.int64) + 1)
        results.append(np.concatenate([x] * 9))
        results += np.split(x, 2, axis=1)
    return results


def several_outputs() -> list[Any]:
    rng = np.random.default_rng(3)
    norm = ns.nn.BatchNorm2d(2)
    square = ns.parameter(rng.standard_normal((3, 3)), name="square")
    results: list[Any] = []
    for number in ns.steps(range(6)):
        size = 4 if number < 4 else 5
        x = ns.tensor(rng.standard_normal((size, 2, 2, 2)).astype(np.float32), name="x")
        low, high = np.linalg.eigh(square + square.T)
        with ns.no_grad():
            results += np.linalg.qr(square)
        loss = norm(x).sum() + (low * high[number % 3]).sum()
        loss.backward()
        results += [loss, low, high, norm.running_mean, norm.weight.grad, square.grad]
        square.grad = None
        norm.zero_grad()
    return results


def numbers_of_inputs() -> list[Any]:
    x = ns.tensor(np.arange(6.0))
    results = []
    for number in ns.steps(range(6)):
        results.append(np.concatenate([x] * (1 + number // 2)) * 2.0)
        results.append(x * x)
    return results


def shapes() -> list[Any]:
    results = []
    for size in ns.steps([2, 2, 2, 3, 3, 3]):
        x = ns.tensor(np.ones(size))
        with ns.name_scope("inner"):
            results.append((x + x) * x)
        results.append(x[ns.tensor(np.arange(size)) > 0] * 2.0)
    return results


def writes() -> list[Any]:
    x = ns.tensor(np.zeros(3))
    results = []
    for number in ns.steps(range(4)):
        y = x + 1.0
        y[1:] = float(number)
        y += y
        results.append(y * y)
    return results


def tapes() -> list[Any]:
    w = ns.parameter([1.0, 2.0], name="w")
    results = []
    for number in ns.steps(range(4)):
        with ns.no_grad():
            frozen = w * w
        h = (w * w + frozen).sum()
        h.backward(create_graph=number == 2)
        results += [h, w.grad, frozen.requires_grad, h.requires_grad, (w.detach() * w).edge[1].name]
    return results


def threads() -> list[Any]:
    w = ns.parameter([1.0, 2.0], name="w")
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        with ns.name_scope(f"worker_{number}"):
            results[number] = w * float(number) + w

    for _ in ns.steps(range(4)):
        for number in range(2):
            thread = threading.Thread(target=work, args=(number,))
            thread.start()
            thread.join()
    return [results[0], results[1]]


def compiled() -> list[Any]:
    w = ns.parameter([1.0, 2.0], name="w")

    @ns.compile
    def step(x: Any) -> Any:
        return (x * w + x).sum()

    return [step(ns.tensor([1.0, float(number)])) + w for number in ns.steps(range(4))]


def loops() -> list[Any]:
    x = ns.tensor([1.0])
    for _ in range(40):  # A loop without steps.
        x = x * 1.5 - x
    return [x]


PROGRAMS = [
    operators, training, attributes, several_outputs, numbers_of_inputs, shapes, writes, tapes,
    threads, compiled, loops,
]  # fmt: skip


def bits(result: Any) -> Any:
    if not isinstance(result, ns.Tensor):
        return result
    return result.dtype.name, result.shape, result.numpy().tobytes(), result.requires_grad


def seen(events: Events) -> list[Any]:
    """Events without times; value ids are counted from the run's first."""
    by_value: dict[int, int] = {}
    here = threading.get_ident()

    def ids(values: tuple[int, ...]) -> list[int]:
        return [by_value.setdefault(value, len(by_value)) for value in values]

    def arrays(values: Any) -> list[Any]:
        return [(array.dtype.name, array.shape, array.tobytes()) for array in values]

    rows: list[Any] = []
    for event in events.all:
        if isinstance(event, HostSpan):  # Only spans of some length are reported.
            continue
        row: list[Any] = [type(event).__name__]
        if isinstance(event, NodeFinished | NodeFailed):
            node = event.node
            row += [node.id, node.name, node.op, event.step, ids(node.inputs), ids(node.outputs)]
            row += [arrays(event.inputs), event.thread == here]
        if isinstance(event, NodeFinished):
            row += [arrays(event.outputs), repr(event.attrs)]
        if isinstance(event, GraphExtended):
            row += [[(node.id, node.name, repr(node.attrs)) for node in event.nodes]]
            row += [[(ids((value.id,)), repr(value.spec)) for value in event.values]]
        if isinstance(event, GradientComputed):
            row += [ids((event.value, event.gradient))]
        rows.append(row)
    return rows


def ran(program: Program, monkeypatch: pytest.MonkeyPatch, *, core: bool) -> tuple[Any, int]:
    """Results and events, and how many calls were left to Python."""
    left: list[str] = []
    checked = tracer.Tracer.run_checked

    def counted(self: Any, op: Any, inputs: Any, attrs: Any) -> Any:
        left.append(op.name)
        return checked(self, op, inputs, attrs)

    with monkeypatch.context() as patch:
        patch.setattr(tracer.Tracer, "run_checked", counted)
        if not core:
            patch.setattr(native, "Calls", None)
        with observed() as events:
            results = program()
    return ([bits(result) for result in results], seen(events)), len(left)


def check_same(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that results and events are the same with the core and without."""
    by_core, _ = ran(program, monkeypatch, core=True)
    by_python, _ = ran(program, monkeypatch, core=False)
    assert by_core[0] == by_python[0]
    for core_event, python_event in zip(by_core[1], by_python[1], strict=True):
        assert core_event == python_event


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_core_gives_the_events_and_results_of_python(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_core, left = ran(program, monkeypatch, core=True)
    by_python, all_calls = ran(program, monkeypatch, core=False)
    assert by_core[0] == by_python[0]
    for core_event, python_event in zip(by_core[1], by_python[1], strict=True):
        assert core_event == python_event
    if program not in (loops, numbers_of_inputs):  # In these two, most calls define nodes.
        assert left < 0.8 * all_calls


@pytest.mark.parametrize("level", ["timing", "summary", "values"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_recordings_are_those_of_python(
    program: Program, level: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ns.record(tmp_path / "core.nscope", level=level):
        results = program()
    monkeypatch.setattr(native, "Calls", None)
    with ns.record(tmp_path / "python.nscope", level=level):
        assert [bits(result) for result in program()] == [bits(result) for result in results]
    core, python = content(tmp_path / "core.nscope"), content(tmp_path / "python.nscope")
    for name, rows in python.items():
        assert core[name] == rows, name


@pytest.mark.parametrize("level", ["timing", "summary", "values"])
def test_calls_run_in_the_core_whatever_their_attributes(
    level: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[str] = []
    checked = tracer.Tracer.run_checked

    def counted(self: Any, op: Any, inputs: Any, attrs: Any) -> Any:
        left.append(op.name)
        return checked(self, op, inputs, attrs)

    monkeypatch.setattr(tracer.Tracer, "run_checked", counted)
    with ns.record(tmp_path / "run.nscope", level=level):
        x = ns.tensor(np.arange(12.0).reshape(3, 4), name="x")
        for number in ns.steps(range(6)):
            results = [x * float(number), x[: 1 + number % 3], x.sum(axis=number % 2)]
            assert [result.shape for result in results] == [
                (3, 4), (1 + number % 3, 4), ((4,), (3,))[number % 2],
            ]  # fmt: skip
    assert sorted(left) == ["getitem", "multiply", "sum"]  # the first step's
    with Recording.open(tmp_path / "run.nscope") as recording:
        assert len(recording.executions()) == 1 + 6 * 3
        names = {node.id: node.op for node in (row.node for row in recording.nodes())}
        calls = recording.calls()
        told = [(names[ran.node], calls.get(ran.seq)) for ran in recording.executions()]
    factors, axes = ([attrs for name, attrs in told if name == op] for op in ("multiply", "sum"))
    if level == "timing":  # attributes of executions are not recorded
        assert calls == {}
    else:
        assert factors == [None, *({"x2": float(number)} for number in range(1, 6))]
        assert [attrs and attrs["axis"] for attrs in axes] == [None, 1, None, 1, None, 1]


def test_the_operators_of_the_core_are_not_replaced() -> None:
    assert native.Calls is not None, "no native core"
    before = ns.Tensor.__add__
    with observed():
        assert ns.Tensor.__add__ is before
    assert ns.Tensor.__add__ is before


def test_steps_of_other_shapes_run_in_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    def program() -> list[Any]:
        w = ns.parameter(np.ones((3, 2), np.float32), name="w")
        results = []
        for size in ns.steps([4, 4, 2, 4, 3]):
            x = ns.tensor(np.ones((size, 3), np.float32), name="x")
            loss = np.mean(np.tanh(x @ w))
            loss.backward()
            results += [loss, w.grad]
            w.grad = None
        return results

    _, all_calls = ran(program, monkeypatch, core=False)
    _, left = ran(program, monkeypatch, core=True)
    assert left < all_calls / 3  # The first step, and calls whose attributes change.


@in_parts(4)
@pytest.mark.parametrize("op", [*ops.all_ops()], ids=lambda op: op.name)
def test_every_op_computes_what_its_impl_does(op: Op) -> None:
    def outcome(compute: Callable[[], Any]) -> Any:
        try:
            results = compute()
        except Exception as error:
            return type(error), str(error)
        results = results if isinstance(results, tuple) else (results,)
        arrays = [np.asarray(getattr(result, "data", result)) for result in results]
        return [(array.dtype, array.shape, array.tobytes()) for array in arrays]

    for sample in op.samples(np.random.default_rng(3)):
        inputs = tuple(
            make(value) if isinstance(value, np.ndarray) else value for value in sample.inputs
        )
        if op.role != "op":
            continue
        expected = outcome(lambda: op.impl(*sample.inputs, **sample.attrs))  # noqa: B023
        with observed():
            for _ in ns.steps(range(3)):
                assert outcome(lambda: apply(op, inputs, sample.attrs)) == expected  # noqa: B023


def test_known_calls_enter_no_impl_around_a_function_of_numpy() -> None:
    w = ns.parameter(np.ones((3, 2), np.float32), name="w")
    entered: list[str] = []

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and "/nodescope/ops/" in frame.f_code.co_filename:
            entered.append(frame.f_code.co_qualname)

    with observed():
        for number in ns.steps(range(3)):
            x = ns.tensor(np.ones((4, 3), np.float32), name="x")
            sys.setprofile(note if number == 2 else None)
            try:
                np.sum(x @ w, axis=0)[1:].reshape((1, 1))
            finally:
                sys.setprofile(None)
    assert entered == []


@given(st.lists(st.sampled_from(["+", "-", "*", "@", "sum", "t", "scalar", "cast", "where"]),
                min_size=1, max_size=12),
       st.integers(0, 3))  # fmt: skip
def test_the_core_runs_random_programs_like_python(calls: list[str], change: int) -> None:
    def program() -> list[Any]:
        w = ns.parameter(np.arange(9.0).reshape(3, 3), name="w")
        results = []
        for number in ns.steps(range(4)):
            x: Any = w
            for place, call in enumerate(calls):
                if number == change and place == len(calls) // 2:
                    x = x + x  # One more call than in other steps.
                x = {
                    "+": lambda x: x + w, "-": lambda x: x - w, "*": lambda x: x * w,
                    "@": lambda x: x @ w, "sum": lambda x: x.sum(axis=0, keepdims=True) + w,
                    "t": lambda x: x.T, "scalar": lambda x, number=number: 2 * x + number,
                    "cast": lambda x: x.astype(np.float32),
                    "where": lambda x: np.where(x > 1, x, w),
                }[call](x)  # fmt: skip
            x.sum().backward()
            results += [x, w.grad]
            w.grad = None
        return results

    with pytest.MonkeyPatch.context() as patch:
        by_core, _ = ran(program, patch, core=True)
        by_python, _ = ran(program, patch, core=False)
    assert by_core == by_python


@pytest.mark.parametrize("core", [True, False])
def test_a_failure_is_explained_and_reported(monkeypatch: pytest.MonkeyPatch, core: bool) -> None:
    if not core:
        monkeypatch.setattr(native, "Calls", None)
    with observed() as events:
        x, w = ns.tensor(np.ones((2, 3))), ns.parameter(np.ones((3, 2)))
        for number in ns.steps(range(4)):
            if number < 3:
                x @ w
                continue
            x.data = np.ones((2, 4))  # As an edit at a stop does.
            with pytest.raises(ShapeError, match="matmul") as failed:
                x @ w
    assert str(failed.value.source).startswith(__file__)
    assert isinstance(failed.value.__cause__, ValueError)
    [event] = events.of(NodeFailed)
    assert (event.node.op, event.step) == ("matmul", 4)
    assert [array.shape for array in event.inputs] == [(2, 4), (3, 2)]


def test_an_interrupt_within_a_kernel_reaches_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    from nodescope import ops

    def interrupted(a: Any, b: Any) -> Any:
        if interrupts:
            raise KeyboardInterrupt
        return np.add(a, b)

    interrupts: list[int] = []
    op = ops.get("add")
    slow = dataclasses.replace(op, impl=interrupted)
    with observed() as events:
        x = ns.tensor([1.0])
        observer = dispatch_mode.attending()
        for number in ns.steps(range(3)):
            if number == 2:
                interrupts.append(1)
                with pytest.raises(KeyboardInterrupt):
                    observer.run(slow, (x, x), {})
            else:
                observer.run(slow, (x, x), {})
    assert not events.of(NodeFailed)


def test_a_probe_that_raises_is_removed_and_the_program_goes_on() -> None:
    class Faulty:
        def emit(self, event: Event) -> None:
            if isinstance(event, NodeFinished) and event.step == 3 and event.node.op == "multiply":
                raise RuntimeError("no")

    faults: list[str] = []
    with observed() as events:
        events.bus.on_fault = lambda probe, error: faults.append(str(error))
        events.bus.add(Faulty(), before=events)
        x = ns.tensor([2.0])
        for _ in ns.steps(range(5)):
            y = x * x
        assert len(events.bus.probes) == 1
    assert faults == ["no"]
    assert y.item() == 4.0
    assert events.ran.count("multiply") == 5


def test_classes_of_another_layout_are_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutSlots:
        pass

    monkeypatch.setattr(native_calls, "Entry", WithoutSlots)
    monkeypatch.setattr(
        native_calls, "_SLOTTED", (*native_calls._SLOTTED[:3], WithoutSlots,
                                   *native_calls._SLOTTED[4:]),
    )  # fmt: skip
    with observed() as events:
        observer = dispatch_mode.attending()
        assert observer.calls is None
        x = ns.tensor([2.0])
        for _ in ns.steps(range(3)):
            x * x
    assert events.ran.count("multiply") == 3


def test_an_ended_observation_is_freed() -> None:
    bus = Bus()
    tracer.observe(bus)
    observer = weakref.ref(dispatch_mode.attending())
    x = ns.tensor([2.0])
    for _ in ns.steps(range(3)):
        x * x + x.sum()
    tracer.unobserve()
    del bus
    gc.collect()
    assert observer() is None


def test_tensors_and_arrays_are_freed() -> None:
    with observed() as events:
        x = ns.parameter(np.ones(3), name="x")
        kept: list[Any] = []
        for _ in ns.steps(range(4)):
            y = x * x + x
            kept = [weakref.ref(y), weakref.ref(y.data)]
        events.all.clear()
        del y
        gc.collect()
        assert [reference() for reference in kept] == [None, None]
