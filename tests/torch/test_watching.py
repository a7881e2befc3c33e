"""``ns.watch``: names a model in a run, and connects to a waiting server otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import nodescope as ns
from nodescope import api
from tests.torch.observing import nodes_of, observed


def test_a_watched_model_has_the_name_that_it_was_given(tmp_path: Path) -> None:
    model, other = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.ReLU())

    def program() -> Any:
        run = ns.watch(model, "net.encoder")
        ns.watch(other)  # Named after its class.
        assert run is ns.attach()
        return other(model(torch.ones(1, 2)))

    with observed(tmp_path / "run.nscope", program) as (_, recording):
        names = nodes_of(recording).keys()
    assert {"net/encoder/0/addmm", "net/encoder/0/weight", "Sequential/0/relu"} <= names


def test_without_a_run_and_a_server_the_program_continues(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[str] = []
    monkeypatch.chdir(tmp_path)  # No server has left its address in this folder.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(api.console_output, "say", said.append)
    assert ns.watch(nn.ReLU(), "net") is None
    (line,) = said
    assert line.startswith("not attached: ")


def test_anything_but_a_model_is_left_alone(tmp_path: Path) -> None:
    def program() -> Any:
        ns.watch(object(), "net")
        return torch.ones(2) + 1

    with observed(tmp_path / "run.nscope", program) as (_, recording):
        assert "add" in nodes_of(recording)
