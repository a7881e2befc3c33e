"""One part disappears, the page, the server, the program or the file, and the rest goes on."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from nodescope.errors import RecordingError
from nodescope.protocol import (
    CONTROLLER_GRACE_S,
    Breakpoint,
    Continue,
    Detach,
    NextStep,
    SetBreakpoints,
    StepNode,
)
from nodescope.record.recording import Recording
from nodescope_server import wire
from tests.integration.conftest import Open, Start
from tests.integration.processes import (
    RUN,
    SOON_S,
    TIMEOUT_S,
    TRAIN,
    UNSTOPPED,
    control,
    entered,
    run_id,
    standing,
    stopped,
)
from tests.server.support import Page

STAYING = ("--port", "0", "--no-browser", "--record", "run.nscope")
RECORDED = (*RUN, "--record", "run.nscope")


def alone(folder: Path) -> None:
    """Check that the recording is a single file."""
    assert [path.name for path in folder.glob("run.nscope*")] == ["run.nscope"]


def test_a_watched_run_leaves_one_file(tmp_path: Path, start: Start, new_page: Open) -> None:
    program = start("run", *STAYING, "script.py", text=TRAIN)
    page = new_page(entered(program))
    run = run_id(page)
    stop = standing(page, run).stop
    assert stop is not None
    # The user's frames, without those that launched them.
    assert [(frame.function, frame.line) for frame in stop.stack] == [("<module>", 7)]
    assert page.ask(wire.GetState(run, stop.seq)).executions.count >= 0
    control(page, run, Continue())
    ended = page.wait(wire.RunChanged, lambda item: item.run.state == "finished")
    assert ended.run.status == 0
    alone(tmp_path)
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 0


def test_a_killed_server_lets_a_paused_run_complete(
    tmp_path: Path, start: Start, new_page: Open
) -> None:
    program = start(*RECORDED, "script.py", text=TRAIN)
    page = new_page(entered(program))
    run = run_id(page)
    standing(page, run)
    os.kill(program.server_pid(), signal.SIGKILL)
    killed = time.monotonic()
    program.expect("trained 9.0")
    assert time.monotonic() - killed < SOON_S
    assert program.end() == 0
    with Recording.open(tmp_path / "run.nscope") as recording:
        assert len(recording.steps()) == 3
        assert recording.run().status == 0
    alone(tmp_path)


def test_a_closed_page_lets_a_paused_run_continue(start: Start, new_page: Open) -> None:
    program = start(*RECORDED, "script.py", text=TRAIN)
    page = new_page(entered(program))
    standing(page, run_id(page))
    page.close()
    closed = time.monotonic()
    program.expect("trained 9.0")
    assert CONTROLLER_GRACE_S - 1 < time.monotonic() - closed < SOON_S
    assert program.end() == 0


def test_a_killed_program_is_lost_and_its_recording_opens(
    tmp_path: Path, start: Start, new_page: Open
) -> None:
    serving = start("serve", "--port", "0", "--no-browser")
    text = TRAIN.replace("w = ", "ns.attach(stop_on_entry=True)\nw = ", 1) + "print(1)\n"
    folder = tmp_path / "program"
    folder.mkdir()
    page = new_page(entered(serving))
    (folder / "script.py").write_text(text)
    program = start("script.py", folder=folder, plain=True)
    run = run_id(page)
    standing(page, run)
    control(page, run, NextStep())
    stopped(page, "step")
    program.process.kill()
    lost = page.wait(wire.RunChanged, lambda item: item.run.state == "lost")
    (file,) = (folder / ".nodescope" / "runs").glob("*nscope*")
    assert str(file.absolute()) == lost.run.recording
    with Recording.open(file) as recording:
        assert recording.run().status is None
        assert recording.steps()
    # What was recorded before the program died can be inspected.
    assert page.ask(wire.GetState(run, 10**6)).executions.count > 5


@pytest.mark.deep
def test_two_runs_of_one_server(tmp_path: Path, start: Start, new_page: Open) -> None:
    serving = start("serve", "--port", "0", "--no-browser")
    text = TRAIN.replace("w = ", "ns.attach(stop_on_entry=True)\nw = ", 1)
    page = new_page(entered(serving))
    (tmp_path / "script.py").write_text(text)
    programs = [start("script.py", plain=True) for _ in range(2)]
    runs = page.hello.runs
    while len(runs) < 2:
        runs = page.wait(wire.RunsChanged).runs
    for run in runs:
        page.subscribe(run.id)
    for run in runs:
        control(page, run.id, Detach())
    for program in programs:
        program.expect("trained 9.0")
        assert program.end() == 0
    assert len({run.recording for run in runs}) == 2
    serving.process.send_signal(signal.SIGINT)
    assert serving.end() == 0


def reach(page: Page, name: str, reason: str) -> None:
    """Wait until the page is told of this stop, ignoring other changes of the session."""
    page.wait(
        wire.SessionChanged,
        lambda item: (
            item.info.stop is not None
            and (item.info.stop.node_name, item.info.stop.reason) == (name, reason)
        ),
    )


def test_two_pages_control_one_run(start: Start, new_page: Open) -> None:
    program = start(*RECORDED, "script.py", text=TRAIN)
    server = entered(program)
    first, two = new_page(server), new_page(server)
    run = run_id(first)
    standing(first, run), standing(two, run)
    for mover, name in ((first, "loss/matmul"), (two, "loss/square"), (first, "loss/mean")):
        control(mover, run, StepNode())
        for item in (first, two):
            reach(item, name, "step")
    control(two, run, SetBreakpoints((Breakpoint("node", "loss/mean"),)))
    control(first, run, Continue())
    for item in (first, two):
        reach(item, "loss/mean", "breakpoint")
    first.close()  # The other page is still there, so the program stays stopped.
    control(two, run, Detach())
    assert program.end() == 0


def test_a_recording_that_is_deleted_ends_the_recording_only(tmp_path: Path, start: Start) -> None:
    text = TRAIN.replace("    loss.backward()", "    pathlib.Path('run.nscope').unlink(True)\n"
                         "    loss.backward()")  # fmt: skip
    program = start(
        *UNSTOPPED, "--record", "run.nscope", "script.py", text="import pathlib\n" + text
    )
    program.expect("trained 9.0")
    program.expect("the recording stopped, your program continues")
    assert program.end() == 0
    assert "Traceback" not in "".join(program.lines)


def test_a_full_disk_costs_elements_only(tmp_path: Path, start: Start) -> None:
    # The log reaches this limit before the file does; it must be merged before it can grow again.
    text = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (900_000, 900_000))\n"
        + TRAIN.replace("np.ones((3, 2))", "np.ones((3, 20_000))")
    )
    program = start(*UNSTOPPED, "--record", "run.nscope", "script.py", text=text)
    program.expect("trained 9.0")
    program.expect("the recording is paused, your program continues")
    program.expect("the disk was full: ")
    program.expect("script.py finished, 3 steps")
    assert program.end() == 0
    assert "Traceback" not in "".join(program.lines)


def test_a_recording_is_opened_while_it_is_written(
    tmp_path: Path, start: Start, new_page: Open
) -> None:
    program = start(*RECORDED, "script.py", text=TRAIN)
    page = new_page(entered(program))
    run = run_id(page)
    standing(page, run)
    control(page, run, NextStep())
    stopped(page, "step")
    viewer = start("open", "--port", "0", "--no-browser", "run.nscope")
    view = new_page(entered(viewer))
    assert view.hello.runs[0].state == "recorded"
    assert view.subscribe(run).executions.count > 0
    control(page, run, Detach())
    assert program.end() == 0
    viewer.process.send_signal(signal.SIGINT)
    assert viewer.end() == 0
    alone(tmp_path)


def test_a_wrong_token_opens_nothing(start: Start) -> None:
    program = start(*RECORDED, "script.py", text=TRAIN)
    server = entered(program)
    server.cookie = {"Cookie": server.cookie["Cookie"][:-4] + "AAAA"}
    with pytest.raises(InvalidStatus, match="401"):
        server.socket("/api/stream", {**server.cookie, "Origin": server.base})
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 130


@pytest.mark.deep
def test_a_page_that_never_reads_does_not_hold_the_program(start: Start, new_page: Open) -> None:
    text = TRAIN.replace("* 3)", "* 3000)")
    program = start("run", *STAYING, "script.py", text=text)
    server = entered(program)
    deaf, page = new_page(server), new_page(server)
    run = run_id(page)
    standing(page, run)
    # This page does not read a byte from now on.
    assert deaf.ask(wire.Subscribe(run, 0)) == wire.Done()
    control(page, run, Continue())
    page.wait(wire.RunChanged, lambda item: item.run.state == "finished")
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 0


@pytest.mark.deep
def test_a_server_that_hangs_lets_a_paused_run_continue(start: Start, new_page: Open) -> None:
    program = start(*RECORDED, "script.py", text=TRAIN)
    page = new_page(entered(program))
    standing(page, run_id(page))
    os.kill(program.server_pid(), signal.SIGSTOP)
    held = time.monotonic()
    program.expect("trained 9.0")
    assert time.monotonic() - held < SOON_S
    assert program.end() == 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_running_program_ends_on_a_signal(tmp_path: Path, start: Start, sign: int) -> None:
    text = TRAIN.replace("np.ones((4, 3))] * 3", "np.ones((4, 3))] * 10**7").replace(
        "    loss.backward()", "    loss.backward()\n    print('step', flush=True)"
    )
    program = start(*UNSTOPPED, "--record", "run.nscope", "script.py", text=text)
    # The server starts while the program runs, which waits for no page.
    program.expect("open http")
    program.expect("step")
    until = time.monotonic() + TIMEOUT_S
    while not has_begun(tmp_path / "run.nscope"):
        assert time.monotonic() < until
    server = program.server_pid()
    program.process.send_signal(sign)
    told = time.monotonic()
    status = program.end()
    assert time.monotonic() - told < SOON_S
    assert status == (130 if sign == signal.SIGINT else -sign)
    assert os.path.join("core", "nodescope") not in "".join(program.lines)
    with Recording.open(tmp_path / "run.nscope") as recording:
        # If Python does not handle the signal, the recording has what was written before it.
        assert recording.steps() or sign == signal.SIGTERM
    assert gone(server)


def has_begun(path: Path) -> bool:
    """Whether anything of a run has been written."""
    try:
        with Recording.open(path) as recording:
            return recording.last_seq() > 0
    except RecordingError:
        return False


def gone(process: int) -> bool:
    """Whether a process ends within a moment."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 5.0)[0])
    finally:
        os.close(handle)
