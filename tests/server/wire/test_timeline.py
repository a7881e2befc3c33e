"""The timeline on the wire."""

from __future__ import annotations

import threading
from pathlib import Path

import nodescope as ns
from nodescope.record.recording import Recording
from nodescope_server import wire
from nodescope_server.wire import convert
from tests.core.record.runs import recorded

ALL = wire.GetTimeline("0" * 16, 0, 1 << 60)


def test_the_timeline_names_the_main_thread(tmp_path: Path) -> None:
    file = tmp_path / "threads.nscope"
    x = ns.tensor([1.0])

    def work() -> None:
        with ns.name_scope("aside"):
            ns.exp(x)

    with ns.record(file, level="timing"):
        for _ in ns.steps(range(1)):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            ns.tanh(x)
    with Recording.open(file) as recording:
        shown = convert.timeline(recording, ALL)
        names = {row.node.id: row.node.name for row in recording.nodes()}
        threads = {
            names[row.node].split("/")[0]: row.thread & 0xFFFFFFFF
            for row in recording.executions(0)
        }
    assert shown.main_thread == threads["tanh"] != threads["aside"]


def test_a_recording_of_an_earlier_release_does_not_say(tmp_path: Path) -> None:
    with Recording.open(recorded(tmp_path / "earlier.nscope")) as recording:
        assert convert.timeline(recording, ALL).main_thread is None
