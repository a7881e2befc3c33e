"""Polling locks exclude each other, and threads that use one do not form a convoy."""

from __future__ import annotations

import resource
import signal
import threading
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.polling_lock import polling_lock
from tests.core.engine.events_of import observed


def test_it_is_reentrant_and_excludes_other_threads() -> None:
    lock, entered = polling_lock(), threading.Event()
    order: list[str] = []

    def other() -> None:
        entered.set()
        with lock:
            order.append("other")

    thread = threading.Thread(target=other)
    with lock, lock:
        thread.start()
        entered.wait()
        assert not lock_is_free(lock)
        order.append("first")
    thread.join()
    assert order == ["first", "other"]
    assert lock_is_free(lock)


def test_an_error_releases_it() -> None:
    lock = polling_lock()
    with pytest.raises(ValueError, match="inside"), lock:
        raise ValueError("inside")
    assert lock_is_free(lock)


def test_an_exception_of_a_signal_handler_never_leaves_it_held() -> None:
    class Interrupted(Exception):
        pass

    def interrupt(*_: Any) -> None:
        if armed:
            raise Interrupted

    lock, interrupted, armed = polling_lock(), 0, False
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while interrupted < 500:
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, 1e-4)
                while True:
                    with lock:
                        pass
            except Interrupted:
                armed, interrupted = False, interrupted + 1
                assert lock_is_free(lock)
    finally:
        signal.signal(signal.SIGALRM, before)


def lock_is_free(lock: Any) -> bool:
    """Whether another thread could take the lock."""
    free: list[bool] = []

    def look() -> None:
        free.append(lock.acquire(False))
        if free[0]:
            lock.release()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return free[0]


def test_threads_that_run_nodes_do_not_wait_for_each_other_at_each_node() -> None:
    rounds, begin = 3000, threading.Barrier(2)

    def work() -> None:
        x = ns.tensor(np.ones(2, np.float32))
        begin.wait()
        for _ in range(rounds):
            np.tanh(x * 2.0 + x)

    threads = [threading.Thread(target=work) for _ in range(2)]
    with observed() as events:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before
    assert len(events.all) > 6 * rounds
    assert switches < rounds
