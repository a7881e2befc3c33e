"""The recording of a run that has ended is one file, though the server was reading it."""

from __future__ import annotations

from pathlib import Path

from nodescope_server import wire
from tests.server.support import Page, Program


def test_the_last_reader_folds(program: Program, page: Page) -> None:
    page.subscribe(program.run.id)
    program.execute(program.define())
    seq = program.commit()
    page.records_until(seq)
    assert page.ask(wire.GetState(program.run.id, seq)).executions.count == 1
    path = Path(program.run.recording)
    log = path.with_name(path.name + "-wal")
    assert log.exists()  # both readers have it open
    program.end()
    page.wait(wire.RunChanged, lambda each: each.run.state == "finished")
    assert [each.name for each in path.parent.glob(path.name + "*")] == [path.name]
    assert page.ask(wire.GetState(program.run.id, seq)).executions.count == 1
