"""PyTorch in a notebook: cells that train are recorded, under a watched model's name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebook import Kernel, isolated
from tests.torch.observing import Recording, nodes_of
from tests.torch.taps import TAPS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

MODEL = """
import torch
from torch import nn
import nodescope as ns
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
"""
TRAINING = """def step():
    loss = model(torch.ones(2, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""


@pytest.fixture(params=TAPS)
def kernel(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Kernel]:
    monkeypatch.setenv("NODESCOPE_TORCH_TAP", request.param)
    isolated(tmp_path, monkeypatch)
    kernel = Kernel()
    yield kernel
    kernel.end()


def test_cells_that_train_are_recorded(kernel: Kernel, tmp_path: Path) -> None:
    assert kernel.cell(MODEL) == ""
    kernel.cell(TRAINING)
    shown = kernel.cell(
        "with ns.record('cells.nscope', 'values') as run:\n"
        "    ns.watch(model, 'net')\n"
        "    losses = [step().item() for _ in range(6)]\n"
        "(len(losses), losses[-1] < losses[0])"
    )
    assert shown == "(6, True)"
    plain = kernel.cell(f"{MODEL}\n[step().item() for _ in range(6)] == losses")
    assert plain == "True"
    raised = kernel.cell("with ns.record('wrong.nscope'):\n    model(torch.ones(2, 5))")
    assert raised.startswith("RuntimeError: mat1 and mat2 shapes cannot be multiplied")

    with Recording.open(tmp_path / "cells.nscope") as recording:
        nodes = nodes_of(recording)
        assert {row.step for row in recording.steps()} >= set(range(1, 7))
        source = nodes["net/0/addmm"].source
        assert source is not None
        assert (source.file, source.line, source.function) == ("In[2]", 2, "step")
        update = nodes["optimizer/net/0/weight/add_"].source
        assert update is not None
        assert (update.file, update.line) == ("In[2]", 5)
        assert recording.source("In[2]") == TRAINING
    with Recording.open(tmp_path / "wrong.nscope") as recording:
        assert recording.run().status == 1
