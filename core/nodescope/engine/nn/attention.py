"""Attention, as a function and as layers.

Invariant: the intermediate values of interest are separate nodes in the scope ``attention``:
scores, mask, softmax, weighted values. A query whose every key is masked gets zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.emit.scopes import name_scope
from nodescope.engine.functions import gelu, softmax, tensor_of
from nodescope.engine.nn import functional as F
from nodescope.engine.nn.init import Init, glorot
from nodescope.engine.nn.linear import Dropout, Linear
from nodescope.engine.nn.module import Module
from nodescope.engine.nn.normalization import LayerNorm
from nodescope.engine.random import Generator
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import DtypeError, ShapeError


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    rng: Any = None,
) -> Tensor:
    """``softmax(query @ keyᵀ * scale) @ value`` (Vaswani et al., 2017).

    Args:
        query: (..., L, d).
        key: (..., S, d).
        value: (..., S, e).
        mask: Broadcasts to (..., L, S): booleans that say which keys a query sees, or numbers that
            are added to the scores, -inf for keys that it does not see.
        causal: Whether each query sees only keys up to its own position, counted from the start.
        scale: Factor of the scores; 1 / sqrt(d) if None.
        dropout_p: Fraction of the weights that is dropped; needs ``rng``.
        rng: A `nodescope.random.Generator` or a key.

    Returns:
        (..., L, e). A query that sees no key gets zeros, and no gradient flows through it; PyTorch
        gives NaN there.

    Raises:
        ShapeError: The shapes do not fit together.
    """
    query, key, value = tensor_of(query), tensor_of(key), tensor_of(value)
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ShapeError("attention: query, key and value need (..., positions, features)",
                         source=where())  # fmt: skip
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"attention: query {query.shape}, key {key.shape} and value {value.shape} do not fit",
            source=where(),
            hint="query and key share the last size, key and value the one before",
        )
    with name_scope("attention"):
        factor = 1.0 / math.sqrt(max(query.shape[-1], 1)) if scale is None else float(scale)
        # Scale the query, because it is smaller than the scores.
        scores = (query * factor) @ np.swapaxes(key, -1, -2)
        keep = None
        if mask is not None:
            scores, keep = _masked(scores, tensor_of(mask))
        if causal:
            earlier = np.tril(np.ones(scores.shape[-2:], bool))
            scores = np.where(earlier, scores, _lowest(scores))
        weights = softmax(scores, -1)
        if keep is not None:
            if causal:
                keep = np.logical_and(keep, earlier)
            weights = np.where(keep, weights, 0.0)  # type: ignore[assignment]
        if dropout_p:
            weights = F.dropout(weights, dropout_p, rng=rng)
        return weights @ value  # type: ignore[no-any-return]


def _lowest(scores: Tensor) -> float:
    """A number so low that its exponential is 0 beside any score, yet finite, so that a row of them
    is not NaN.
    """
    return -1e38 if scores.dtype.name == "bfloat16" else float(np.finfo(scores.dtype).min) / 2


def _masked(scores: Tensor, mask: Tensor) -> tuple[Any, Any]:
    try:
        fits = np.broadcast_shapes(mask.shape, scores.shape) == scores.shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"attention: a mask of shape {mask.shape} for scores of shape {scores.shape}",
            source=where(),
            hint="the mask is (..., queries, keys)",
        )
    if mask.dtype.kind == "b":
        return np.where(mask, scores, _lowest(scores)), mask
    if mask.dtype.kind not in "fV":
        raise DtypeError(
            f"attention: a mask of {mask.dtype}",
            source=where(),
            hint="convert it with .astype(bool)",
        )
    keep = np.not_equal(mask, -np.inf)
    added = np.where(keep, mask, _lowest(scores))
    return scores + added.astype(scores.dtype), keep


class MultiHeadAttention(Module):
    """Attention in several heads, with projections before and after.

    Args:
        size: Number of features; divisible by ``heads``.
        heads: Number of heads.
        rng: Generator of the initial weights.
        bias: Whether the projections have a bias.
        dropout: Fraction of the attention weights that is dropped while training.
        init: Initializer of the weights.
        dtype: Floating-point dtype of the parameters.
    """

    def __init__(
        self,
        size: int,
        heads: int,
        *,
        rng: np.random.Generator,
        bias: bool = True,
        dropout: float = 0.0,
        init: Init = glorot,
        dtype: Any = np.float32,
    ) -> None:
        if heads < 1 or size % heads:
            raise ShapeError(
                f"MultiHeadAttention: {size} features are not divisible by {heads} heads",
                source=where(),
            )
        self.heads = heads
        self.dropout = float(dropout)
        self.rng = Generator(int(rng.integers(2**63))) if dropout else None
        self.query, self.key, self.value, self.output = (
            Linear(size, size, rng=rng, bias=bias, init=init, dtype=dtype) for _ in range(4)
        )

    def forward(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        *,
        mask: Any = None,
        causal: bool = False,
    ) -> Tensor:
        """Map a query (N, L, size), with keys and values (N, S, size), to (N, L, size).

        ``key`` defaults to the query, ``value`` to the keys. ``mask`` broadcasts to (N, heads, L,
        S).
        """
        key = query if key is None else key
        value = key if value is None else value
        q, k, v = (
            self._split(tensor) for tensor in (self.query(query), self.key(key), self.value(value))
        )
        p = self.dropout if self.training else 0.0
        attended = scaled_dot_product_attention(
            q, k, v, mask, causal=causal, dropout_p=p, rng=self.rng
        )
        n, _, length, size = attended.shape
        joined: Tensor = self.output(
            attended.transpose(0, 2, 1, 3).reshape(n, length, self.heads * size)
        )
        return joined

    def _split(self, x: Tensor) -> Tensor:
        """(N, L, size) to (N, heads, L, size / heads)."""
        n, length, size = x.shape
        return x.reshape(n, length, self.heads, size // self.heads).transpose(0, 2, 1, 3)


class TransformerBlock(Module):
    """Attention and a two-layer network, each with a norm before it and a residual connection.

    Args:
        size: Number of features.
        heads: Number of attention heads.
        rng: Generator of the initial weights.
        hidden: Size of the inner layer; four times ``size`` if None.
        dropout: Fraction dropped while training, from the attention weights and from both results.
        causal: Whether positions see only earlier ones.
        activation: Activation of the inner layer.
        dtype: Floating-point dtype of the parameters.
    """

    def __init__(
        self,
        size: int,
        heads: int,
        *,
        rng: np.random.Generator,
        hidden: int | None = None,
        dropout: float = 0.0,
        causal: bool = False,
        activation: Callable[[Any], Any] = gelu,
        dtype: Any = np.float32,
    ) -> None:
        inner = 4 * size if hidden is None else hidden
        self.causal = causal
        self.activation = activation
        self.norm_1 = LayerNorm(size, dtype=dtype)
        self.attention = MultiHeadAttention(size, heads, rng=rng, dropout=dropout, dtype=dtype)
        self.norm_2 = LayerNorm(size, dtype=dtype)
        self.inner = Linear(size, inner, rng=rng, init=glorot, dtype=dtype)
        self.outer = Linear(inner, size, rng=rng, init=glorot, dtype=dtype)
        self.drop = Dropout(dropout, rng=rng) if dropout else None

    def forward(self, x: Any, *, mask: Any = None) -> Tensor:
        """(N, L, size) to the same shape."""
        x = tensor_of(x)
        attended = self.attention(self.norm_1(x), mask=mask, causal=self.causal)
        x = x + (attended if self.drop is None else self.drop(attended))
        inner = self.outer(self.activation(self.inner(self.norm_2(x))))
        result: Tensor = x + (inner if self.drop is None else self.drop(inner))
        return result
