"""The core finds pauses in the program: stretches of time in which no execution is noted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from nodescope import native
from nodescope.ir.graph import Node
from nodescope.record.noted_outputs import noted_outputs
from nodescope.record.noted_times import noted_times

SLICE_US = 1000
ENDLESS = 1 << 30
now = time.perf_counter_ns


@pytest.fixture
def pauses() -> Any:
    assert native.Pauses is not None
    return native.Pauses()


def times() -> Callable[[], None]:
    sink = noted_times(lambda: sink.take(), lambda: None)
    return lambda: sink(1, 1, 7, 10, now())


def outputs() -> Callable[[], None]:
    sink: Any = noted_outputs(1 << 20, lambda: sink.take(), lambda: None, keep=True)
    node, output = Node(1, "n", "add", "elementwise", outputs=(1,)), np.ones(4)
    return lambda: sink(node, 1, 1, 7, 10, now(), (), (output,))


@pytest.fixture(params=[times, outputs])
def noting(request: pytest.FixtureRequest) -> Iterator[None]:
    """Meanwhile, another thread notes executions without pause."""
    note, over = request.param(), threading.Event()

    def work() -> None:
        while not over.is_set():
            note()

    thread = threading.Thread(target=work)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.parametrize("noted", [times, outputs])
def test_a_pause_ends_the_wait(pauses: Any, noted: Callable[[], Callable[[], None]]) -> None:
    note = noted()
    for least in (0, 1, 3):
        began = now()
        note()
        paused = pauses.wait(now(), SLICE_US, least, ENDLESS)
        assert max(least, 1) * SLICE_US * 1000 <= paused <= now() - began


def test_the_time_of_a_pause_is_that_since_the_last_execution(pauses: Any) -> None:
    sink = noted_times(lambda: sink.take(), lambda: None)
    sink(1, 1, 7, 10, 5_000_000)
    assert pauses.wait(25_000_000, SLICE_US, 3, ENDLESS) >= 20_000_000


def test_without_executions_a_wait_takes_all_slices() -> None:
    """Also after another run, which has a clock of its own."""
    sink = noted_times(lambda: sink.take(), lambda: None)
    sink(1, 1, 7, 10, now() + (1 << 60))
    assert native.Pauses is not None
    pauses, began = native.Pauses(), now()
    assert pauses.wait(20_000_000, SLICE_US, 3, ENDLESS) > 20_000_000
    assert now() - began >= 3 * SLICE_US * 1000


def test_without_a_pause_the_wait_ends_after_most_slices(pauses: Any) -> None:
    sink = noted_times(lambda: sink.take(), lambda: None)
    sink(1, 1, 7, 10, now() + (1 << 60))
    began = now()
    assert pauses.wait(now(), SLICE_US, 1, 0) == 0
    assert pauses.wait(now(), SLICE_US, 1, 4) == 0
    assert now() - began >= 4 * SLICE_US * 1000


@pytest.mark.usefixtures("noting")
def test_noted_executions_prolong_the_wait(pauses: Any) -> None:
    # On a busy machine, the other thread may not run for a slice.
    assert not all(pauses.wait(now(), SLICE_US, 1, 4) for _ in range(10_000))


def test_its_end_ends_the_wait(pauses: Any) -> None:
    paused: list[int] = []
    thread = threading.Thread(
        target=lambda: paused.append(pauses.wait(now(), ENDLESS, ENDLESS, ENDLESS)), daemon=True
    )
    thread.start()
    pauses.end()
    pauses.end()
    thread.join(60)
    assert paused == [0]
    assert pauses.wait(now(), ENDLESS, ENDLESS, ENDLESS) == 0


def test_a_slice_takes_time(pauses: Any) -> None:
    with pytest.raises(ValueError, match="a slice takes a microsecond or more"):
        pauses.wait(0, 0, 1, 1)
