"""Programs for back ends: functions of arrays, with arrays to run them on.

Invariant: programs are small enough to run dozens of times, except those meant to be large.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn

F = nn.functional

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def normal(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _mlp(x: Any, labels: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    def loss(w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        return ns.cross_entropy(ns.relu(x @ w1 + b1) @ w2 + b2, labels)

    value, slopes = ns.value_and_grad(loss, argnums=(0, 1, 2, 3))(w1, b1, w2, b2)
    return (value, *(p - 0.1 * g for p, g in zip((w1, b1, w2, b2), slopes, strict=True)))


def _attention(x: Any, w: Any) -> Any:
    q, k, v = (np.transpose((x @ w).reshape(2, 5, 2, 4), (0, 2, 1, 3)) * c for c in (0.5, 1.0, 2.0))
    weights = ns.softmax(q @ np.swapaxes(k, -1, -2), axis=-1)
    return np.transpose(weights @ v, (0, 2, 1, 3)).reshape(2, 5, 8)


def _lstm(x: Any, w: Any, u: Any, b: Any) -> Any:
    def loss(w: Any, u: Any, b: Any) -> Any:
        def cell(carry: Any, row: Any) -> Any:
            h, c = carry
            i, f, o, g = np.split(row @ w + b + h @ u, 4, axis=1)
            c = ns.sigmoid(f) * c + ns.sigmoid(i) * np.tanh(g)
            return (ns.sigmoid(o) * np.tanh(c), c), None

        start = x[0, :, :3] * 0.0
        (h, _), _ = ns.scan(cell, (start, start), x)
        return (h * h).mean()

    value, slopes = ns.value_and_grad(loss, argnums=(0, 1, 2))(w, u, b)
    return (value, *slopes)


def _scan(body: Callable[..., Any], *, reverse: bool = False) -> Callable[..., Any]:
    def program(start: Any, rows: Any, w: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            return body(carry, row, w)

        last, stacked = ns.scan(step, start, rows, reverse=reverse)
        return (*(last if isinstance(last, tuple) else (last,)),
                *(stacked if isinstance(stacked, tuple) else (stacked,)))  # fmt: skip

    return program


def _shifted(start: Any, rows: Any, w: Any) -> Any:
    """Carries that hand each other on: what was in turn written is still read."""

    def step(carry: Any, row: Any) -> Any:
        a, b, c = carry
        return (np.tanh(a @ w + row), a, b), a + b + c

    last, stacked = ns.scan(step, (start, start, start), rows)
    return (*last, stacked)


def _nested(start: Any, rows: Any, w: Any) -> Any:
    def outer(carry: Any, row: Any) -> Any:
        def inner(c: Any, r: Any) -> Any:
            c = c * 0.5 + r
            return c, c.sum()

        last, sums = ns.scan(inner, carry @ w, ns.stack([row, row * 2.0, row * 3.0]))
        return np.tanh(last), sums

    return ns.scan(outer, start, rows)


def _branch(x: Any, w: Any) -> Any:
    # The branches return arrays of different layouts.
    y = ns.cond(x.sum() > 0, lambda: x.T @ w, lambda: (w.T * 2.0).T)
    return (y * 2.0).sum(axis=0), np.tanh(y) @ w


def _loop(x: Any) -> Any:
    return ns.while_loop(lambda c: np.sum(c) < 50.0, lambda c: c * 2.0, np.exp(x)) + 1.0


H, ROWS, W = normal(4, 3), normal(6, 4, 3, seed=1), normal(3, 3, seed=2)

PROGRAMS: dict[str, Program] = {
    "arithmetic": (
        lambda x, y: ((x + y) * 2.0 - x / (y * y + 1.0), np.maximum(x, 0.0) * y),
        (normal(5, 7), normal(5, 7, seed=1)),
    ),
    "broadcasting": (
        lambda x, row, column, first: np.tanh(x * row + column) * first - column,
        (normal(5, 7), normal(7, seed=1), normal(5, 1, seed=2), normal(1, 1, seed=3)),
    ),
    "nothing": (lambda x: ((x * 2.0).sum(axis=0), np.exp(x) + 1.0), (normal(0, 3),)),
    "scalars": (lambda x, y: (np.tanh(x * y) + 1.0, x - 2.0), (normal(), normal(seed=1))),
    "views": (
        lambda x: (x.T, (x * 2.0).T[1:], (x + 1.0).reshape(2, 10)[:, ::-1] * 3.0, x.T @ x),
        (normal(4, 5),),
    ),
    "an input is a result": (lambda x, y: (x, x * y, y.T), (normal(3, 3), normal(3, 3, seed=1))),
    "a result twice": (lambda x: ((y := x * 2.0), y, y.T, y + 1.0), (normal(3, 4),)),
    "reductions": (
        lambda x: (x.sum(), x.mean(axis=1), x.max(axis=0, keepdims=True), (x * x).mean(),
                   x.min(), (x > 0).any(axis=0), (x > 0).all(), x.var(axis=0), x.prod(axis=1)),
        (normal(6, 9),),
    ),
    "reductions of what is turned": (
        lambda x: ((x.T * 2.0).sum(axis=0), np.tanh(x.T).mean(axis=(0, 1)), x.T.max(axis=1)),
        (normal(37, 19),),
    ),
    "products": (
        lambda a, b, s: (a @ b, b @ a, a @ a.T, a.T @ a, (a @ b).T @ a, s @ b, a[:1] @ b,
                         a @ b[:, :1], a[:, ::2] @ b[::2], np.matmul(s, s), (a * 2.0) @ (b * 2.0)),
        (normal(6, 4), normal(4, 6, seed=1), normal(3, 4, 4, seed=2)),
    ),
    "activations": (
        lambda x: (ns.sigmoid(x), F.silu(x), F.gelu(x), F.gelu(x, approximate="tanh"),
                   F.softplus(x), ns.relu(x), F.leaky_relu(x)),
        (normal(5, 8),),
    ),
    "norms": (
        lambda x, w, b: (ns.softmax(x * 2.0, axis=0), ns.log_softmax(x, axis=1),
                         F.layer_norm(x + 1.0, 8, w, b)),
        (normal(5, 8), normal(8, seed=1), normal(8, seed=2)),
    ),
    "joining": (
        lambda x, y: (np.concatenate([x * 2.0, y], axis=0) + 1.0, np.stack([x, y * 3.0], axis=1),
                      np.split(x + y, 2, axis=1)[1]),
        (normal(4, 6), normal(4, 6, seed=1)),
    ),
    "slices and their gradients": (
        lambda x: ns.grad(lambda x: (np.tanh(x[:, 1:3]) * x[:, 3:5] + x[:, 5:7] ** 2).sum())(x),
        (normal(4, 8),),
    ),
    "zeros of both signs": (
        lambda x: ns.grad(lambda x: (x[:, :2] * -0.0 + x[:, 2:] * -0.0).sum())(x),
        (normal(3, 4),),
    ),
    "choosing": (
        lambda x, y: (np.where(x > y, x, 0.0) + np.where(x > 0, 1.0, y), np.clip(x, -0.5, 0.5)),
        (normal(5, 6), normal(5, 6, seed=1)),
    ),
    "dtypes": (
        lambda x: (
            (x * 3.0).astype("int32") + 1, x.astype("float64") * 0.1, (x > 0).astype("int8"),
        ),
        (normal(4, 5),),
    ),
    "mlp": (
        _mlp,
        (normal(8, 6), np.array([0, 2, 1, 1, 0, 2, 2, 1]), normal(6, 5, seed=1), normal(5, seed=2),
         normal(5, 3, seed=3), normal(3, seed=4)),
    ),
    "attention": (_attention, (normal(2, 5, 8), normal(8, 8, seed=1))),
    "lstm": (
        _lstm, (normal(7, 2, 5), normal(5, 12, seed=1), normal(3, 12, seed=2), normal(12, seed=3)),
    ),
    "scan": (_scan(lambda h, x, w: ((n := np.tanh(h @ w + x)), (n * x, x.sum(), h))), (H, ROWS, W)),
    "scan backwards": (
        _scan(lambda h, x, w: ((n := np.tanh(h @ w + x)), (n, n + 1.0)), reverse=True),
        (H, ROWS, W),
    ),
    "scan that keeps its carry": (_scan(lambda h, x, w: ((n := h * 0.5 + x @ w), n)), (H, ROWS, W)),
    "scan of views": (
        _scan(lambda h, x, w: ((h @ w.T + x[::-1]), (x.T, h[:, 1:], w))), (H, ROWS, W),
    ),
    "scan of scalars": (
        _scan(lambda c, x, w: (c * 0.5 + x * w, (c, c > x))), (normal(), normal(9), normal(seed=1)),
    ),
    "scan whose carry changes its layout": (
        _scan(lambda h, x, w: (np.tanh(h @ w + x), h.sum(axis=0))), (np.asfortranarray(H), ROWS, W),
    ),
    "scan whose carry is turned each time": (
        _scan(lambda h, x, w: ((h @ w + x).T, h)), (normal(3, 3), normal(6, 3, 3), W),
    ),
    "scan that hands on": (_shifted, (H, ROWS, W)),
    "scan in a scan": (_nested, (H, ROWS, W)),
    "scan of nothing": (_scan(lambda h, x, w: (h + x, x)), (H, ROWS[:0], W)),
    "scan of two": (_scan(lambda h, x, w: (h + x, x)), (H, ROWS[:2], W)),
    "branch taken": (_branch, (np.abs(normal(3, 3)), W)),
    "branch not taken": (_branch, (-np.abs(normal(3, 3)), W)),
    "while": (_loop, (normal(2, 3),)),
}  # fmt: skip

CHAINS: dict[str, Callable[..., Any]] = {
    "sum of squares": lambda x: (x * x + x).sum(axis=0),
    "roots": lambda x: np.sqrt(np.abs(x)) * x,
    "less": lambda x: np.where(x < x.T.T, x, x + x),
    "products": lambda x: x @ x.T,
    "extremes": lambda x: (np.maximum(x, x.max()) + x.min(axis=0), x.mean(axis=1)),
    "numbers": lambda x: (x * 2 + 1, x * 0.5 - 3.0, 1.0 / (x * x + 1), x > 0.5, x * 2 > 300),
    "layouts": lambda x: (x.T + x.T, (x[::-1] * 2).reshape(-1), np.flip(x, 1) + 1),
}


def _mixed(x: Any, row: Any, column: Any) -> Any:
    y = np.tanh(x * row + column)
    return y * 2.0, y - x


LARGE: dict[str, Program] = {
    "a chain": (
        lambda x, b: np.exp(np.minimum(np.tanh(x * 1.5 + b) ** 2 - x, 0.0)) / 3.0,
        (normal(300_001), normal(300_001, seed=1)),
    ),
    "a chain of float64": (
        lambda x: np.sqrt(np.exp(np.sin(x) * 2.0) + 1.0) * x, (normal(700, 731, dtype="float64"),),
    ),
    "rows and columns": (_mixed, (normal(1003, 517), normal(517, seed=1), normal(1003, 1, seed=2))),
    "masks": (
        lambda x, y: ns.grad(lambda x: (ns.relu(x * y) * y).sum())(x),
        (normal(700, 900), normal(700, 900, seed=1)),
    ),
    "choosing": (
        lambda x, y: np.where(x > y, x * y, x - y) * 2.0,
        (normal(700, 900), normal(700, 900, seed=1)),
    ),
    "activations": (lambda x: F.silu(x * 2.0) + ns.sigmoid(x), (normal(1_000_003),)),
    "a number that is an array": (
        lambda x, first: np.tanh(x * first) + first, (normal(1000, 600), normal(1, 1, seed=1)),
    ),
}  # fmt: skip
