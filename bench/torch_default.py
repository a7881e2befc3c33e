"""The cost of `nodescope run` without options for PyTorch programs, each in a separate process.

The figure is the wall time from the first step to the end of the recording, compared with the same
program alone. The server and the page are not included. Other rows have `torch.profiler` and
DebugMode, also without options. Needs PyTorch:
``.venv-torch/bin/python -m bench torch_default``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from bench.measure import Row
from nodescope.api import DEFAULT_SLOWDOWN, Run
from nodescope.cli.run import kept_by

PROGRAMS: Final = {"gpt2 tiny": 200, "resnet18, evaluated": 40, "mlp, dropout": 1500}
"""The programs, and their numbers of steps."""
OBSERVERS: Final = ("nodescope run", "torch.profiler", "DebugMode")
PAIRS: Final = 3
_ROOT: Final = Path(__file__).resolve().parents[1]


def rows() -> Iterator[Row]:
    """Each program, observed and alone in turn."""
    if importlib.util.find_spec("torch") is None:
        yield Row("a PyTorch program", "plain", None, detail="PyTorch is not installed")
        return
    for name in PROGRAMS:
        runs = [{way: _run(name, way) for way in ("alone", *OBSERVERS)} for _ in range(PAIRS)]
        pairs = [(ways["alone"], ways["nodescope run"]) for ways in runs]
        wall = statistics.median(seen["wall"] / free["wall"] for free, seen in pairs)
        cpu = statistics.median(seen["cpu"] / free["cpu"] for free, seen in pairs)
        seen = pairs[-1][1]
        yield Row(
            f"{name}, nodescope run without options", "plain", wall,
            must=1.2 * DEFAULT_SLOWDOWN, aim=DEFAULT_SLOWDOWN,
            detail=f"processor time of all threads {cpu:.2f}; {pairs[0][0]['wall']:.2f} s alone; "
            f"{seen['observed']} of {seen['steps']} steps observed, {seen['fast']} of them in C++",
        )  # fmt: skip
        for other in OBSERVERS[1:]:
            ratios = [ways[other]["wall"] / ways["alone"]["wall"] for ways in runs]
            yield Row(f"{name}, {other} without options", "plain", statistics.median(ratios))


def _run(name: str, way: str) -> dict[str, Any]:
    call = [sys.executable, "-m", "bench.torch_default", json.dumps([name, way])]
    done = subprocess.run(call, check=True, capture_output=True, text=True, cwd=_ROOT)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _program(name: str) -> None:
    """Train as programs usually do: batches from a loader, the loss printed every ten steps."""
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.utils.data import DataLoader, TensorDataset

    from bench import torch_networks as networks

    steps = PROGRAMS[name]
    model: nn.Module
    if name.startswith("gpt2"):
        model = networks.gpt2_model()
        data = TensorDataset(torch.randint(0, 256, (8 * 50, 64)))
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        rows = 8
    elif name.startswith("resnet"):
        model = networks.resnet18_model()
        data = TensorDataset(torch.randn(4 * 20, 3, 32, 32), torch.randint(0, 10, (4 * 20,)))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        rows = 4
    else:
        model = nn.Sequential(
            nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.ReLU(),
            nn.Linear(64, 10),
        )  # fmt: skip
        data = TensorDataset(torch.randn(32 * 100, 32), torch.randint(0, 10, (32 * 100,)))
        optimizer = torch.optim.Adam(model.parameters())
        rows = 32

    def loss_of(batch: Any) -> Any:
        x, y = batch[0], batch[-1]
        return F.cross_entropy(model(x).flatten(0, -2), y.flatten())

    count, total = 0, 0.0
    while count < steps:
        for batch in DataLoader(data, batch_size=rows, shuffle=True):
            optimizer.zero_grad()
            loss = loss_of(batch)
            loss.backward()
            optimizer.step()
            count += 1
            total += loss.item()
            if count % 10 == 0:
                print(f"{count}: {total / 10:.4f}")
                total = 0.0
        if name.endswith("evaluated"):
            model.eval()
            with torch.no_grad():
                for batch in DataLoader(data, batch_size=4 * rows):
                    loss_of(batch)
            model.train()


def _peer(way: str) -> AbstractContextManager[Any]:
    """The context of an observer other than nodescope."""
    import torch

    if way == "torch.profiler":
        return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    if way == "DebugMode":
        from torch.utils._debug_mode import DebugMode

        return DebugMode()  # type: ignore[no-any-return, no-untyped-call, unused-ignore]
    return contextlib.nullcontext()


def _measure(name: str, way: str) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    figures: dict[str, Any] = {"steps": 0, "observed": 0, "fast": 0}
    with tempfile.TemporaryDirectory() as folder:
        run: Any = None
        paths: list[Any] = []
        if way == "nodescope run":
            import os

            from nodescope.adapters.torch.native_tap import choosing, fast_path

            os.environ[choosing.VARIABLE] = "native"

            class FastPath(fast_path.StepFastPath):
                def __init__(self, *given: Any) -> None:
                    super().__init__(*given)
                    paths.append(self)

            import nodescope.adapters.torch.attachment as attachment

            attachment.StepFastPath = FastPath  # type: ignore[misc]
            run = Run(Path(folder) / "bench.nscope", debugger=True, say=lambda _: None,
                      **kept_by(None, None))  # fmt: skip
            run.start()
        start, cpu = time.perf_counter(), time.process_time()
        with _peer(way):
            _program(name)
        figures["trained"] = time.perf_counter() - start
        if run is not None:
            governed = run.recorder.policy.governed()
            figures["steps"] = governed.steps
            figures["observed"] = governed.steps - governed.steps_left_out
            figures["fast"] = paths[0].steps
            run.finish()
        figures["wall"] = time.perf_counter() - start
        figures["cpu"] = time.process_time() - cpu
    return figures


if __name__ == "__main__":
    print(json.dumps(_measure(*json.loads(sys.argv[1]))))
