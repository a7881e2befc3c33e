"""After the end of a run, its recording is one file, even if the server was reading it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nodescope.errors import RecordingError
from nodescope.link import messages
from nodescope_server import wire
from nodescope_server.runs.runs import Runs
from tests.core.record.files.test_validate import COUNT, hot_journal
from tests.core.record.runs import recorded
from tests.server.support import Page, Program


def test_the_last_reader_folds(program: Program, page: Page) -> None:
    page.subscribe(program.run.id)
    program.execute(program.define())
    seq = program.commit()
    page.records_until(seq)
    assert page.ask(wire.GetState(program.run.id, seq)).executions.count == 1
    path = Path(program.run.recording)
    log = path.with_name(path.name + "-wal")
    assert log.exists()  # Both readers have the recording open.
    program.end()
    page.wait(wire.RunChanged, lambda item: item.run.state == "finished")
    assert [p.name for p in path.parent.glob(path.name + "*")] == [path.name]
    assert page.ask(wire.GetState(program.run.id, seq)).executions.count == 1


def test_a_journal_that_names_a_file_does_not_cost_it(tmp_path: Path) -> None:
    sent = recorded(tmp_path / "sent.nscope")
    canary = tmp_path / "thesis.tex"
    canary.write_text("mine")
    hot_journal(sent, canary)
    names = sorted(path.name for path in tmp_path.iterdir())

    async def opened() -> None:
        runs = Runs()
        with pytest.raises(RecordingError, match="names another file"):
            await runs.open(sent)
        sent.with_name("sent.nscope-journal").rename(tmp_path / "aside")
        run = await runs.open(sent)
        (tmp_path / "aside").rename(sent.with_name("sent.nscope-journal"))
        with pytest.raises(RecordingError, match="names another file"):
            await run.query.call(lambda recording: recording.last_seq())
        await run.fold()
        await runs.close()

    asyncio.run(opened())
    assert canary.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_server_that_ends_waits_for_no_question(tmp_path: Path) -> None:
    async def asked() -> None:
        runs = Runs()
        run = await runs.open(recorded(tmp_path / "r.nscope"))
        question = asyncio.ensure_future(run.query.call(lambda item: item._all(COUNT)))
        await run.follow.call(lambda recording: recording.last_seq())
        while run.query._recording is None:
            await asyncio.sleep(0)
        await runs.close()
        with pytest.raises(RecordingError, match="is closed"):
            await question

    asyncio.run(asked())


def test_trouble_with_a_recording_is_reported_to_the_page(program: Program, page: Page) -> None:
    page.subscribe(program.run.id)
    program.send(messages.Trouble("the disk is full" + "x" * 5000))
    changed = page.wait(wire.RunChanged, lambda item: bool(item.run.trouble))
    assert changed.run.trouble.startswith("the disk is full")
    assert len(changed.run.trouble) == 1000
    program.send(messages.Trouble(""))
    assert not page.wait(wire.RunChanged).run.trouble
    program.end()
