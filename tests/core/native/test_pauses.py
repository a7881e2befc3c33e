"""The core finds pauses in the program: stretches of time in which no execution is noted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from nodescope import native
from nodescope.ir.graph import Node
from nodescope.record.noted_outputs import noted_outputs
from nodescope.record.noted_times import noted_times

SLICE_NS = 1_000_000
ENDLESS = 1 << 30


@pytest.fixture
def pauses() -> Any:
    assert native.Pauses is not None
    return native.Pauses()


def times() -> Callable[[], None]:
    sink = noted_times(lambda: sink.take(), lambda: None)
    return lambda: sink(1, 1, 7, 10, 30)


def outputs() -> Callable[[], None]:
    sink: Any = noted_outputs(1 << 20, lambda: sink.take(), lambda: None, keep=True)
    node, output = Node(1, "n", "add", "elementwise", outputs=(1,)), np.ones(4)
    return lambda: sink(node, 1, 1, 7, 10, 30, (), (output,))


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


def test_a_pause_ends_the_wait(pauses: Any) -> None:
    assert pauses.wait(SLICE_NS, 1, ENDLESS) == 1
    assert pauses.wait(SLICE_NS, 3, ENDLESS) == 3
    assert pauses.wait(SLICE_NS, 3, 2) == 2


@pytest.mark.usefixtures("noting")
def test_noted_executions_prolong_the_wait(pauses: Any) -> None:
    # On a busy machine, the other thread may not run for a slice.
    while pauses.wait(SLICE_NS, 1, 4) < 4:
        pass


@pytest.mark.usefixtures("noting")
def test_its_end_ends_the_wait(pauses: Any) -> None:
    waited: list[int] = []
    thread = threading.Thread(target=lambda: waited.append(pauses.wait(SLICE_NS, ENDLESS, ENDLESS)))
    thread.start()
    pauses.end()
    thread.join()
    assert waited[0] < ENDLESS
    assert pauses.wait(SLICE_NS, ENDLESS, ENDLESS) == 0


def test_a_slice_takes_less_than_a_second(pauses: Any) -> None:
    for slice_ns in (-1, 1_000_000_000):
        with pytest.raises(ValueError, match="a slice takes less than a second"):
            pauses.wait(slice_ns, 1, 1)
