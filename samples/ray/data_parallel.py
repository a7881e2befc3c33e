"""Train on the shards of each batch in parallel: one graph, one worker per shard.

    python samples/ray/data_parallel.py [--steps N] [--shards N] [--alone]

Each worker computes loss and gradients of its shard; the gradients are averaged, and the update
runs once. `--alone` runs the same graph in this process; the results are bit-identical.
"""

from __future__ import annotations

import argparse

import numpy as np

import nodescope as ns
from nodescope import nn, optim

BATCH = 64


class Classifier(nn.Module):
    def __init__(self, rng: np.random.Generator) -> None:
        self.hidden = nn.Linear(16, 64, rng=rng)
        self.output = nn.Linear(64, 4, rng=rng, init=nn.glorot)

    def forward(self, x: ns.Tensor) -> ns.Tensor:
        return self.output(np.tanh(self.hidden(x)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30, help="training steps")
    parser.add_argument("--shards", type=int, default=2, help="workers")
    parser.add_argument("--alone", action="store_true", help="run in this process, without Ray")
    options = parser.parse_args()

    rng = np.random.default_rng(5)
    model = Classifier(rng)
    optimizer = optim.Adam(model, lr=1e-2)
    executor = None if options.alone else ns.RayExecutor(timeout_s=120, restarts=1)

    @ns.compile(executor=executor)
    def step(batch: ns.Tensor, labels: ns.Tensor) -> ns.Tensor:
        optimizer.zero_grad()
        size = len(batch) // options.shards
        losses = []
        for shard in range(options.shards):
            shard_rows = slice(shard * size, (shard + 1) * size)
            with ns.device(f"worker:{shard}"), ns.name_scope(f"shard_{shard}"):
                losses.append(nn.cross_entropy(model(batch[shard_rows]), labels[shard_rows]))
        loss = sum(losses[1:], losses[0]) / options.shards  # a mean, so gradients are averaged
        loss.backward()
        optimizer.step()
        return loss

    centres = rng.standard_normal((4, 16))
    for number in ns.steps(range(1, options.steps + 1)):
        labels = rng.integers(0, 4, BATCH)
        batch = (centres[labels] + rng.standard_normal((BATCH, 16))).astype(np.float32)
        loss = step(ns.tensor(batch, name="batch"), ns.tensor(labels, name="labels")).item()
        if number % 10 == 0:
            print(f"step {number:3d}  loss {loss:.6f}", flush=True)
    checksum = sum(float(np.abs(p.numpy()).sum()) for p in model.parameters())
    print(f"weights {checksum:.10f}")


if __name__ == "__main__":
    main()
