"""The gate with real threads: it holds and releases them, and never holds one that must run."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.debug.gate.gate import Gate
from nodescope.errors import NodescopeError, UsageError
from nodescope.events import (
    Bus,
    GraphExtended,
    HostSpan,
    Logged,
    NodeFailed,
    NodeFinished,
    NodeStarted,
    RunFinished,
    StepFinished,
    ValueEdited,
)
from nodescope.ir.graph import Node
from nodescope.protocol import (
    Breakpoint,
    Continue,
    Detach,
    Pause,
    SessionInfo,
    SetBreakpoints,
    SetValue,
    StepNode,
)

TIMEOUT_S = 30.0
MATMUL = Node(1, "hidden/matmul", "matmul", "matmul", (10, 11), outputs=(12,), scope="hidden")
LOG = Node(2, "loss/log", "log", "elementwise", (12,), outputs=(13,), scope="loss")
NODES = (MATMUL, LOG)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """A gate on a bus, a program thread to hold, and the announced states."""

    def __init__(self, *, controllers: int = 1, **options: object) -> None:
        self.bus = Bus()
        self.clock = Clock()
        self.flushes = 0
        self.announced: list[SessionInfo] = []
        self._news = threading.Condition()
        self.faults: list[Exception] = []
        self.bus.on_fault = lambda probe, error: self.faults.append(error)
        self.gate = Gate(
            self.bus,
            seq_source=lambda: 42,
            flush=self.flush,
            on_change=self.hear,
            clock=self.clock,
            **options,
        )
        self.logs: list[str] = []
        self.bus.add(self)
        self.bus.add(self.gate)
        self.bus.emit(GraphExtended(NODES, ()))
        if controllers:
            self.gate.controllers(controllers)

    def emit(self, event: object) -> None:
        if isinstance(event, Logged):
            self.logs.append(event.text)

    def flush(self) -> bool:
        self.flushes += 1
        return True

    def hear(self, info: SessionInfo) -> None:
        with self._news:
            self.announced.append(info)
            self._news.notify_all()

    def wait_for(self, check: Callable[[SessionInfo], bool]) -> SessionInfo:
        with self._news:
            assert self._news.wait_for(
                lambda: self.announced and check(self.announced[-1]), TIMEOUT_S
            ), self.announced
            return self.announced[-1]

    def stopped(self) -> SessionInfo:
        return self.wait_for(lambda info: info.phase == "stopped")

    def started(self, node: Node, *arrays: object) -> None:
        self.bus.emit(NodeStarted(node, arrays, 1, threading.get_ident(), 0))

    def finished(self, node: Node, value: float = 1.0, step: int = 1) -> None:
        inputs = tuple(np.zeros(2) for _ in node.inputs)
        self.bus.emit(
            NodeFinished(node, inputs, (np.array([value]),), step, threading.get_ident(), 0, 1)
        )

    def breaks(self, *specs: str | Breakpoint) -> None:
        parsed = (parse_breakpoint(spec) if isinstance(spec, str) else spec for spec in specs)
        self.gate.command(SetBreakpoints(tuple(parsed)))

    def program(self, run: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread


def join(thread: threading.Thread) -> None:
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


def test_an_edit_is_announced_once_its_record_can_be_read():
    bench = Bench()
    bench.breaks("op:log")
    thread = bench.program(lambda: bench.finished(LOG))
    bench.stopped()
    events: list[object] = []
    bench.emit = events.append
    announced: list[tuple[str, ...]] = []

    def flush() -> bool:
        assert isinstance(events[-1], ValueEdited)
        announced.append(bench.announced[-1].stop.edits)
        return True

    bench.gate._flush = flush
    bench.gate.command(SetValue(13, "set", 5.0))
    assert announced == [()]
    assert bench.announced[-1].stop.edits == ("loss/log set to 5",)
    bench.gate.command(Continue())
    join(thread)


def test_tells_how_long_each_thread_was_held():
    bench = Bench()
    bench.breaks("op:log")
    spans: list[HostSpan] = []
    bench.emit = lambda event: spans.append(event) if isinstance(event, HostSpan) else None
    first = bench.program(lambda: bench.finished(LOG, step=3))
    bench.stopped()
    sleeping = threading.Event()
    sleep = bench.gate._session_lock.sleep
    bench.gate._session_lock.sleep = lambda *arguments: (sleeping.set(), sleep(*arguments))[1]
    second = bench.program(lambda: bench.finished(MATMUL))
    assert sleeping.wait(TIMEOUT_S)
    bench.gate.command(Continue())
    join(first)
    join(second)
    assert {(item.kind, item.thread, item.step) for item in spans} == {
        ("held", first.ident, 3),
        ("held_along", second.ident, 1),
    }
    (left_one,) = (item for item in spans if item.kind == "held")
    assert bench.bus.held_ns == left_one.end_ns - left_one.start_ns
    assert all(0 <= item.start_ns < item.end_ns <= bench.bus.now_ns() for item in spans)


def test_stops_shows_and_continues():
    bench = Bench()
    bench.breaks("op:log if value.max() > 3")
    done: list[str] = []

    def run() -> None:
        bench.finished(MATMUL)
        bench.finished(LOG, 3.0)
        done.append("quiet")
        bench.finished(LOG, 5.0)
        done.append("released")

    thread = bench.program(run)
    stop = bench.stopped().stop
    assert stop is not None
    assert done == ["quiet"]
    assert (stop.node_name, stop.reason, stop.seq) == ("loss/log", "breakpoint", 42)
    assert stop.text == "Breakpoint 1: value.max() > 3 on loss/log"
    assert bench.flushes == 1
    shown_value = bench.gate.live_value(13)
    assert shown_value is not None
    assert shown_value.tolist() == [5.0]
    assert bench.gate.live_value(12) is not None
    assert bench.gate.live_value(99) is None
    assert stop.stack[0].function.endswith("finished")
    assert "self.bus.emit" in stop.stack[0].code
    assert all("nodescope/debug" not in frame.file for frame in stop.stack)
    bench.gate.command(Continue())
    join(thread)
    assert done == ["quiet", "released"]
    assert bench.gate.live_value(13) is None
    versions = [info.version for info in bench.announced]
    assert versions == sorted(set(versions))
    assert bench.faults == []


def test_a_stop_is_announced_only_after_the_flush():
    bench = Bench()
    seen: list[bool] = []
    bench.flush = lambda: seen.append(any(i.stop for i in bench.announced)) or True  # type: ignore[method-assign]
    bench.gate._flush = bench.flush
    bench.breaks("op:log")
    thread = bench.program(lambda: bench.finished(LOG))
    bench.stopped()
    assert seen == [False]
    bench.gate.command(Detach())
    join(thread)


def test_entry_stop_waits_for_a_page_and_steps():
    bench = Bench(controllers=0, stop_on_entry=True)
    assert bench.bus.demand.starts

    def run() -> None:
        bench.started(MATMUL, np.zeros(2))
        bench.finished(MATMUL)

    thread = bench.program(run)
    assert bench.stopped().stop.when == "before"
    bench.gate.controllers(1)
    bench.clock.now = 1e6
    assert not bench.bus.demand.starts
    bench.gate.command(StepNode())
    assert bench.wait_for(lambda i: i.stop is not None and i.stop.when == "after").stop.node == 1
    bench.gate.command(Continue())
    join(thread)


def test_before_breakpoints_want_starts_only_while_they_exist():
    bench = Bench()
    assert not bench.bus.demand.starts
    bench.breaks(Breakpoint("op", "log", when="before", condition="inputs[0].max() >= 0"))
    assert bench.bus.demand.starts
    thread = bench.program(lambda: bench.started(LOG, np.zeros(2)))
    assert bench.stopped().stop.when == "before"
    bench.breaks()
    assert not bench.bus.demand.starts
    bench.gate.command(Continue())
    join(thread)


def test_all_threads_stop_and_go_together():
    bench = Bench()
    bench.breaks("op:log")
    passed = threading.Event()
    first = bench.program(lambda: bench.finished(LOG))
    bench.stopped()

    def second() -> None:
        bench.bus.emit(Logged("stdout", "printing is not held", 0, 0))
        bench.finished(MATMUL)
        passed.set()

    two = bench.program(second)
    assert not passed.wait(0.05)
    bench.gate.command(Continue())
    join(first)
    join(two)
    assert "printing is not held" in bench.logs


def test_threads_that_hit_at_once_stop_one_after_the_other():
    bench = Bench()
    bench.breaks("op:log")
    threads = [bench.program(lambda: bench.finished(LOG)) for _ in range(5)]
    stopped_in: set[int] = set()
    for _ in threads:
        stopped_in.add(bench.stopped().stop.thread)
        bench.gate.command(Continue())
    for thread in threads:
        join(thread)
    assert len(stopped_in) == 5
    assert bench.gate.info.breakpoints[0].hits == 5


def test_a_lost_page_lets_the_program_continue():
    bench = Bench()
    bench.breaks("op:log")
    thread = bench.program(lambda: bench.finished(LOG))
    bench.stopped()
    bench.gate.controllers(0)
    bench.clock.now = 8.0
    join(thread)
    assert any("the program continues" in text for text in bench.logs)
    bench.finished(LOG)  # No page is attached: the program does not stop.
    assert bench.gate.info.phase == "running"


def test_a_lost_server_lets_the_program_continue():
    bench = Bench(controllers=0, stop_on_entry=True)
    thread = bench.program(lambda: bench.started(MATMUL))
    bench.stopped()
    bench.gate.link_lost()
    bench.clock.now = 8.0
    join(thread)


def test_keyboard_interrupt_gets_through_and_releases():
    bench = Bench()
    bench.breaks("op:log")
    poke = bench.program(lambda: (bench.stopped(), _thread.interrupt_main()))
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        bench.finished(LOG)
    assert time.monotonic() - start < TIMEOUT_S
    join(poke)
    assert bench.gate.info.phase == "running"
    assert bench.announced[-1].stop is None
    bench.finished(MATMUL)  # No lock is held.
    assert bench.gate in bench.bus.probes


def test_failures_stop_with_their_error():
    bench = Bench()
    failed = NodeFailed(LOG, (np.zeros(2),), 1, 7, 0, "ShapeError: shapes differ")
    thread = bench.program(lambda: bench.bus.emit(failed))
    stop = bench.stopped().stop
    assert stop.reason == "exception"
    assert "ShapeError: shapes differ" in stop.text
    bench.gate.command(Continue())
    join(thread)


def test_events_from_inside_the_gate_pass():
    bench = Bench()
    bench.breaks("op:log")
    # An observer runs a node while the gate flushes.
    bench.gate._flush = lambda: bench.finished(LOG) or True
    thread = bench.program(lambda: bench.finished(LOG))
    bench.stopped()
    bench.gate.command(Continue())
    join(thread)
    assert bench.faults == []


def test_a_fault_of_the_gate_never_reaches_the_program():
    bench = Bench()
    bench.breaks("op:log")

    def broken() -> bool:
        raise OSError("disk on fire")

    bench.gate._flush = broken
    bench.finished(LOG)
    assert [str(error) for error in bench.faults] == ["disk on fire"]
    assert bench.gate not in bench.bus.probes
    assert bench.gate.info.phase == "running"


def test_unknown_breakpoints_are_reported_once_after_the_first_step():
    bench = Bench()
    bench.breaks("los/log")
    bench.bus.emit(StepFinished(1, 0))
    bench.bus.emit(StepFinished(2, 0))
    assert bench.logs == [
        "breakpoint los/log: no node 'los/log' so far; did you mean 'loss/log'?; it stays armed"
    ]


def test_new_nodes_arm_breakpoints_that_wait_for_them():
    bench = Bench()
    bench.breaks("glob:late/*")
    late = Node(9, "late/exp", "exp", "elementwise", outputs=(20,), scope="late")
    bench.bus.emit(GraphExtended((late,), ()))
    assert bench.gate.info.breakpoints[0].verified
    thread = bench.program(lambda: bench.finished(late))
    bench.stopped()
    bench.gate.command(Continue())
    join(thread)


def test_bad_conditions_are_disabled_at_run_time_and_the_program_continues():
    bench = Bench()
    bench.breaks("op:log if inputs[0] == 0")
    bench.finished(LOG)
    status = bench.gate.info.breakpoints[0]
    assert not status.breakpoint.enabled
    assert "any() or all()" in status.message
    assert len(bench.logs) == 1


def test_scope_breakpoints_stop_on_entering():
    bench = Bench()
    bench.breaks("scope:loss")
    stops: list[int] = []

    def run() -> None:
        for step in (1, 2):
            bench.finished(MATMUL, step=step)
            for _ in range(3):
                bench.finished(LOG, step=step)

    thread = bench.program(run)
    for _ in range(2):
        stops.append(bench.stopped().stop.step)
        bench.gate.command(Continue())
    join(thread)
    assert stops == [1, 2]


def test_the_end_releases_held_threads():
    bench = Bench()
    bench.breaks("op:log")
    thread = bench.program(lambda: bench.finished(LOG))
    bench.stopped()
    bench.bus.emit(RunFinished(0, "", 1))
    join(thread)
    assert bench.gate.info.phase == "finished"
    with pytest.raises(UsageError):
        bench.gate.command(Pause())


def test_refused_commands_leave_the_gate_as_it_was():
    bench = Bench()
    before = bench.gate.info
    with pytest.raises(NodescopeError):
        bench.gate.command(SetBreakpoints((Breakpoint("op", "log", condition="os"),)))
    assert bench.gate.info == before


def test_a_node_without_a_breakpoint_is_cheap():
    bench = Bench()
    bench.breaks("op:log")
    event = NodeFinished(MATMUL, (), (), 1, 0, 0, 1)
    emit = bench.gate.emit
    best = min(_timed(emit, event) for _ in range(20))
    assert best < 1e-6  # About 0.1 µs; the bound leaves room for a busy machine.


def _timed(emit: Callable[[object], None], event: object) -> float:
    start = time.perf_counter()
    for _ in range(1000):
        emit(event)
    return (time.perf_counter() - start) / 1000
