"""On a real CUDA device: results, nodes, stops, edits, and that nothing waits for it.

Read only where there is one. Where there is no browser: ``pytest --noconftest`` with this file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nodescope.adapters.torch.tensors import TorchTensors, host_array
from nodescope.record.recording import Recording
from nodescope.record.summary import summarise
from tests.adapters.driving import debugged, recorded
from tests.torch import tap_programs
from tests.torch.taps import TAPS, tensors

PROGRAMS = [program for program in tap_programs.PROGRAMS if program.__name__ != "loaded"]


@pytest.fixture(params=TAPS)
def tap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", request.param)
    return str(request.param)


def _on_device(program: Callable[[], Any]) -> Any:
    torch.manual_seed(0)
    torch.set_default_device("cuda")
    try:
        return program()
    finally:
        torch.set_default_device("cpu")


@pytest.mark.parametrize("level", ["timing", "summary", "values"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_observed_results_are_those_of_the_program(
    tap: str, level: Any, program: Callable[[], Any], tmp_path: Path
) -> None:
    plain = tensors(_on_device(program))
    path = tmp_path / "run.nscope"
    watched = tensors(recorded(path, lambda: _on_device(program), level=level))
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
    with Recording.open(path) as recording:
        on_device = {row.seq for row in recording.device_table.rows()}
        assert on_device
        assert recording.device_table.names()[1] == "cuda:0"


def _links(path: Path) -> list[Any]:
    with Recording.open(path) as recording:
        nodes = [row.node for row in recording.nodes()]
    names = {node.id: (node.phase, node.scope, node.op) for node in nodes}
    return sorted(
        (names[node.id], names.get(node.forward or 0))
        for node in nodes
        if node.phase == "backward" and node.forward is not None
    )


@pytest.mark.parametrize("name", ["checkpointed", "own_function"])
def test_gradients_belong_to_what_they_do_on_the_processor(
    tap: str, name: str, tmp_path: Path
) -> None:
    program = getattr(tap_programs, name)
    recorded(tmp_path / "cpu.nscope", program)
    recorded(tmp_path / "cuda.nscope", lambda: _on_device(program))
    assert _links(tmp_path / "cuda.nscope") == _links(tmp_path / "cpu.nscope")


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("level", ["timing", "summary"])
def test_nothing_waits_for_the_device(tap: str, level: Any, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
    x = torch.randn(32, 64, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters())

    def program() -> None:
        for _ in range(8):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    program()
    try:
        torch.cuda.set_sync_debug_mode("error")
        recorded(tmp_path / "run.nscope", program, level=level)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int64", "bool"])
@pytest.mark.parametrize("size", [1, 1025, 16385, 1_000_003])
def test_statistics_are_those_of_the_recorder(dtype: str, size: int) -> None:
    x = torch.randn(size, device="cuda") * 9
    if size > 9 and dtype not in ("int64", "bool"):
        x[3:6] = torch.tensor([float("nan"), float("inf"), 0.0])
    tensor = x.to(getattr(torch, dtype))
    content: Any = TorchTensors().capture(tensor, "summary")
    made = content.resolve()
    summary = summarise(made) if isinstance(made, np.ndarray) else made
    known = summarise(host_array(tensor))
    assert (summary.nan_count, summary.inf_count, summary.zero_count, summary.histogram) == (
        known.nan_count, known.inf_count, known.zero_count, known.histogram,
    )  # fmt: skip
    assert (summary.min, summary.max) == (known.min, known.max)
    if known.std is not None:
        assert [summary.std, summary.norm] == pytest.approx([known.std, known.norm], rel=1e-12)


@pytest.mark.parametrize("when", ["", "before "])
def test_stops_and_edits_on_the_thread_of_the_backward_pass(
    tap: str, when: str, tmp_path: Path
) -> None:
    w = nn.Parameter(torch.ones(3, device="cuda"))

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


def test_what_is_raised_in_the_backward_pass_ends_the_program(
    tap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nodescope.emit.emitter import Emitter

    finish = Emitter.finish

    def interrupted(self: Emitter, pending: Any, *args: Any, **kwargs: Any) -> Any:
        result = finish(self, pending, *args, **kwargs)
        if pending.node.op == "relu_grad":
            raise KeyboardInterrupt("at a stop")
        return result

    monkeypatch.setattr(Emitter, "finish", interrupted)
    w = nn.Parameter(torch.ones(3, device="cuda"))

    def program() -> Any:
        (torch.relu(w * 2) * 3).sum().backward()
        return [torch.zeros(1) + 1]

    with pytest.raises(KeyboardInterrupt):
        recorded(tmp_path / "run.nscope", program)


def test_out_of_memory_is_raised_and_recorded(tap: str, tmp_path: Path) -> None:
    x = torch.ones(4, device="cuda")

    def program() -> None:
        torch.tanh(x)
        x.expand(1 << 40, 4).contiguous()

    with pytest.raises(torch.cuda.OutOfMemoryError):
        recorded(tmp_path / "run.nscope", program, level="summary")
    with Recording.open(tmp_path / "run.nscope") as recording:
        failed = [row for row in recording.executions() if row.flags & 4]
        assert failed, [row.node.op for row in recording.nodes()]
        assert "out of memory" in (recording.failure(failed[0].seq) or "")
        assert {row.node.op for row in recording.nodes()} >= {"tanh"}


def test_a_gradient_scaler_and_copies_that_do_not_wait(tap: str, tmp_path: Path) -> None:
    def program() -> Any:
        torch.manual_seed(0)
        model = nn.Linear(8, 1).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        scaler = torch.amp.GradScaler("cuda")
        for _ in range(3):
            x = torch.ones(4, 8).pin_memory().to("cuda", non_blocking=True)
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return list(model.parameters())

    plain = program()
    watched = recorded(tmp_path / "run.nscope", program, level="summary")
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))


@pytest.mark.filterwarnings("ignore")
def test_compiled_regions_run_as_they_are(tap: str, tmp_path: Path) -> None:
    function = torch.compile(lambda x: (x * 2).relu() + 1)
    x = torch.randn(32, device="cuda")
    plain = function(x)
    assert torch.equal(recorded(tmp_path / "run.nscope", lambda: function(x)), plain)
