"""The settings of modules and optimizers, as the scopes that they are tell them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from nodescope.adapters.torch.module_facts import settings_of
from nodescope.record.live_memory import live_memory
from nodescope.record.scope_facts import scope_facts
from tests.torch.observing import nodes_of, observed


class Heads(nn.Module):
    """A module of the program's own, whose texts are never asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.mode, self.sizes = 4, "causal", [2, 3]
        self.dtype = torch.float16
        self._hidden = 1
        self.data = torch.ones(3)
        self.call = print
        self.convolution = nn.Conv2d(2, 2, 3, padding=1)
        self.drop = nn.Dropout(0.25)

    def extra_repr(self) -> str:
        raise AssertionError("code of the program")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.convolution(self.convolution(x)))


def test_plain_attributes_are_settings() -> None:
    assert settings_of(Heads()) == {
        "heads": "4", "mode": "causal", "sizes": "(2, 3)", "dtype": "float16",
    }  # fmt: skip
    linear = settings_of(nn.Linear(3, 5, bias=False))
    assert linear == {"in_features": "3", "out_features": "5", "bias": "False"}
    convolution = settings_of(nn.Conv2d(3, 8, 3, stride=2))
    assert convolution["kernel_size"] == "(3, 3)"
    assert convolution["stride"] == "(2, 2)"
    assert settings_of(nn.Dropout(0.5).eval()) == {
        "training": "False", "p": "0.5", "inplace": "False",
    }  # fmt: skip


def test_scopes_describe_their_module(tmp_path: Path) -> None:
    def program() -> Any:
        model = Heads()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(1, 2, 4, 4)).sum().backward()
        optimizer.step()

    with observed(tmp_path / "run.nscope", program) as (_, run):
        for path in ("Heads/convolution", "Heads/convolution_1", "backward/Heads/convolution"):
            facts = scope_facts(run, path)
            assert facts is not None
            assert facts.kind == "Conv2d"
            assert facts.attrs["kernel_size"] == "(3, 3)"
        heads = scope_facts(run, "Heads")
        assert heads is not None
        assert heads.attrs["heads"] == "4"
        optimizer = scope_facts(run, "optimizer")
        assert optimizer is not None
        assert (optimizer.kind, optimizer.attrs["lr"]) == ("SGD", "0.1")
        assert scope_facts(run, "nowhere") is None
        assert len(run.documents("scope")) == 5  # One document per scope.


def test_live_memory_is_memory_that_is_still_read(tmp_path: Path) -> None:
    def program() -> Any:
        x = torch.ones(1000)
        y = (x * 2).view(10, 100)
        z = y.relu_().exp()
        return z.sum()

    with observed(tmp_path / "run.nscope", program) as (_, run):
        nodes = nodes_of(run)
        live = live_memory(run, 0).live
    # exp reads the memory of mul, which view and relu_ share; nothing reads ones any more.
    assert live[nodes["mul"].id] == live[nodes["exp"].id] == 8000
    assert live[nodes["relu_"].id] == 4000
