"""What a followed step runs in Python is little, and calls of modules keep their scopes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import nn

import nodescope as ns
from nodescope.adapters.torch.module_scopes import ModuleScopes
from tests.torch import step_programs
from tests.torch.both_paths import check_equal, run
from tests.torch.taps import TAPS

Patch = pytest.MonkeyPatch
_MOST = 12
"""Python functions of nodescope that run for a module with two parameters in a followed step."""


def _calls(layers: int, path: Path) -> int:
    """How many Python functions of nodescope a followed step runs."""
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(layers)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.ones(1, 2)
    home = str(Path(ns.__file__).parent)
    count = 0

    def counted(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(home)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()

    with ns.record(path, level="timing"):
        for _ in range(8):
            step()
        before = sys.getprofile()
        sys.setprofile(counted)
        try:
            step()
        finally:
            sys.setprofile(before)
    return count


def test_a_followed_step_runs_little_python(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", "native")
    few, many = (_calls(layers, tmp_path / f"{layers}.nscope") for layers in (4, 24))
    assert (many - few) / 20 <= _MOST


class _Shared(nn.Module):
    """Calls modules again and again, at several places, some through others' hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        self.others = [nn.Linear(3, 3)]  # A list hides them from the model.
        self.step = 0

    def forward(self, x: Any) -> Any:
        for _ in range(2):
            x = self.first(x)
        x = self.second(self.second(x)) + self.second[0](x)
        with ns.name_scope("inside"):
            x = self.first(x)
        for layer in (*self.others, nn.Tanh(), nn.Tanh()):
            x = layer(x)
        self.step += 1
        if self.step == 5:
            self.first.register_forward_hook(lambda module, args, output: self.second[1](output))
        try:
            self.second[0](x[:, :2])
        except RuntimeError:
            x = self.first(x)
        return x


def modules_called_anywhere() -> Any:
    torch.manual_seed(0)
    model = _Shared()
    optimizer = step_programs.sgd_of(model.parameters())
    for _ in range(8):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    return step_programs.trained(model)


@pytest.mark.parametrize("tap", TAPS)
@pytest.mark.parametrize(
    "program", [modules_called_anywhere, step_programs.checkpointed, step_programs.raised_within]
)
def test_calls_of_known_modules_have_the_same_scopes(
    program: Callable[[], Any], tap: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    runs = []
    for known in (False, True):
        with monkeypatch.context() as patch:
            if not known:
                patch.setattr(ModuleScopes, "_called_again", lambda self, here, module: False)
            path = tmp_path / f"{known}.nscope"
            torch.manual_seed(0)
            runs.append(run(program, path, patch, fast=True, tap=tap, level="timing"))
    assert all(map(torch.equal, runs[0][0], runs[1][0]))
    check_equal(runs[1][1], runs[0][1])
    assert runs[0][2] == runs[1][2]


@pytest.mark.parametrize("tap", TAPS)
def test_views_of_parameters_without_gradients_get_no_hooks(
    tap: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Such a view says that it requires a gradient, and each call makes a new one."""
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", tap)
    layer = nn.Linear(2, 2)
    hooked = 0
    original = torch.Tensor.register_post_accumulate_grad_hook

    def counted(tensor: Any, hook: Any) -> Any:
        nonlocal hooked
        hooked += 1
        return original(tensor, hook)

    monkeypatch.setattr(torch.Tensor, "register_post_accumulate_grad_hook", counted)
    with torch.no_grad(), ns.record(tmp_path / "run.nscope", level="timing"):
        for _ in range(8):
            layer(torch.ones(1, 2))
    assert hooked <= 2  # of the parameters themselves, once
