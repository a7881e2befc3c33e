"""The native tap beside the Python tap: the same nodes, stops, edits and results."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nodescope.adapters.torch.native_tap import building, choosing
from nodescope.emit.emitter import Emitter
from nodescope.ir.graph import Node
from nodescope.record.recording import Recording
from tests.adapters.driving import debugged, recorded
from tests.torch import tap_programs
from tests.torch.taps import TAPS, seen, tensors

Patch = pytest.MonkeyPatch


@pytest.fixture(params=TAPS)
def tap(request: pytest.FixtureRequest, monkeypatch: Patch) -> str:
    """Each tap in turn."""
    monkeypatch.setenv(choosing.VARIABLE, request.param)
    assert (choosing.choose().library is not None) == (request.param == "native")
    return str(request.param)


@pytest.mark.parametrize("program", tap_programs.PROGRAMS, ids=lambda program: program.__name__)
def test_both_taps_see_the_same_nodes(
    program: Callable[[], Any], tmp_path: Path, monkeypatch: Patch
) -> None:
    torch.manual_seed(0)
    plain = tensors(program())
    drawn = torch.get_rng_state()
    by_tap = {}
    for tap in TAPS:
        result, by_tap[tap] = seen(tap, program, tmp_path / f"{tap}.nscope", monkeypatch)
        assert all(torch.equal(a, b) for a, b in zip(plain, tensors(result), strict=True))
        assert torch.equal(torch.get_rng_state(), drawn)
    assert by_tap["native"] == by_tap["python"]


def test_threads_of_the_program_are_seen(tmp_path: Path, monkeypatch: Patch) -> None:
    plain = tensors(tap_programs.threads())
    counts = []
    for tap in TAPS:
        path = tmp_path / f"{tap}.nscope"
        result, _ = seen(tap, tap_programs.threads, path, monkeypatch)
        assert all(torch.equal(a, b) for a, b in zip(plain, tensors(result), strict=True))
        with Recording.open(path) as recording:
            nodes = {row.node.id: row.node for row in recording.nodes()}
            ran = [nodes[row.node] for row in recording.executions()]
        counts.append(Counter((node.phase, node.op) for node in ran))
    assert counts[0] == counts[1]
    assert counts[1]["forward", "matmul"] == 3


def test_what_runs_in_inference_mode_is_what_runs_without_gradients(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    # In inference mode, a dispatch mode sees `linear`, which elsewhere is never called as such.
    programs = (tap_programs.inferred, tap_programs.without_gradients)
    ops = [
        [
            (node.op, node.native, node.scope)
            for node in seen("native", program, tmp_path / "run.nscope", monkeypatch)[1]
        ]
        for program in programs
    ]
    assert ops[0] == ops[1]


def test_the_program_runs_as_it_does_unobserved(tmp_path: Path, monkeypatch: Patch) -> None:
    def operators() -> Counter[str]:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            tap_programs.attention()
        return Counter(event.name for event in profile.events())

    operators()
    plain = operators()
    monkeypatch.setenv(choosing.VARIABLE, "native")
    watched = recorded(tmp_path / "run.nscope", operators)
    # The observer reads the loss of each step for the table of losses.
    read = {"aten::detach", "detach", "aten::item", "aten::_local_scalar_dense"}
    assert not plain - watched
    assert set(watched - plain) <= read


def test_operators_that_a_script_calls(
    tap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A script calls operators with its own values below theirs on the stack.
    torch.manual_seed(0)
    plain = tap_programs.scripted()
    torch.manual_seed(0)
    assert torch.equal(recorded(tmp_path / "run.nscope", tap_programs.scripted)[0], plain[0])
    assert "unobserved" not in capsys.readouterr().err


def test_an_edit_in_the_forward_pass_continues_in_the_backward(tap: str, tmp_path: Path) -> None:
    w = nn.Parameter(torch.ones(3))

    def program() -> Any:
        torch.exp(w * 2).sum().backward()
        return w.grad

    with debugged(tmp_path / "run.nscope", program, "op:exp") as stopped:
        assert stopped.stop() is not None
        stopped.controller.edit("value = 5")
    assert stopped.result.tolist() == [10.0] * 3


@pytest.mark.parametrize("when", ["", "before "])
def test_stops_and_edits_in_the_backward_pass(tap: str, tmp_path: Path, when: str) -> None:
    w = nn.Parameter(torch.ones(3))

    def program() -> Any:
        torch.sigmoid(w).sum().backward()
        return w.grad

    breakpoint = f"{when}op:sigmoid_backward [backward]"
    with debugged(tmp_path / "run.nscope", program, breakpoint) as stopped:
        stop = stopped.stop()
        assert stop is not None
        assert stop.node_name.startswith("backward/")
        stopped.controller.edit("inputs[1] = 0.5" if when else "value = 7")
    assert stopped.result.tolist() == [0.25 if when else 7.0] * 3


@pytest.mark.parametrize("op", ["relu", "relu_grad", "mean"])
def test_what_is_raised_at_an_operation_ends_the_program(
    tap: str, tmp_path: Path, monkeypatch: Patch, op: str
) -> None:
    finish = Emitter.finish

    def interrupted(self: Emitter, pending: Any, *args: Any, **kwargs: Any) -> Any:
        result = finish(self, pending, *args, **kwargs)
        if pending.node.op == op:
            raise KeyboardInterrupt("at " + op)
        return result

    monkeypatch.setattr(Emitter, "finish", interrupted)
    model, ended = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), []

    def program() -> None:
        loss = model(torch.ones(1, 2)).mean()
        ended.append("forward")
        loss.backward()
        ended.append("backward")

    with pytest.raises(KeyboardInterrupt, match="at " + op):
        recorded(tmp_path / "run.nscope", program)
    assert ended == (["forward"] if op == "relu_grad" else [])
    monkeypatch.undo()
    model(torch.ones(1, 2)).sum().backward()  # The interrupted run leaves nothing behind.


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda: torch.ones(2, 3) @ torch.ones(2, 3), "RuntimeError: mat1 and mat2 shapes"),
        (lambda: torch.ones(2).add_(torch.ones(3)), "RuntimeError: The size of tensor a (2)"),
        (lambda: torch.ones(2)[torch.tensor([5])], "IndexError: index 5 is out of bounds"),
    ],
)
def test_the_text_of_an_error(tap: str, tmp_path: Path, wrong: Any, text: str) -> None:
    failed = []

    def program() -> None:
        drawn = torch.get_rng_state()
        with pytest.raises((RuntimeError, IndexError)) as raised:
            wrong()
        failed.append(str(raised.value))
        assert torch.equal(torch.get_rng_state(), drawn)

    path = tmp_path / "run.nscope"
    recorded(path, program)
    with Recording.open(path) as recording:
        texts = [
            recording.failure(row.seq)
            for row in recording.executions()
            if recording.failure(row.seq)
        ]
    assert len(texts) == 1
    assert texts[0].startswith(text)
    assert failed[0].splitlines()[0] in texts[0]


def test_tensors_of_the_backward_pass_are_forgotten(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv(choosing.VARIABLE, "native")
    library = choosing.choose().library
    model = nn.Linear(8, 8)

    def program() -> None:
        for _ in range(50):
            model(torch.ones(2, 8)).sum().backward()

    recorded(tmp_path / "run.nscope", program)
    freed = library.freed()
    assert len(freed) > 100
    assert library.storage(model.weight) not in freed
    assert not library.freed()


def _told(surroundings: dict[str, str]) -> str:
    program = (
        "import torch, nodescope as ns\n"
        "with ns.record('run.nscope'):\n    print(torch.ones(2).sum().item())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **surroundings}, capture_output=True,
        text=True, check=True, cwd=surroundings["NODESCOPE_CACHE"],
    )  # fmt: skip
    assert done.stdout.splitlines()[0] == "2.0"
    return done.stderr


def test_without_a_compiler_the_python_tap_says_so_in_a_line(tmp_path: Path) -> None:
    told = _told({"CXX": "no-such-compiler", "NODESCOPE_CACHE": str(tmp_path)})
    lines = [line for line in told.splitlines() if "tap" in line]
    assert len(lines) == 1
    assert "there is no C++ compiler (no-such-compiler)" in lines[0]


def test_a_compiler_that_fails_is_run_once(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("NODESCOPE_CACHE", str(tmp_path))
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho called >> calls\necho wrong headers >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.chdir(tmp_path)
    plan = building.plan()
    assert isinstance(plan, building.Plan)
    assert "wrong headers" in building.build(plan)
    monkeypatch.setenv(choosing.VARIABLE, "auto")
    for _ in range(2):
        choice = choosing.choose()
        assert choice.library is None
        assert str(plan.log) in choice.reason
    assert (tmp_path / "calls").read_text().split() == ["called"]
    assert "could not be compiled" in choosing.state()


def test_the_first_run_begins_to_compile_and_the_next_uses_it(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("NODESCOPE_CACHE", str(tmp_path))
    monkeypatch.setenv(choosing.VARIABLE, "auto")
    begun: list[building.Plan] = []
    monkeypatch.setattr(building, "start", begun.append)
    assert "being compiled" in choosing.choose().reason
    assert "first run compiles" in choosing.state()
    (plan,) = begun
    Path(plan.library).parent.mkdir(parents=True)
    Path(plan.library).write_bytes(b"not a library")
    choice = choosing.choose()
    assert choice.library is None
    assert choice.announced


def test_the_process_that_compiles_is_not_a_child_of_the_program(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    """A child would be left running, which Python warns of."""
    os.mkfifo(tmp_path / "called")
    os.mkfifo(tmp_path / "answer")
    compiler = tmp_path / "compiler"
    lines = "#!/bin/sh", f"cd '{tmp_path}'", "echo $PPID > called", "read x < answer", "exit 1"
    compiler.write_text("\n".join(lines))
    compiler.chmod(0o755)
    library = tmp_path / "cache" / "torch-tap" / "tap.so"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        building.start(building.Plan(str(library), (str(compiler),)))
    process = (tmp_path / "called").read_text().strip()  # it compiles
    parent = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1]
    assert int(parent) != os.getpid()
    (tmp_path / "answer").write_text("x\n")


@pytest.mark.parametrize(("mode", "own"), [(0o777, True), (0o770, True), (0o755, False)])
def test_a_library_that_others_may_have_written_is_not_loaded(
    tmp_path: Path, monkeypatch: Patch, mode: int, own: bool
) -> None:
    monkeypatch.setenv("NODESCOPE_CACHE", str(tmp_path))
    monkeypatch.setenv(choosing.VARIABLE, "native")
    plan = building.plan()
    assert isinstance(plan, building.Plan)
    folder = Path(plan.library).parent
    folder.mkdir()
    Path(plan.library).write_bytes(b"loading it would be another error")
    folder.chmod(mode)
    if not own:
        if os.geteuid():
            monkeypatch.setattr(os, "geteuid", lambda: 12345)
        else:
            os.chown(folder, 12345, -1)
    said = "can be written by others" if own else "belongs to another user"
    choice = choosing.choose()
    assert choice.library is None
    assert said in choice.reason
    assert said in choosing.state()


def test_doctor_says_which_tap_runs(monkeypatch: Patch, capsys: pytest.CaptureFixture[str]) -> None:
    from nodescope.__main__ import main

    monkeypatch.setenv(choosing.VARIABLE, "python")
    main(["doctor"])
    assert "tap" in capsys.readouterr().out
    assert choosing.state() == "python (NODESCOPE_TORCH_TAP=python)"


def test_values_of_the_native_tap_are_those_of_the_program(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setenv(choosing.VARIABLE, "native")
    w = nn.Parameter(torch.linspace(-1, 1, 6).reshape(2, 3))
    path = tmp_path / "run.nscope"

    def program() -> Any:
        (w * w.detach() * 3).sum().backward()
        return w.grad

    gradient = recorded(path, program, level="values")
    with Recording.open(path) as recording:
        nodes: list[Node] = [row.node for row in recording.nodes() if row.node.phase == "backward"]
        last = [node for node in nodes if node.op == "multiply"][-1]
        at = recording.latest_at(last.outputs[0])
        assert at is not None
        np.testing.assert_array_equal(recording.array(last.outputs[0], at.seq), gradient.numpy())
