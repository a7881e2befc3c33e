"""The cost of observing training steps on a GPU, by level and tap, and of PyTorch's profiler.

Needs a CUDA device, and transformers and torchvision for some of the models.

``python -m bench.torch_cuda [FILE]`` prints a table, and writes it as JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import nodescope as ns
from nodescope.adapters.torch.native_tap import choosing

STEPS, FIRST = 16, 6
LEVELS = ("graph", "timing", "summary", "values")


def _stepped(model: nn.Module, loss: Callable[[], Any]) -> Callable[[], None]:
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def _gpt(batch: int, length: int, **sizes: int) -> Callable[[], None]:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(**sizes)).cuda()
    words = torch.randint(0, 1000, (batch, length), device="cuda")

    def loss() -> Any:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return model(words, labels=words).loss

    return _stepped(model, loss)


def _gpt2_small() -> Callable[[], None]:
    return _gpt(16, 1024)


def _gpt2_small_short() -> Callable[[], None]:
    return _gpt(4, 128)


def _gpt2_tiny() -> Callable[[], None]:
    return _gpt(8, 64, n_layer=2, n_embd=128, n_head=4, vocab_size=1000)


def _resnet() -> Callable[[], None]:
    from torchvision.models import resnet18

    model = resnet18().cuda()
    x = torch.randn(256, 3, 224, 224, device="cuda")
    y = torch.randint(0, 1000, (256,), device="cuda")

    def loss() -> Any:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return F.cross_entropy(model(x), y)

    return _stepped(model, loss)


def _mlp() -> Callable[[], None]:
    layers = [part for _ in range(8) for part in (nn.Linear(512, 512), nn.ReLU())]
    model = nn.Sequential(*layers).cuda()
    x = torch.randn(64, 512, device="cuda")
    return _stepped(model, lambda: model(x).square().mean())


MODELS = {
    "gpt2 small 16x1024": _gpt2_small, "gpt2 small 4x128": _gpt2_small_short,
    "gpt2 tiny 8x64": _gpt2_tiny, "resnet18 256": _resnet, "mlp 8x512": _mlp,
}  # fmt: skip


def _measured(step: Callable[[], None]) -> float:
    """The mean time of a step after the first ones, in milliseconds, until the device is done."""
    for _ in range(FIRST):
        step()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(STEPS - FIRST):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / (STEPS - FIRST) * 1e3


def _observed(step: Callable[[], None], tap: str, level: str) -> tuple[float, int]:
    os.environ[choosing.VARIABLE] = tap
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.nscope"
        with ns.record(path, level=level):
            took = _measured(step)
        return took, path.stat().st_size


def _profiled(step: Callable[[], None], *, stacks: bool) -> float:
    from torch.profiler import ProfilerActivity

    kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds, with_stack=stacks, record_shapes=stacks):
        return _measured(step)


def main(file: str = "") -> None:
    """Measure all, and print the table."""
    rows: dict[str, dict[str, Any]] = {}
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}", flush=True)
    for name, make in MODELS.items():
        step = make()
        row = rows[name] = {}
        plain = [_measured(step) for _ in range(3)]
        row["plain ms"] = round(statistics.median(plain), 3)
        for tap in ("native", "python"):
            for level in LEVELS:
                if level == "values" and name.startswith("gpt2 small 16"):
                    continue  # gigabytes a step
                took, size = _observed(step, tap, level)
                row[f"{tap} {level}"] = round(took / row["plain ms"], 2)
                row[f"{tap} {level} MB"] = round(size / 1e6, 1)
        row["profiler"] = round(_profiled(step, stacks=False) / row["plain ms"], 2)
        row["profiler, stacks"] = round(_profiled(step, stacks=True) / row["plain ms"], 2)
        row["plain ms again"] = round(_measured(step), 3)
        print(name, json.dumps(row), flush=True)
        del step
        torch.cuda.empty_cache()
    if file:
        Path(file).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
