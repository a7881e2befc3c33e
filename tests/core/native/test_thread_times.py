"""The core reads how long a thread has been active, as Python does where there is no core."""

from __future__ import annotations

import threading
import time

import pytest

from nodescope import native
from nodescope.record.host_sampler import active_ns


def test_the_core_reads_the_same_times_of_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_python(ident: int) -> int | None:
        with monkeypatch.context() as patch:
            patch.setattr(native, "active_ns", None)
            return active_ns(ident)

    here = threading.get_ident()
    times = [in_python(here), active_ns(here), in_python(here), active_ns(here)]
    assert None not in times
    assert times == sorted(times, key=lambda time: time or 0)


def test_a_thread_that_has_ended_has_no_times() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert native.active_ns is not None
    assert thread.native_id is not None
    deadline = time.monotonic() + 30
    while native.active_ns(thread.native_id) is not None:  # the system ends it a moment later
        assert time.monotonic() < deadline
