"""Generators, recursion, hooks and threads under a real gate: it stops as it should, and ends."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import nodescope as ns
from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.debug.gate.gate import Gate
from nodescope.engine import tracer
from nodescope.errors import NodescopeError
from nodescope.events import Bus
from nodescope.protocol import (
    Command,
    Continue,
    Detach,
    NextStep,
    Pause,
    SetBreakpoints,
    SetValue,
    StepIn,
    StepNode,
    StepOut,
    StepOver,
    Stop,
)
from nodescope.record.recorder import Recorder
from tests.core.debug.debugged import debugged
from tests.depth import examples
from tests.integration.stop_programs import Running, programs
from tests.integration.test_stops_and_model import WAIT_S, in_time


def stepped(*commands: Command):
    """A controller that gives the commands at successive stops, then continues."""
    left = list(commands)

    def then(stop: Stop, gate: Gate) -> Command:
        return left.pop(0) if left else Continue()

    return then


def test_a_scope_that_a_generator_holds_open_can_be_stepped_out_of() -> None:
    def values(x):
        with ns.name_scope("generator"):
            for _ in range(2):
                x = np.tanh(x)
                yield x

    def run() -> None:
        x = ns.tensor(np.ones(3))
        source = values(x)
        y = np.exp(next(source))  # Runs within the scope that the generator holds open.
        y = np.log(y + next(source))
        source.close()
        np.sum(y)

    with debugged("generator/tanh", then=stepped(StepOut())) as seen:
        in_time(run)
    assert seen.names == ["generator/tanh", "sum"]


def test_recursion_is_stepped_over_and_out_of() -> None:
    def deeper(x, depth: int):
        with ns.name_scope("a"):
            x = np.tanh(x)
            if depth:
                x = deeper(x, depth - 1)
            return np.exp(x * 0.1)

    def run() -> None:
        np.sum(deeper(ns.tensor(np.ones(3)), 2))

    with debugged("a/tanh", then=stepped(StepOver())) as seen:
        in_time(run)
    assert seen.names == ["a/tanh", "a/multiply"]
    with debugged("a/a/tanh", then=stepped(StepIn(), StepOut(), StepOut(), StepOut())) as seen:
        in_time(run)
    assert seen.names == ["a/a/tanh", "a/a/a/tanh", "a/a/multiply", "a/multiply", "sum"]


def test_a_hook_that_computes_is_stepped_like_the_rest() -> None:
    def run() -> None:
        w = ns.parameter(np.ones(3), name="w")
        h = np.tanh(w * 2.0)

        def hook(gradient):
            with ns.name_scope("hook"):
                return gradient * float(np.sum(np.abs(gradient)).numpy())

        h.register_hook(hook)
        np.sum(h).backward()

    with debugged("glob:*hook/abs", then=stepped(StepNode(), StepNode())) as seen:
        in_time(run)
    assert [name.rpartition("/")[2] for name in seen.names] == ["abs", "sum", "multiply"]


def test_a_class_with_functions_of_its_own_computes_within_them() -> None:
    class Wrapped:
        def __init__(self, inner) -> None:
            self.inner = inner

        def __array_function__(self, function, types, args, kwargs):
            with ns.name_scope("wrapped"):
                return function(*(arg.inner if isinstance(arg, Wrapped) else arg
                                  for arg in args), **kwargs)  # fmt: skip

    def run() -> float:
        return float(np.sum(Wrapped(ns.tensor(np.ones(3)))).numpy())

    with debugged("wrapped/sum") as seen:
        assert in_time(run) == [3.0]
    assert seen.names == ["wrapped/sum"]


def test_a_condition_is_evaluated_on_edited_values() -> None:
    def then(stop: Stop, gate: Gate) -> Command:
        if stop.breakpoint == 1:
            (value,) = [v for v, a in gate._live.items() if np.allclose(a, np.tanh(1.0))]
            gate.command(SetValue(value, how="set", number=50.0))
        return Continue()

    def run() -> float:
        x = np.tanh(ns.tensor(np.ones(3)))
        return float(np.sum(x * 2.0).numpy())

    with debugged("tanh", "op:multiply if max(inputs[0]) > 9", then=then) as seen:
        assert in_time(run) == [300.0]
    assert seen.names == ["tanh", "multiply"]


def test_printing_values_at_a_stop_does_not_hang() -> None:
    shown: list[str] = []
    tensors: list[object] = []

    def then(stop: Stop, gate: Gate) -> Command:
        shown.extend(map(repr, tensors))
        return Continue()

    def run() -> None:
        x = ns.tensor(np.arange(3.0))
        tensors.append(x)
        np.exp(x)

    with debugged("exp", then=then) as seen:
        in_time(run)
    assert seen.names == ["exp"]
    assert "1." in shown[0]


# ---------------------------------------------------------------- threads


WORKERS = 3


def beside(number: int, program) -> bytes:
    """A program on another thread, in a scope of its own."""
    with ns.name_scope(f"thread{number}"):
        return Running(program).run_body()


@hypothesis.settings(max_examples=examples(25), deadline=None)
@hypothesis.given(
    program=programs,
    specs=st.lists(
        st.sampled_from(["op:tanh", "scope:thread1", "glob:thread*/a/*", "op:multiply if step > 0",
                         "op:exp if isnan(value).any()", "scope:thread2/b", "glob:*/add*"]),
        min_size=1, max_size=3, unique=True,
    ),
)  # fmt: skip
def test_each_thread_stops_where_it_would_alone(program, specs) -> None:
    works = [lambda number=number: beside(number, program) for number in range(WORKERS)]
    expected: list[str] = []
    results = []
    for work in works:
        with debugged(*specs) as seen:
            results += in_time(work)
        expected += seen.names
    with debugged(*specs) as seen:
        assert in_time(*works) == results
    assert sorted(seen.names) == sorted(expected)


def anything(choice: random.Random, gate: Gate) -> None:
    """A random command at any time; senseless ones are refused."""
    spec = choice.choice(["op:tanh", "scope:thread1", "*", "op:exp if value > 0", "no/such"])
    live = list(gate._live)
    commands: list[Command] = [
        Continue(), Continue(alone=True), Pause(), StepNode(), StepNode(alone=True), StepIn(),
        StepOver(), StepOut(), NextStep(), SetBreakpoints(()),
        SetBreakpoints((parse_breakpoint(spec),)),
        SetValue(choice.choice(live) if live else 0, how="scale", number=1.0),
    ]  # fmt: skip
    try:
        gate.command(choice.choice(commands))
    except NodescopeError:
        pass
    if choice.random() < 0.1:
        gate.controllers(0)
        gate.controllers(1)
    if choice.random() < 0.05:
        gate.link_lost()
        gate.controllers(1)


@pytest.mark.parametrize("seed", range(8))
def test_any_commands_at_any_time_change_no_result_and_a_detach_ends_it(
    tmp_path: Path, seed: int
) -> None:
    choice = random.Random(seed)
    body = [("scope", "a", [("tanh",), ("mul",)]), ("repeat", 3, [("add",), ("exp",), ("leaf",)])]
    program = {"before": [], "body": body * 3, "calls": [("compiled", 0)], "backward": True}
    works = [lambda number=number: beside(number, program) for number in range(WORKERS)]
    free = in_time(*works)
    bus = Bus()
    recorder = Recorder(tmp_path / "r.nscope")
    gate = Gate(bus, seq_source=recorder.thread_seq, flush=recorder.flush,
                on_change=lambda info: None)  # fmt: skip
    faults: list[Exception] = []
    bus.on_fault = lambda probe, error: faults.append(error)
    bus.add(recorder)
    bus.add(gate)
    gate.controllers(1)
    over = threading.Event()

    def control() -> None:
        for _ in range(600):
            if over.is_set():
                return
            anything(choice, gate)
        gate.command(Detach())

    controller = threading.Thread(target=control, daemon=True)
    tracer.observe(bus)
    try:
        controller.start()
        assert in_time(*works) == free
    finally:
        over.set()
        tracer.unobserve()
        controller.join(WAIT_S)
        recorder.close()
    assert faults == []
    assert gate.info.stop is None
