"""Delivery: whatever connection breaks, every recorded execution arrives once, in order."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodescope.link import messages
from nodescope_server import wire
from tests.depth import examples
from tests.server.support import Live, Page, Program, seqs, serving

Action = Literal["run", "commit", "page breaks", "program breaks", "log"]
ACTIONS: tuple[Action, ...] = ("run", "commit", "page breaks", "program breaks", "log")


class Viewer:
    """A page that reconnects, as the real one does."""

    def __init__(self, live: Live, run: str) -> None:
        self.live = live
        self.run = run
        self.seq = 0
        self.seen: list[int] = []
        self.logs: list[str] = []
        self.page = Page(live)
        assert self.page.ask(wire.Subscribe(run)) == wire.Done()
        self.take(self.page.wait(wire.Snapshot))

    def take(self, push: wire.Snapshot | wire.Records) -> None:
        assert push.seq >= self.seq, "the past came back"
        if isinstance(push, wire.Snapshot):
            self.seen = sorted(seqs(push.executions))
            self.logs = [log.text for log in push.logs]
        else:
            assert push.skipped == 0
            self.seen += seqs(push.executions)
            self.logs += [log.text for log in push.logs]
        self.seq = push.seq

    def reach(self, seq: int) -> None:
        while self.seq < seq:
            self.take(self.page.wait(wire.Snapshot | wire.Records))  # type: ignore[arg-type]

    def reconnect(self) -> None:
        # A broken connection loses the messages in transit.
        self.page.close()
        self.page = Page(self.live)
        assert self.page.ask(wire.Subscribe(self.run, self.seq)) == wire.Done()


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with serving(lost_after_s=0.01) as running:
        yield running


numbers = itertools.count(1)


@given(st.lists(st.sampled_from(ACTIONS), max_size=25))
@settings(
    deadline=None,
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_execution_arrives_once(live: Live, schedule: list[Action]) -> None:
    # The server may still fold the recording into one file while the folder is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        program = Program(live, Path(folder), number=next(numbers))
        program.connect()
        node = program.define()
        first = program.commit()
        viewers = [Viewer(live, program.run.id), Viewer(live, program.run.id)]
        for viewer in viewers:
            viewer.reach(first)  # From here on, the viewer has a seq to continue from.
        lines = 0
        for action in schedule:
            match action:
                case "run":
                    program.execute(node)
                case "log":
                    lines += 1
                    program.log(str(lines))
                case "commit":
                    program.commit()
                case "page breaks":
                    viewers[0].reconnect()
                case "program breaks":
                    program.drop()
                    assert isinstance(program.connect(), messages.Welcome)
        program.execute(node)
        seq = program.commit()
        recorded = [item.seq for item in program.read(lambda item: item.executions(0, None))]
        for viewer in viewers:
            viewer.reach(seq)
            assert viewer.seen == recorded
            assert viewer.logs == [str(line + 1) for line in range(lines)]
            viewer.page.close()
        program.end()
        assert program.socket is not None
        program.socket.close()
