"""Training programs as people write them give the same results observed, with their steps."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.torch import user_programs
from tests.torch.both_paths import check_equal, run
from tests.torch.observing import edges_of, nodes_of, observed
from tests.torch.taps import TAPS

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("program", user_programs.STEPS, ids=lambda program: program.__name__)
def test_a_program_gives_the_same_and_has_its_steps(
    program: Callable[[], Any], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    plain = program()
    torch.manual_seed(0)
    with observed(tmp_path / "run.nscope", program, "values") as (result, recording):
        assert result == plain
        nodes = nodes_of(recording).values()
        steps = [row.step for row in recording.steps()]
    assert steps == list(range(1, user_programs.STEPS[program] + 1))
    backward = [node for node in nodes if node.phase == "backward"]
    assert backward
    assert all(node.forward for node in backward)
    # Every tensor that is read was made by a node, except for data from outside.
    assert not [node.name for node in nodes if node.op == "tensor" and node.phase != "forward"]


@pytest.mark.parametrize("tap", TAPS)
def test_what_was_overwritten_is_read_in_the_backward_pass(
    tap: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Autograd keeps a copy of it; a dispatch mode sees that as an operator."""
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    w = nn.Parameter(torch.tensor([0.5, 2.0]))

    def program() -> list[float]:
        h = w * 2
        h.mul_(w.exp())
        (h * 3).sum().backward()
        assert w.grad is not None
        return w.grad.tolist()

    plain = program()
    w.grad = None
    with observed(tmp_path / "run.nscope", program, "values") as (result, recording):
        assert result == plain
        edges, nodes = edges_of(recording), nodes_of(recording)
    written = next(node for node in nodes.values() if node.native == "aten::mul_.Tensor")
    of_it = [node.name for node in nodes.values() if node.forward == written.id]
    (read,) = [edges[name][1] for name in of_it if edges[name][1] != "exp"]
    assert (read if tap == "native" else edges[read][0]) == "mul"
    assert not [node for node in nodes.values() if node.op == "tensor"]


def test_the_step_that_follows_knows_what_was_overwritten(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    def program() -> Any:
        first, gate = nn.Linear(3, 4), nn.Linear(3, 4)
        parameters = [*first.parameters(), *gate.parameters()]
        optimizer = torch.optim.SGD(parameters, 0.1)
        for _ in range(7):
            optimizer.zero_grad()
            x = torch.randn(2, 3)
            h = first(x) * 2
            h.mul_(gate(x))
            h.square().mean().backward()
            optimizer.step()
        return parameters

    ways = [
        run(program, tmp_path / f"{fast}.nscope", monkeypatch, fast=fast, level="summary")
        for fast in (False, True)
    ]
    assert all(map(torch.equal, ways[0][0], ways[1][0]))
    check_equal(ways[1][1], ways[0][1])
    assert ways[1][2] >= 2


@pytest.mark.parametrize("optimized", [False, True])
def test_steps_of_a_program_without_modules(optimized: bool, tmp_path: Path) -> None:
    """The first step begins where gradients do, not after the first update."""

    def program() -> list[float]:
        torch.manual_seed(0)
        inputs, targets = torch.randn(8, 3), torch.randn(8)
        w = torch.zeros(3, requires_grad=True)
        optimizer = torch.optim.SGD([w], 0.1) if optimized else None
        for _ in range(4):
            loss = (inputs @ w - targets).square().mean()
            loss.backward()
            if optimizer is not None:
                optimizer.step()
            else:
                with torch.no_grad():
                    assert w.grad is not None
                    w -= 0.1 * w.grad
            w.grad = None
        return w.tolist()

    plain = program()
    with observed(tmp_path / "run.nscope", program, "values") as (result, recording):
        assert result == plain
        steps = [row.step for row in recording.steps()]
        losses = [(row.step, row.node) for row in recording.losses()]
        nodes = nodes_of(recording)
    assert steps == ([1, 2, 3, 4] if optimized else [])
    assert len({node for _, node in losses}) <= 1
    assert [step for step, _ in losses] == steps
    # All four iterations run the same nodes.
    assert [node.native for node in nodes.values() if node.phase == "forward"].count(
        "aten::mv"
    ) == 1


def test_losses_that_the_program_keeps_are_all_that_is_kept(tmp_path: Path) -> None:
    alive: list[weakref.ref[Any]] = []

    def program() -> int:
        model, losses = nn.Linear(3, 1), []
        for _ in range(6):
            h = model(torch.randn(4, 3))
            alive.append(weakref.ref(h.untyped_storage()))
            losses.append(h.square().mean())
            losses[-1].backward()
            del h
        gc.collect()
        return len(losses)

    with observed(tmp_path / "run.nscope", program):
        gc.collect()
    assert not [reference for reference in alive if reference() is not None]


def test_a_copied_module_has_parameters_of_its_own(tmp_path: Path) -> None:
    import copy

    def program() -> list[float]:
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        other = copy.deepcopy(model)
        other(torch.ones(3, 2))
        return [float(value.sum()) for value in other.state_dict().values()]

    torch.manual_seed(0)
    plain = program()
    torch.manual_seed(0)
    with observed(tmp_path / "run.nscope", program) as (result, recording):
        assert result == plain
        edges, nodes = edges_of(recording), nodes_of(recording)
    assert nodes["Sequential/0/weight"].role == "parameter"
    assert edges["Sequential/0/t"] == ["Sequential/0/weight"]


def test_memory_that_is_written_as_another_type_is_followed(tmp_path: Path) -> None:
    def program() -> list[Any]:
        x = torch.randn(4)
        x.view(torch.int32)[0] = 0
        z = torch.view_as_complex(torch.randn(3, 2))
        z.real.mul_(2)
        return [(x * 2).tolist(), torch.view_as_real(z * z.conj()).tolist()]

    torch.manual_seed(0)
    plain = program()
    torch.manual_seed(0)
    with observed(tmp_path / "run.nscope", program, "values") as (result, recording):
        assert result == plain
        edges = edges_of(recording)
    assert edges["mul"] == ["updated_view"]
    assert edges["updated_view"] == ["randn", "copy_"]
    assert "view_as_complex" in edges["updated_view_1"]


class Labelled(torch.Tensor):
    """A subclass of tensors, as libraries have them."""


@pytest.mark.parametrize("tap", TAPS)
def test_subclasses_of_tensors_stay_what_they_are(
    tap: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)

    def program() -> list[Any]:
        x, w = torch.arange(3.0).as_subclass(Labelled), nn.Parameter(torch.ones(3))
        y = (x * w).sum()
        assert type(y) is Labelled
        y.backward()
        p = nn.Parameter(torch.ones(2).as_subclass(Labelled))
        assert type(p * 2) is Labelled
        assert type(torch.stack(list(x.split(1)))) is Labelled
        return [y.item(), w.grad.tolist(), type(p).__name__]  # type: ignore[union-attr]

    plain = program()
    with observed(tmp_path / "run.nscope", program, "values") as (result, recording):
        assert result == plain
        edges = edges_of(recording)
    assert edges["sum"] == ["mul"]


def test_data_parallel_is_its_module(tmp_path: Path) -> None:
    def program() -> list[Any]:
        torch.manual_seed(0)
        model = nn.DataParallel(nn.Linear(3, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
        return [parameter.tolist() for parameter in model.parameters()]

    plain = program()
    with observed(tmp_path / "run.nscope", program) as (result, recording):
        assert result == plain
        assert "DataParallel/module/addmm" in nodes_of(recording)
