"""A step of a LeNet-like CNN on 32 images of 28 x 28: loss, gradients, SGD.

In hand-written NumPy, convolutions are matrix products of patches, with channels last; torch and
jax use their own convolution.

Invariant: the loss is the mean cross entropy with one-hot labels, in every library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.programs import training
from bench.programs.case import NUMPY, TORCH, Array, C, Case, Limit
from nodescope import nn

F = nn.functional
KERNELS = [(6, 1, 5, 5), (6,), (16, 6, 5, 5), (16,)]
DENSE = [(400, 120), (120,), (120, 84), (84,), (84, 10), (10,)]
SIDE, PADDING = 28, 2
LIMITS = {NUMPY: Limit(TORCH, 1.4, 1.1), C: Limit(TORCH, 1.4, 1.1)}
RATE = 0.01


def cases() -> tuple[Case, ...]:
    return (case(32),)


def tiny() -> Case:
    return case(2)


def case(batch: int) -> Case:
    """One step on ``batch`` images, always the same ones."""
    rng = np.random.default_rng(2)
    parameters = []
    for shape in KERNELS + DENSE:
        fan = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
        scale = 0.05 if len(shape) == 1 else (2 / fan) ** 0.5
        parameters.append((rng.standard_normal(shape) * scale).astype(np.float32))
    images = rng.standard_normal((batch, 1, SIDE, SIDE)).astype(np.float32)
    labels = np.eye(10, dtype=np.float32)[rng.integers(0, 10, batch)]
    losses = training.Losses(by_hand, ours, torch_loss, jax_loss)
    return training.case(
        f"CNN step B{batch}", losses, parameters, [images, labels], LIMITS, rate=RATE
    )


def _columns(images: Array, k: int) -> Array:
    """The k x k patches of (n, h, w, c) as rows: (n, h - k + 1, w - k + 1, c k k)."""
    seen = np.lib.stride_tricks.sliding_window_view(images, (k, k), axis=(1, 2))
    return np.ascontiguousarray(seen).reshape(*seen.shape[:3], -1)


def _pooled(a: Array) -> Array:
    rows = np.maximum(a[:, ::2], a[:, 1::2])
    return np.maximum(rows[:, :, ::2], rows[:, :, 1::2])


def _unpooled(a: Array, largest: Array, slope: Array) -> Array:
    """The gradient (n, h, w, c) before ReLU and pooling, nonzero at positive largest elements."""
    gradient = np.empty_like(a)
    for i in range(2):
        for j in range(2):
            part = a[:, i::2, j::2]
            gradient[:, i::2, j::2] = slope * ((part == largest) & (part > 0))
    return gradient


def by_hand(parameters: Sequence[Array], inputs: Sequence[Array]) -> tuple[Any, list[Array]]:
    k1, c1, k2, c2, w1, b1, w2, b2, w3, b3 = parameters
    images, labels = inputs
    n = len(images)
    flat1, flat2 = k1.reshape(6, -1), k2.reshape(16, -1)
    around = ((0, 0), (PADDING, PADDING), (PADDING, PADDING), (0, 0))
    cols1 = _columns(np.pad(images.transpose(0, 2, 3, 1), around), 5)
    a1 = np.maximum(cols1 @ flat1.T + c1, 0)
    p1 = _pooled(a1)
    cols2 = _columns(p1, 5)
    a2 = np.maximum(cols2 @ flat2.T + c2, 0)
    p2 = _pooled(a2)
    h0 = p2.transpose(0, 3, 1, 2).reshape(n, -1)
    h1 = np.maximum(h0 @ w1 + b1, 0)
    h2 = np.maximum(h1 @ w2 + b2, 0)
    z = h2 @ w3 + b3
    z -= z.max(axis=1, keepdims=True)
    e = np.exp(z)
    total = e.sum(axis=1, keepdims=True)
    loss = (np.log(total).sum() - (z * labels).sum()) / n
    dz = (e / total - labels) / images.dtype.type(n)
    d2 = (dz @ w3.T) * (h2 > 0)
    d1 = (d2 @ w2.T) * (h1 > 0)
    back = (d1 @ w1.T).reshape(n, 16, *p2.shape[1:3]).transpose(0, 2, 3, 1)
    da2 = _unpooled(a2, p2, back).reshape(-1, 16)
    high, wide = a2.shape[1:3]
    patches = (da2 @ flat2).reshape(n, high, wide, 6, 5, 5)
    dp1 = np.zeros_like(p1)
    for i in range(5):
        for j in range(5):
            dp1[:, i : i + high, j : j + wide] += patches[..., i, j]
    da1 = _unpooled(a1, p1, dp1).reshape(-1, 6)
    return loss, [
        (da1.T @ cols1.reshape(len(da1), -1)).reshape(k1.shape), da1.sum(0),
        (da2.T @ cols2.reshape(len(da2), -1)).reshape(k2.shape), da2.sum(0),
        h0.T @ d1, d1.sum(0), h1.T @ d2, d2.sum(0), h2.T @ dz, dz.sum(0),
    ]  # fmt: skip


def ours(parameters: Any, images: Any, labels: Any) -> Any:
    k1, c1, k2, c2, w1, b1, w2, b2, w3, b3 = parameters
    h = F.max_pool2d(F.relu(F.conv2d(images, k1, c1, padding=PADDING)), 2)
    h = F.flatten(F.max_pool2d(F.relu(F.conv2d(h, k2, c2)), 2), 1)
    h = F.relu(F.relu(h @ w1 + b1) @ w2 + b2)
    return -(F.log_softmax(h @ w3 + b3, 1) * labels).sum() / len(images)


def torch_loss(torch: Any, parameters: Any, images: Any, labels: Any) -> Any:
    k1, c1, k2, c2, w1, b1, w2, b2, w3, b3 = parameters
    T = torch.nn.functional
    h = T.max_pool2d(T.relu(T.conv2d(images, k1, c1, padding=PADDING)), 2)
    h = T.max_pool2d(T.relu(T.conv2d(h, k2, c2)), 2).flatten(1)
    h = T.relu(torch.addmm(b2, T.relu(torch.addmm(b1, h, w1)), w2))
    return -(T.log_softmax(torch.addmm(b3, h, w3), 1) * labels).sum() / len(images)


def jax_loss(jax: Any, parameters: Any, images: Any, labels: Any) -> Any:
    k1, c1, k2, c2, w1, b1, w2, b2, w3, b3 = parameters

    def layer(x: Any, kernel: Any, bias: Any, padding: int) -> Any:
        x = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), [(padding, padding)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW")
        )
        x = jax.nn.relu(x + bias[:, None, None])
        n, c, h, w = x.shape
        return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))

    h = layer(layer(images, k1, c1, PADDING), k2, c2, 0).reshape(len(images), -1)
    h = jax.nn.relu(jax.nn.relu(h @ w1 + b1) @ w2 + b2)
    return -(jax.nn.log_softmax(h @ w3 + b3) * labels).sum() / len(images)
