"""Polling locks exclude each other, and threads that use one do not form a convoy."""

from __future__ import annotations

import resource
import threading

import numpy as np
import pytest

import nodescope as ns
from nodescope.polling_lock import PollingLock
from tests.core.engine.events_of import observed


def test_it_is_reentrant_and_excludes_other_threads() -> None:
    lock, entered = PollingLock(), threading.Event()
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
    lock = PollingLock()
    with pytest.raises(ValueError, match="inside"), lock:
        raise ValueError("inside")
    assert lock_is_free(lock)


def lock_is_free(lock: PollingLock) -> bool:
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
