"""A pre-norm transformer block, forward and backward: width 256, 4 heads, 4 sequences of 128.

Invariant: the feed-forward part uses the tanh form of gelu, in every library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.programs import training
from bench.programs.case import NUMPY, TORCH, Array, C, Case, Limit
from nodescope import nn

F = nn.functional
LIMITS = {NUMPY: Limit(TORCH, 1.2, 0.95), C: Limit(TORCH, 1.2, 0.95)}
EPS = 1e-5
SLOPE, CUBE = (2 / np.pi) ** 0.5, 0.044715  # of gelu


def cases() -> tuple[Case, ...]:
    return (case(),)


def tiny() -> Case:
    return case(8, 2, 5, 3)


def case(width: int = 256, heads: int = 4, length: int = 128, sequences: int = 4) -> Case:
    """Loss and gradients of all twelve parameters."""
    rng = np.random.default_rng(3)
    d = width

    def w(*shape: int) -> Array:
        return (rng.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32)

    def v(n: int, about: float = 0.0) -> Array:
        return (about + rng.standard_normal(n) * 0.1).astype(np.float32)

    parameters = [v(d, 1), v(d), w(d, 3 * d), v(3 * d), w(d, d), v(d),
                  v(d, 1), v(d), w(d, 4 * d), v(4 * d), w(4 * d, d), v(d)]  # fmt: skip
    inputs = [rng.standard_normal((sequences, length, d)).astype(np.float32) for _ in range(2)]
    block = Block(width, heads, length, sequences)
    losses = training.Losses(block.by_hand, block.ours, block.torch, block.jax)
    return training.case("transformer block step", losses, parameters, inputs, LIMITS)


@dataclass(frozen=True)
class Block:
    """The block in each library; x and r are (sequences, length, width); the loss is mean(y r)."""

    width: int
    heads: int
    length: int
    sequences: int

    @property
    def split(self) -> tuple[int, ...]:
        return (self.sequences, self.length, 3, self.heads, self.width // self.heads)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.sequences, self.length, self.width)

    def by_hand(
        self, parameters: Sequence[Array], inputs: Sequence[Array]
    ) -> tuple[Any, list[Array]]:
        g1, e1, wq, bq, wo, bo, g2, e2, w1, b1, w2, b2 = parameters
        f = inputs[0].dtype.type
        d, scale = self.width, f((self.width // self.heads) ** -0.5)
        x, r = (array.reshape(-1, d) for array in inputs)
        split = self.split
        l1, n1, _ = _normed(x, g1, e1)
        q, k, v = (l1 @ wq + bq).reshape(split).transpose(2, 0, 3, 1, 4)
        a = (q @ k.swapaxes(-1, -2)) * scale
        a = np.exp(a - a.max(axis=-1, keepdims=True))
        a /= a.sum(axis=-1, keepdims=True)
        o = (a @ v).transpose(0, 2, 1, 3).reshape(-1, d)
        h = x + (o @ wo + bo)
        l2, n2, s2 = _normed(h, g2, e2)
        u = l2 @ w1 + b1
        t = np.tanh(f(SLOPE) * (u + f(CUBE) * (u * u * u)))
        inner = f(0.5) * u * (f(1) + t)
        y = h + (inner @ w2 + b2)
        loss = (y * r).sum() / y.size
        dy = r / f(y.size)
        steep = f(SLOPE) * (f(1) + f(3 * CUBE) * (u * u))
        du = (dy @ w2.T) * (f(0.5) * (f(1) + t) + f(0.5) * u * (f(1) - t * t) * steep)
        dl2 = du @ w1.T
        dh = dy + _normed_back(dl2, n2, s2, g2)
        do = (dh @ wo.T).reshape(split[:2] + split[3:]).transpose(0, 2, 1, 3)
        da = do @ v.swapaxes(-1, -2)
        ds = a * (da - (da * a).sum(axis=-1, keepdims=True)) * scale
        three = np.stack([ds @ k, ds.swapaxes(-1, -2) @ q, a.swapaxes(-1, -2) @ do])
        dqkv = three.transpose(1, 3, 0, 2, 4).reshape(-1, 3 * d)
        dl1 = dqkv @ wq.T
        return loss, [
            (dl1 * n1).sum(0), dl1.sum(0), l1.T @ dqkv, dqkv.sum(0), o.T @ dh, dh.sum(0),
            (dl2 * n2).sum(0), dl2.sum(0), l2.T @ du, du.sum(0), inner.T @ dy, dy.sum(0),
        ]  # fmt: skip

    def ours(self, parameters: Any, x: Any, r: Any) -> Any:
        g1, e1, wq, bq, wo, bo, g2, e2, w1, b1, w2, b2 = parameters
        d = self.width
        qkv = (F.layer_norm(x, d, g1, e1) @ wq + bq).reshape(self.split).transpose(2, 0, 3, 1, 4)
        o = nn.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
        h = x + (o.transpose(0, 2, 1, 3).reshape(self.shape) @ wo + bo)
        inner = F.gelu(F.layer_norm(h, d, g2, e2) @ w1 + b1, "tanh")
        return ((h + (inner @ w2 + b2)) * r).mean()

    def torch(self, torch: Any, parameters: Any, x: Any, r: Any) -> Any:
        g1, e1, wq, bq, wo, bo, g2, e2, w1, b1, w2, b2 = parameters
        T, d = torch.nn.functional, (self.width,)
        qkv = (T.layer_norm(x, d, g1, e1) @ wq + bq).view(self.split).permute(2, 0, 3, 1, 4)
        o = T.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
        h = x + (o.transpose(1, 2).reshape(self.shape) @ wo + bo)
        inner = T.gelu(T.layer_norm(h, d, g2, e2) @ w1 + b1, approximate="tanh")
        return ((h + (inner @ w2 + b2)) * r).mean()

    def jax(self, jax: Any, parameters: Any, x: Any, r: Any) -> Any:
        g1, e1, wq, bq, wo, bo, g2, e2, w1, b1, w2, b2 = parameters

        def norm(x: Any, gain: Any, shift: Any) -> Any:
            return jax.nn.standardize(x, axis=-1, epsilon=EPS) * gain + shift

        q, k, v = (norm(x, g1, e1) @ wq + bq).reshape(self.split).transpose(2, 0, 3, 1, 4)
        weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5, axis=-1)
        h = x + ((weights @ v).transpose(0, 2, 1, 3).reshape(self.shape) @ wo + bo)
        inner = jax.nn.gelu(norm(h, g2, e2) @ w1 + b1, approximate=True)
        return ((h + (inner @ w2 + b2)) * r).mean()


def _normed(x: Array, gain: Array, shift: Array) -> tuple[Array, Array, Array]:
    """Layer norm of the rows: the result, the rows without gain and shift, and their scales."""
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    scale = x.dtype.type(1) / np.sqrt(variance + x.dtype.type(EPS))
    plain = centred * scale
    return plain * gain + shift, plain, scale


def _normed_back(slope: Array, plain: Array, scale: Array, gain: Array) -> Array:
    inner = slope * gain
    along = (inner * plain).mean(axis=1, keepdims=True)
    return scale * (inner - inner.mean(axis=1, keepdims=True) - plain * along)
