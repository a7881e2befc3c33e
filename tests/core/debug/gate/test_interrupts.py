"""Interrupts of a thread within the gate, at any place: no deadlock, no missed stop.

KeyboardInterrupt is raised at each line of the gate in turn, as by a signal; signal handlers and
listeners that compute also run at each line.
"""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from nodescope.debug.gate import gate, interruptible_lock
from nodescope.errors import UsageError
from nodescope.events import GraphExtended, StepFinished
from nodescope.ir.graph import Node
from nodescope.protocol import Continue, Detach, SessionInfo
from tests.core.debug.gate.test_gate import LOG, MATMUL, TIMEOUT_S, Bench, join

OURS = (gate.__file__, interruptible_lock.__file__)
LATE = Node(9, "late/exp", "exp", "elementwise", (13,), outputs=(20,), scope="late")
HANDLED = Node(8, "handled/sin", "sin", "elementwise", (13,), outputs=(21,), scope="handled")
MOST_LINES = 400

Work = Callable[[Bench], None]


class At:
    """Performs an action at the n-th line that the thread reaches within the gate."""

    def __init__(self, number: int, do: Callable[[], None]) -> None:
        self.left, self.do, self.where = number, do, ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in OURS:
            return None
        if event == "line":
            text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            # Leaving a `with` block reports its line again, where Python does not check for
            # signals.
            if not text.startswith("with "):
                self.left -= 1
                if self.left == 0:
                    self.where = f"{frame.f_code.co_name}: {text}"
                    sys.settrace(None)
                    self.do()
        return self


class Attended(Bench):
    """A bench whose controller continues at each stop."""

    def __init__(self) -> None:
        super().__init__()
        self.gate._on_change = self.answered
        self.stops: list[str] = []
        self._wanted = threading.Event()
        self._over = False
        self._follower = self.program(self._follow)

    def answered(self, info: SessionInfo) -> None:
        self.hear(info)
        self._wanted.set()

    def _follow(self) -> None:
        while not self._over:
            self._wanted.wait()
            self._wanted.clear()
            stop = self.gate.info.stop
            if stop is not None and self.announced[-1].stop is not None:
                self.stops.append(stop.node_name)
                self.gate.command(Continue())

    def end(self) -> None:
        self._over = True
        self._wanted.set()
        join(self._follower)


def met(bench: Bench) -> None:
    bench.finished(LOG)


def new(bench: Bench) -> None:
    bench.bus.emit(GraphExtended((LATE,), ()))


def asked(bench: Bench) -> None:
    bench.gate.break_here("the program asks")
    bench.finished(MATMUL)


def a_step_ends(bench: Bench) -> None:
    bench.bus.emit(StepFinished(1, 0))
    bench.finished(MATMUL)


def fails(bench: Bench) -> None:
    bench.finished(MATMUL)
    bench.finished(MATMUL, float("nan"))


def disturbed(
    number: int, work: Work, do: Work
) -> tuple[Attended, At, threading.Thread, list[BaseException]]:
    """A program disturbed at the n-th line, and its result."""
    bench = Attended()
    bench.breaks("op:log", "late/exp", "handled/sin", "op:matmul if isnan(value)")
    results: list[BaseException] = []
    at = At(number, lambda: do(bench))

    def run() -> None:
        sys.settrace(at)
        try:
            work(bench)
        except BaseException as error:
            results.append(error)
        finally:
            sys.settrace(None)

    return bench, at, bench.program(run), results


def interrupt() -> None:
    raise KeyboardInterrupt


def goes_on(bench: Attended, where: str) -> None:
    """Check that the program continues, and stops at every breakpoint."""

    def on() -> None:
        bench.finished(LATE)  # LATE was not announced if the interrupt hit its announcement.
        bench.finished(LOG)

    thread = bench.program(on)
    thread.join(TIMEOUT_S)
    assert not thread.is_alive(), where
    assert bench.stops[-2:] == ["late/exp", "loss/log"], where
    assert bench.faults == [], where
    assert bench.gate.info.phase == "running"
    assert bench.announced[-1].stop is None, where
    bench.end()


WORKS = (met, new, asked, a_step_ends, fails)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("work", WORKS)
def test_an_interrupt_at_any_line_comes_through_and_leaves_nothing_locked(work: Work) -> None:
    lines = 0
    for number in range(1, MOST_LINES):
        bench, at, thread, result = disturbed(number, work, lambda bench: interrupt())
        join(thread)
        if not at.where:
            assert result == []
            bench.end()
            break
        lines += 1
        assert [type(item) for item in result] == [KeyboardInterrupt], at.where
        goes_on(bench, at.where)
    assert 10 < lines < MOST_LINES - 1


@pytest.mark.one_in(3)
@pytest.mark.parametrize("work", WORKS)
def test_a_signal_handler_that_computes_at_any_line_hangs_nothing(work: Work) -> None:
    lines = 0

    def handler(bench: Bench) -> None:
        bench.bus.emit(GraphExtended((HANDLED,), ()))
        bench.finished(HANDLED)
        bench.bus.emit(StepFinished(1, 0))
        bench.gate.break_here("the handler asks")

    for number in range(1, MOST_LINES):
        bench, at, thread, result = disturbed(number, work, handler)
        join(thread)
        assert result == []
        if not at.where:
            bench.end()
            break
        lines += 1
        # The gate handled the report although it was busy.
        assert bench.gate.info.breakpoints[2].verified, at.where
        goes_on(bench, at.where)
    assert 10 < lines < MOST_LINES - 1


def test_a_listener_gives_no_command() -> None:
    bench = Bench()
    lines: list[str] = []

    def hear(info: SessionInfo) -> None:
        bench.hear(info)
        try:
            bench.gate.command(Continue())
        except UsageError as error:
            lines.append(str(error))
        bench.finished(LOG)  # A node that the listener runs does not stop either.
        bench.gate.controllers(1)

    bench.gate._on_change = hear
    bench.breaks("op:log")
    thread = bench.program(lambda: bench.finished(LOG))
    bench.stopped()
    assert "from another thread" in lines[-1]
    bench.gate.command(Detach())
    join(thread)
    assert bench.faults == []


def test_a_forked_child_is_not_stopped_anywhere() -> None:
    bench = Bench()
    bench.breaks("op:log")
    thread = bench.program(lambda: bench.finished(LOG))
    bench.stopped()
    bench.gate.forked()  # What a forked child calls while a thread waits in the gate.
    join(thread)
    bench.finished(LOG)
    assert bench.gate.info.phase == "detached"
