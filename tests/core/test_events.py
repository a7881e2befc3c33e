"""The bus, and probes that the program's recursion has left no room."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from nodescope.events import Bus, Event, NodeFinished, StepStarted
from nodescope.ir.graph import Node


def test_what_a_probe_missed_may_be_handed_on_by_two_threads() -> None:
    bus = Bus()
    inside, go_on = threading.Event(), threading.Event()
    missed: list[int] = []

    class Counting:
        def emit(self, event: Event) -> None:
            if isinstance(event, StepStarted) and event.step == 0:
                raise RecursionError

        def missed(self, node: Node) -> None:
            missed.append(node.id)
            if threading.current_thread() is not threading.main_thread():
                inside.set()
                go_on.wait(60)

    probe = Counting()
    bus.on_fault = lambda probe, error: missed.append(-1)
    bus.add(probe)
    bus.emit(StepStarted(0, 0))
    owing = bus.probes[0]
    node = Node(7, "x", "exp", "elementwise")
    owing.events.append(NodeFinished(node, (), (), 0, 0, 0, 0))  # type: ignore[attr-defined]
    other = threading.Thread(target=bus.emit, args=(StepStarted(1, 1),))
    other.start()
    assert inside.wait(60)
    bus.emit(StepStarted(2, 2))
    go_on.set()
    other.join()
    assert missed == [7]
    assert bus.probes == (probe,)


class Untold(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("stream", ["none", "closed", "open"])
def test_a_probe_that_fails_never_fails_the_program(
    stream: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = None if stream == "none" else io.StringIO()
    if file is not None and stream == "closed":
        file.close()
    monkeypatch.setattr(sys, "__stderr__", file)

    class Failing:
        def emit(self, event: Event) -> None:
            raise Untold("\x1b[2J")

    bus = Bus()
    bus.add(Failing())
    bus.emit(StepStarted(0, 0))
    assert bus.probes == ()
    if file is not None and not file.closed:
        assert "Failing failed and was disabled" in file.getvalue()
    assert capsys.readouterr().out == ""
