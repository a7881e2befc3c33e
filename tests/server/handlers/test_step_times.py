"""Where the time of steps went, as the page requests it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import numpy as np
import pytest

from nodescope.events import HostSpan
from nodescope.record.recorder import Recorder
from nodescope.record.step_times.step_rows import PARTS
from nodescope_server import wire
from nodescope_server.wire import timeline_messages as wt
from tests.core.record.runs import RUN, record
from tests.server.support import Live, Page

STEPS = 20_000


def opened(live: Live, path: Path, *, steps: int) -> None:
    """A run with steps of 2,000 ns, in which two nodes take 500 ns each."""
    recorder = Recorder(path, level="timing", queue_bytes=1 << 30)
    wide = threading.get_ident()
    recorder.emit(HostSpan("data", wide, 1, 0, 0))
    recorder.emit(HostSpan("held", wide, 1, 500, 900))
    recorder.emit(HostSpan("library", wide, 2, 2_500, 2_600, "train.py", 7, "numpy"))
    record(recorder, steps=steps)
    assert recorder.close(60)
    asyncio.run(live.app.runs.open(path))


def numbers(column: bytes) -> list[float]:
    return np.frombuffer(column, dtype="<f8").tolist()


@pytest.mark.deep
def test_many_steps_come_as_few_rows_that_add_up(live: Live, page: Page, tmp_path: Path) -> None:
    opened(live, tmp_path / "r.nscope", steps=STEPS)
    answer = page.ask(wt.GetStepTimes(RUN, 0, 1 << 50, limit=300, step=1))
    assert answer.count == 300
    assert numbers(answer.first)[0] == 1
    assert numbers(answer.last)[-1] == STEPS
    parts = np.frombuffer(answer.parts, dtype="<f8").reshape(300, len(PARTS))
    assert parts[:, PARTS.index("forward")].sum() == STEPS * 1000
    assert parts[:, PARTS.index("held")].sum() == 400
    assert parts.sum() == numbers(answer.end_ns)[-1]
    assert numbers(answer.holds) == [500, 900]
    assert not answer.partial
    assert answer.since_ns == 0 < answer.total_ns
    assert answer.here is not None
    assert (answer.here.first, answer.here.parts[PARTS.index("between")]) == (1, 600)
    near = page.ask(wt.GetStepTimes(RUN, 2_100, 3_900))
    assert numbers(near.first) == numbers(near.last) == [2]
    hostile = page.ask(wt.GetStepTimes(RUN, 1 << 60, -5, limit=-1, step=1 << 60))
    assert (hostile.count, hostile.here) == (0, None)


def test_what_lay_between_nodes_comes_with_them(live: Live, page: Page, tmp_path: Path) -> None:
    opened(live, tmp_path / "r.nscope", steps=3)
    answer = page.ask(wire.GetTimeline(RUN, 2_000, 4_000))
    (host,) = answer.host
    assert (host.kind, host.file, host.line, host.function) == ("library", "train.py", 7, "numpy")
    assert host.thread == threading.get_ident() & 0xFFFFFFFF
