"""A truncated recording shows its intact part, and says that it is truncated."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.cli import main
from nodescope.errors import RecordingError
from nodescope.record.files.page_checksums import read_seal
from nodescope.record.recording import Recording
from nodescope_server.runs.runs import Runs
from nodescope_server.wire import convert

STEPS = 250


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "whole.nscope"
    weight = ns.parameter(np.ones((8, 8)), name="w")
    with ns.record(path, level="values") as run:
        for step in ns.steps(range(STEPS)):
            with ns.name_scope("model"):
                np.tanh(weight * float(step)).sum()
            run.log("stdout", f"step {step}")
            run.recorder.flush(20.0)
    return path


def read(recording: Recording) -> dict[tuple[int, int], bytes]:
    """Every available array by value and seq, after everything else has been read."""
    info, last = recording.run(), recording.last_seq()
    nodes = {row.node.id: row.node for row in recording.nodes()}
    assert convert.snapshot(recording, info, None, last)
    arrays = {}
    for row in recording.executions():
        assert row.seq <= last
        for value in nodes[row.node].outputs:
            at = recording.latest_at(value, row.seq)
            array = recording.array(value, row.seq)
            if array is not None:
                assert at is not None
                arrays[value, row.seq] = array.tobytes()
    return arrays


@pytest.mark.deep
def test_the_intact_part_of_a_cut_recording_is_shown(whole: Path, tmp_path: Path) -> None:
    sealed = read_seal(whole)
    assert sealed is not None
    content = whole.read_bytes()[: sealed.page * len(sealed.sums)]
    with Recording.open(whole) as recording:
        assert not recording.note
        everything = read(recording)
        rows = len(recording.executions())
    assert len(everything) > STEPS
    cut = tmp_path / "cut.nscope"
    shown = []
    for part in range(1, 26):
        size = len(content) * part // 26
        cut.write_bytes(content[:size])
        try:
            with Recording.open(cut) as recording:
                assert f"was cut to {size:,} of {len(content):,} bytes" in recording.note
                assert recording.run().trouble == recording.note
                arrays = read(recording)
                assert arrays.items() <= everything.items()
                shown.append(len(recording.executions()))
        except RecordingError as error:
            assert "cut" in str(error)  # noqa: PT017
        assert cut.read_bytes() == content[:size]
        assert list(tmp_path.iterdir()) == [cut]
    assert len(shown) >= 20
    assert max(shown) > rows // 2


def test_a_cut_recording_is_reported_by_every_command(
    whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.nscope"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size * 3 // 4])
    for call in (["why", str(cut)], ["check", "--watch", "nan", str(cut)]):
        main(call)
        said = capfd.readouterr().err
        assert "is damaged: it was cut to" in said
        assert "the intact part is shown" in said

    async def opened() -> str:
        runs = Runs()
        trouble = (await runs.open(cut)).info.trouble
        await runs.close()
        return trouble

    assert "the intact part is shown" in asyncio.run(opened())


def test_a_header_alone_is_refused(whole: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.nscope"
    cut.write_bytes(whole.read_bytes()[:4096])
    with pytest.raises(RecordingError, match=r"was cut to .* no part of it is intact"):
        Recording.open(cut)
