"""Train a network in two pipeline stages, one per worker, on micro-batches of each batch.

    python samples/ray/pipeline.py [--steps N] [--parts N] [--alone]

While the second worker computes one part of a batch, the first computes the next; the backward pass
goes the other way. `--alone` runs the same graph in this process; the results are the same.
"""

from __future__ import annotations

import argparse

import numpy as np

import nodescope as ns
from nodescope import nn, optim

BATCH, WIDTH = 64, 96


class Stage(nn.Module):
    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator) -> None:
        self.inner = nn.Linear(inputs, WIDTH, rng=rng)
        self.outer = nn.Linear(WIDTH, outputs, rng=rng)

    def forward(self, x: ns.Tensor) -> ns.Tensor:
        return self.outer(np.tanh(self.inner(x)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30, help="training steps")
    parser.add_argument("--parts", type=int, default=4, help="micro-batches of each batch")
    parser.add_argument("--alone", action="store_true", help="run in this process, without Ray")
    options = parser.parse_args()

    rng = np.random.default_rng(3)
    stages = [Stage(8, WIDTH, rng), Stage(WIDTH, 1, rng)]
    optimizer = optim.Adam([p for stage in stages for p in stage.parameters()], lr=3e-3)
    executor = None if options.alone else ns.RayExecutor(timeout_s=120)

    @ns.compile(executor=executor)
    def step(batch: ns.Tensor, wanted: ns.Tensor) -> ns.Tensor:
        optimizer.zero_grad()
        size = len(batch) // options.parts
        losses = []
        for part in range(options.parts):
            part_rows = slice(part * size, (part + 1) * size)
            with ns.name_scope(f"part_{part}"):
                with ns.device("worker:0"), ns.name_scope("stage_0"):
                    features = np.tanh(stages[0](batch[part_rows]))
                with ns.device("worker:1"), ns.name_scope("stage_1"):
                    losses.append(ns.mse(stages[1](features), wanted[part_rows]))
        with ns.device("worker:1"):
            loss = sum(losses[1:], losses[0]) / options.parts
        loss.backward()
        optimizer.step()
        return loss

    for number in ns.steps(range(1, options.steps + 1)):
        batch = rng.standard_normal((BATCH, 8)).astype(np.float32)
        wanted = np.sin(batch).sum(axis=1, keepdims=True)
        loss = step(ns.tensor(batch, name="batch"), ns.tensor(wanted, name="wanted")).item()
        if number % 10 == 0:
            print(f"step {number:3d}  loss {loss:.6f}", flush=True)
    checksum = sum(float(np.abs(p.numpy()).sum()) for s in stages for p in s.parameters())
    print(f"weights {checksum:.10f}")


if __name__ == "__main__":
    main()
