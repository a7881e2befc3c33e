"""A signal handler that computes, run at lines of engine and recorder: nothing hangs."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

import nodescope as ns
from nodescope.engine import dispatch_mode, tracer
from nodescope.events import Bus
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.depth import is_deep
from tests.integration.test_stops_and_model import WAIT_S

MODULES = (
    "ir.identity",
    "engine.tracer",
    "engine.dispatch_mode",
    "record.recorder",
    "record.buffers",
)
FILES = frozenset(importlib.import_module(f"nodescope.{item}").__file__ for item in MODULES)
EACH = 3 if is_deep() else 10  # One in so many lines is tried.


class Handler:
    """Computes at the n-th line of these files, like a signal handler at that moment."""

    def __init__(self, number: int, do: Callable[[], None]) -> None:
        self.left, self.do, self.where = number, do, ""

    def __call__(self, frame: FrameType, what: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in FILES:
            return None
        if what == "line":
            self.left -= 1
            if self.left == 0:
                self.where = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
                sys.settrace(None)
                self.do()
        return self


def test_a_handler_that_computes_hangs_nothing(tmp_path) -> None:
    path = tmp_path / "r.nscope"
    lines = 0
    for number in range(1, 10_000, EACH):
        bus, recorder = Bus(), Recorder(path)
        bus.add(recorder)
        outside = ns.tensor(np.ones(2))

        def compute(outside=outside) -> None:
            with ns.no_grad():
                np.exp(outside * 2.0)

        handler = Handler(number, compute)

        def run(handler: Handler = handler) -> None:
            x = ns.tensor(np.ones(3))
            sys.settrace(handler)
            try:
                with ns.no_grad():
                    np.exp(x * 2.0)
            finally:
                sys.settrace(None)

        tracer.observe(bus)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(WAIT_S)
        hangs = thread.is_alive()
        if not hangs:
            tracer.unobserve()
            recorder.close()
        assert not hangs, f"hangs where a handler came at {handler.where}"
        assert recorder.writer.fault == "", handler.where
        if not handler.where:
            break
        lines += 1
        with Recording.open(path) as recording:
            names = [node.node.op for node in recording.nodes()]
        assert names.count("exp") == 2, handler.where
    assert lines * EACH > 500


def test_a_child_forked_while_another_thread_changes_modes_computes() -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with dispatch_mode._lock:
            inside.set()
            leave.wait(WAIT_S)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(WAIT_S)
    with warnings.catch_warnings():
        # Forking with threads is what this tests.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        # The signal ends the child if it hangs.
        signal.alarm(int(WAIT_S))
        with ns.no_grad():
            status = 0 if float(np.sum(ns.tensor(np.ones(3))).numpy()) == 3.0 else 1
        os._exit(status)
    leave.set()
    thread.join(WAIT_S)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
