"""A system limit on the size of the recording's file: waiting, a message, resuming, and the gap.

The kernel refuses writes with EFBIG here, a full disk with ENOSPC and a quota with EDQUOT, in the
same calls of the same writer. This limit needs no privileges.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nodescope.record.recording import Recording
from nodescope_server import wire
from tests.integration.processes import UNSTOPPED, Program, Server
from tests.server.support import Page

FULL = """
import os, resource, sys, time
import numpy as np
import nodescope as ns

soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)

for step in ns.steps(range(1, 31)):
    if step == 5:
        wait_for("followed")
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize("run.nscope") + 4096, hard))
    for _ in range(20):
        np.tanh(ns.tensor(np.arange(5000.0) + step))
    if step == 25:
        wait_for("room")
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        print("room", flush=True)
        wait_for("resumed")
print("done", flush=True)
"""


def test_a_recording_waits_for_room_and_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "full.py").write_text(FULL)
    program = Program(
        tmp_path, *UNSTOPPED, "--level", "values", "--record", "run.nscope", "full.py"
    )
    notice = program.expect("nodescope: open http")
    page = Page(Server(re.search(r"http\S+", notice)[0]))  # type: ignore[index, arg-type]
    (run,) = page.hello.runs
    page.subscribe(run.id)
    (tmp_path / "followed").touch()
    line = program.expect("the recording is paused, your program continues")
    assert "it resumes when there is space" in line
    changed = page.wait(wire.RunChanged, lambda item: bool(item.run.trouble))
    assert "paused" in changed.run.trouble
    with Recording.open(tmp_path / "run.nscope") as recording:
        before = recording.last_seq()  # All records that the page was told of can be read.
        assert len(recording.executions()) > 0
    (tmp_path / "room").touch()
    program.expect("room")
    line = program.expect("recording resumed; missing:")
    page.wait(wire.RunChanged, lambda item: not item.run.trouble)
    (tmp_path / "resumed").touch()
    program.expect("done")
    assert program.end() == 0
    page.close()
    with Recording.open(tmp_path / "run.nscope") as recording:
        assert (
            recording.note.startswith("the disk was full: ") or not recording.dropped().executions
        )
        assert recording.last_seq() > before
        assert {row.step for row in recording.steps()} == set(range(1, 31))
        lost = recording.dropped()
        said = re.findall(r"([\d,]+) (execution|statistic|array)", line)
        counts = {kind: int(number.replace(",", "")) for number, kind in said}
        assert counts.get("execution", 0) <= lost.executions
        assert len(recording.executions()) + lost.executions >= 600


STAYS_FULL = """
import os, resource
import numpy as np
import nodescope as ns
from nodescope import api
from nodescope.record.files.disk_space import Reserve

recorder = api._current.recorder
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
limits = []

def limit(more):
    sizes = [os.path.getsize("run.nscope" + suffix) for suffix in ("", "-wal")]
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes) + more, hard))

def given_back(release=recorder.writer.file.release_reserve):
    release()  # on a disk, this makes room; a limit has to be raised
    limit(Reserve.BYTES)

recorder.writer.file.release_reserve = given_back
total = 0.0
for step in ns.steps(range(1, 41)):
    if step == 5:
        recorder.flush(20.0)
        limit(4096)
    with ns.name_scope(f"layer_{step}"):
        for part in range(20):  # equal arrays would be written once
            total += float(np.tanh(ns.tensor(np.arange(5000.0) + step + part)).numpy().sum())
print(f"total {total!r}\\n", end="", flush=True)  # in one write: messages come at any moment
raise SystemExit(3)
"""


def test_a_disk_that_stays_full_costs_values_and_not_the_run(tmp_path: Path) -> None:
    (tmp_path / "full.py").write_text(STAYS_FULL)
    program = Program(
        tmp_path, *UNSTOPPED, "--exit", "--level", "values", "--record", "run.nscope", "full.py"
    )
    program.expect("the recording is paused, your program continues")
    total = sum(
        float(np.tanh(np.arange(5000.0) + step + part).sum())
        for step in range(1, 41) for part in range(20)
    )  # fmt: skip
    assert float(program.expect("total ").split()[1]) == pytest.approx(total)
    line = program.expect("the disk was full: ")
    lost_steps = re.search(r"of steps (\d+) to 40 could not be recorded", line)
    assert lost_steps is not None
    assert 4 <= int(lost_steps[1]) <= 20  # Depends on when the log is merged.
    assert program.end() == 3
    with Recording.open(tmp_path / "run.nscope") as recording:
        assert recording.run().status == 3
        assert [row.step for row in recording.steps()] == list(range(1, 41))
        assert {row.node.scope for row in recording.nodes()} >= {
            f"layer_{step}" for step in range(1, 41)
        }
        lost = recording.dropped()
        lines = 1 - sum(row.stream == "stdout" for row in recording.logs())
        assert len(recording.executions()) + lost.executions == 40 * 20 * 2 + lines
        assert recording.run().trouble in line
