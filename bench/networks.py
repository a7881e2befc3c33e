"""Whole training steps of small networks beside PyTorch's eager mode.

A LeNet-like CNN on 32 images of 28 x 28 with SGD, and one pre-norm transformer block (width 256,
4 heads, 4 sequences of 128) with all its gradients. Each thread count is measured in a process of
its own, because NumPy's BLAS reads it when it is loaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import nodescope as ns
from bench.measure import Row, median_ns, paired, ratio
from nodescope import nn

F = nn.functional
THREADS = (1, 2)
BATCH = 32
KERNELS = [(6, 1, 5, 5), (6,), (16, 6, 5, 5), (16,)]
DENSE = [(400, 120), (120,), (120, 84), (84,), (84, 10), (10,)]
WIDTH, HEADS, LENGTH, SEQUENCES = 256, 4, 128, 4
LIMITS = {"CNN": (1.4, 1.1), "transformer": (1.2, 0.95)}
NAMES = {
    "CNN": "CNN step, eager, {} thread{}",
    "transformer": "transformer block step, eager, {} thread{}",
}
VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def rows() -> Iterator[Row]:
    for threads in THREADS:
        if threads > (os.cpu_count() or 1):
            continue
        found = subprocess.run(
            [sys.executable, "-m", "bench.networks", str(threads)],
            cwd=Path(__file__).resolve().parents[1],
            env={**os.environ, **dict.fromkeys(VARIABLES, str(threads))},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        for what, figure, detail in json.loads(found.stdout):
            must, aim = LIMITS[what]
            name = NAMES[what].format(threads, "" if threads == 1 else "s")
            yield Row(name, "torch", figure, must=must, aim=aim, detail=detail)


def measured(threads: int) -> Iterator[tuple[str, float, str]]:
    """Both steps in this process: what, ratio, detail."""
    try:
        import torch
    except ImportError:
        print("  torch is not installed: its rows are left out", file=sys.stderr)
        return
    torch.set_num_threads(threads)
    for what, make in (("CNN", cnn), ("transformer", transformer)):
        ours, theirs = make(torch)
        _agree(what, ours(), theirs())
        times = paired({"nodescope": ours, "torch": theirs}, rounds=25, budget_s=0.05)
        detail = ", ".join(f"{name} {median_ns(times, name) / 1e6:.2f} ms" for name in times)
        yield what, ratio(times, "nodescope", "torch"), detail


def _agree(what: str, ours: Any, theirs: Any) -> None:
    """Loss and gradients are equal within float32's rounding, or there is nothing to compare."""
    for mine, peer in zip(ours, theirs, strict=True):
        expected = peer.detach().numpy()
        scale = float(np.abs(expected).max())
        np.testing.assert_allclose(mine.numpy(), expected, atol=1e-4 * scale, err_msg=what)


def cnn(torch: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A step of the CNN in both frameworks; each gives loss and gradients."""
    rng = np.random.default_rng(2)
    weights = [
        (rng.standard_normal(s) * (2 / np.prod(s[1:] if len(s) == 4 else s[:1])) ** 0.5
         if len(s) > 1 else rng.standard_normal(s) * 0.05).astype(np.float32)
        for s in KERNELS + DENSE
    ]  # fmt: skip
    images = rng.standard_normal((BATCH, 1, 28, 28)).astype(np.float32)
    labels = np.eye(10, dtype=np.float32)[rng.integers(0, 10, BATCH)]

    mine = [ns.parameter(w, name=f"p{i}") for i, w in enumerate(weights)]
    descent = ns.optim.SGD(mine, lr=0.01)
    x, y = ns.tensor(images), ns.tensor(labels)

    def ours() -> Any:
        k1, c1, k2, c2, w1, b1, w2, b2, w3, b3 = mine
        descent.zero_grad()
        h = F.max_pool2d(F.relu(F.conv2d(x, k1, c1, padding=2)), 2)
        h = F.flatten(F.max_pool2d(F.relu(F.conv2d(h, k2, c2)), 2), 1)
        h = F.relu(F.relu(h @ w1 + b1) @ w2 + b2)
        loss = -(F.log_softmax(h @ w3 + b3, 1) * y).sum() / BATCH
        loss.backward()
        descent.step()
        return [loss, *(p.grad for p in mine)]

    peers = [torch.tensor(w, requires_grad=True) for w in weights]
    sgd = torch.optim.SGD(peers, lr=0.01)
    tx, ty, T = torch.tensor(images), torch.tensor(labels), torch.nn.functional

    def theirs() -> Any:
        k1, c1, k2, c2, w1, b1, w2, b2, w3, b3 = peers
        sgd.zero_grad()
        h = T.max_pool2d(T.relu(T.conv2d(tx, k1, c1, padding=2)), 2)
        h = T.max_pool2d(T.relu(T.conv2d(h, k2, c2)), 2).flatten(1)
        h = T.relu(torch.addmm(b2, T.relu(torch.addmm(b1, h, w1)), w2))
        loss = -(T.log_softmax(torch.addmm(b3, h, w3), 1) * ty).sum() / BATCH
        loss.backward()
        sgd.step()
        return [loss, *(p.grad for p in peers)]

    return ours, theirs


def transformer(torch: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Forward and backward of a block in both frameworks; each gives loss and gradients."""
    rng = np.random.default_rng(3)
    d, each = WIDTH, WIDTH // HEADS

    def w(*shape: int) -> Any:
        return (rng.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32)

    def v(n: int) -> Any:
        return (rng.standard_normal(n) * 0.1).astype(np.float32)

    weights = [1 + v(d), v(d), w(d, 3 * d), v(3 * d), w(d, d), v(d),
               1 + v(d), v(d), w(d, 4 * d), v(4 * d), w(4 * d, d), v(d)]  # fmt: skip
    data = [rng.standard_normal((SEQUENCES, LENGTH, d)).astype(np.float32) for _ in range(2)]
    split = (SEQUENCES, LENGTH, 3, HEADS, each)

    mine = [ns.parameter(p, name=f"p{i}") for i, p in enumerate(weights)]
    x, r = map(ns.tensor, data)

    def ours() -> Any:
        g1, e1, wq, bq, wo, bo, g2, e2, w1, b1, w2, b2 = mine
        for p in mine:
            p.grad = None
        qkv = (F.layer_norm(x, d, g1, e1) @ wq + bq).reshape(split).transpose(2, 0, 3, 1, 4)
        o = nn.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
        h = x + (o.transpose(0, 2, 1, 3).reshape(SEQUENCES, LENGTH, d) @ wo + bo)
        inner = F.gelu(F.layer_norm(h, d, g2, e2) @ w1 + b1, "tanh")
        loss = ((h + (inner @ w2 + b2)) * r).mean()
        loss.backward()
        return [loss, *(p.grad for p in mine)]

    peers = [torch.tensor(p, requires_grad=True) for p in weights]
    (tx, tr), T = map(torch.tensor, data), torch.nn.functional

    def theirs() -> Any:
        g1, e1, wq, bq, wo, bo, g2, e2, w1, b1, w2, b2 = peers
        for p in peers:
            p.grad = None
        qkv = (T.layer_norm(tx, (d,), g1, e1) @ wq + bq).view(split).permute(2, 0, 3, 1, 4)
        o = T.scaled_dot_product_attention(*qkv)
        h = tx + (o.transpose(1, 2).reshape(SEQUENCES, LENGTH, d) @ wo + bo)
        inner = T.gelu(T.layer_norm(h, (d,), g2, e2) @ w1 + b1, approximate="tanh")
        loss = ((h + (inner @ w2 + b2)) * tr).mean()
        loss.backward()
        return [loss, *(p.grad for p in peers)]

    return ours, theirs


if __name__ == "__main__":
    print(json.dumps(list(measured(int(sys.argv[1])))))
