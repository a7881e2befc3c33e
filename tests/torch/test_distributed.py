"""Two processes that train together: each makes a recording of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nodescope.cli import main
from tests.torch.observing import Recording, nodes_of

PROGRAM = """
import torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with open(f"rank{dist.get_rank()}.txt", "w") as file:
    print(loss.item(), model.module.weight.tolist(), file=file)
dist.destroy_process_group()
"""


TRIES = 3
CRASH = "terminate called without an active exception"
"""Said by PyTorch, with or without nodescope, when now and then its threads outlive the process."""


def train(folder: Path, *command: str) -> tuple[list[str], str]:
    """What both ranks computed, and what was said."""
    for _ in range(TRIES):
        shutil.rmtree(folder / ".nodescope", ignore_errors=True)
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone",
             "--nproc-per-node", "2", *command],
            cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
            timeout=240, check=False,
        )  # fmt: skip
        if not done.returncode or CRASH not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    return [(folder / f"rank{rank}.txt").read_text() for rank in (0, 1)], done.stderr


def test_each_process_is_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    plain, _ = train(tmp_path, "train.py")
    observed, said = train(
        tmp_path, "--no-python", str(Path(sys.executable).parent / "nodescope"), "run",
        "--no-browser", "--no-stop-on-entry", "--exit", "train.py",
    )  # fmt: skip
    assert observed == plain
    assert "unobserved:" not in said
    recordings = sorted((tmp_path / ".nodescope" / "runs").glob("*.nscope"))
    assert len(recordings) == 2
    for rank, path in enumerate(recordings):
        assert path.name.startswith(f"train-rank{rank}-")
        with Recording.open(path) as recording:
            assert recording.run().name == f"train.py, rank {rank} of 2"
            nodes = nodes_of(recording)
            assert "DistributedDataParallel/module/addmm" in nodes
            assert len(recording.losses()) == 3
    # The comparison names the first difference: each process draws its own random numbers.
    main(["compare", "--no-browser", "--exit", *map(str, recordings)])
    assert "initialisation/uniform_ (train.py:" in "".join(capsys.readouterr())
