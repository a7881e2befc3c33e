"""Frames of all threads are read correctly even if a garbage collection begins meanwhile."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections import deque
from operator import attrgetter

import pytest

from nodescope import thread_frames as module
from nodescope.thread_frames import stack_of, thread_frames, thread_frames_once

# Each collection frees a `threading.local`, which takes a lock of the interpreter, and leaves
# garbage for the next collection. The threads have no frame objects yet.
COLLECTED = """\
import faulthandler, gc, os, threading
faulthandler.dump_traceback_later(20, exit=True)
from nodescope.thread_frames import thread_frames

class Again:
    def __init__(self):
        self.local, self.me = threading.local(), self
        self.local.x = 1
    def __del__(self):
        Again()

leave, began = threading.Event(), threading.Semaphore(0)

def wait():
    began.release()
    leave.wait()

Again()
gc.set_threshold(1)
for _ in range(50):
    threading.Thread(target=wait, daemon=True).start()
    began.acquire()
    thread_frames()
os.write(1, str(gc.isenabled()).encode())
os._exit(0)
"""


# Each collection runs a finalizer that lets other threads enter and leave frames.
WALKED = """\
import gc, sys, threading, time
from operator import attrgetter
from nodescope.thread_frames import stack_of

class Again:
    def __init__(self):
        self.me = self
    def __del__(self):
        time.sleep(0)
        Again()

def deep(calls):
    return calls and deep(calls - 1)

def compute():
    while True:
        deep(30)
        [deep(calls) for calls in range(5)]

threads = [threading.Thread(target=compute, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
Again()
gc.set_threshold(1)
sys.setswitchinterval(1e-6)
seen = 0
for _ in range(100):
    for thread in threads:
        seen += len(stack_of(thread.ident, 64, attrgetter("f_code", "f_lineno", "f_lasti")))
sys.stdout.write(f"{seen > 0} {gc.isenabled()}")
sys.stdout.flush()
import os
os._exit(0)
"""


def test_threads_may_leave_the_frames_that_are_being_read() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WALKED], capture_output=True, text=True, timeout=120
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("True True", "", 0)


def test_a_stack_ends_at_its_outermost_frame_or_where_enough_was_seen() -> None:
    def inner() -> list[str]:
        return stack_of(threading.get_ident(), most, attrgetter("f_code.co_name"))

    most = 1000
    names = inner()
    assert names[:3] == [
        "stack_of", "inner", "test_a_stack_ends_at_its_outermost_frame_or_where_enough_was_seen",
    ]  # fmt: skip
    most = 2
    assert inner() == ["stack_of", "inner"]
    assert stack_of(1, 10, attrgetter("f_code")) == []


@pytest.mark.parametrize("collects", [False, True])
def test_collections_are_as_before_where_seeing_raises(collects: bool) -> None:
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with pytest.raises(AttributeError):
            stack_of(threading.get_ident(), 10, attrgetter("f_nothing"))
        assert gc.isenabled() == collects
        stack_of(threading.get_ident(), 10, attrgetter("f_code"))
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()


def test_a_collection_that_begins_meanwhile_does_not_stop_the_process() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", COLLECTED], capture_output=True, text=True, timeout=60
    )
    assert (ended.stdout, ended.stderr) == ("True", "")


@pytest.mark.parametrize("deadlocks", [False, True])
@pytest.mark.parametrize("collects", [False, True])
def test_collections_are_on_or_off_as_before(
    deadlocks: bool, collects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DEADLOCKS", deadlocks)
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        frames = thread_frames()
        assert gc.isenabled() == collects
        assert next(iter(thread_frames_once())).keys() == frames.keys()
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()
    assert frames[threading.get_ident()].f_code.co_name == "thread_frames"


@pytest.mark.parametrize("deadlocks", [False, True])
def test_frames_are_referenced_only_by_the_caller(
    deadlocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DEADLOCKS", deadlocks)
    once = thread_frames_once()
    (frames,) = once
    assert sys.getrefcount(frames) == 2
    assert deque(once) == deque()
