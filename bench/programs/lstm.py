"""An LSTM over 100 steps as a loop node, forward and backward: input 32, hidden 64, 16 sequences.

torch runs a Python loop, as its users would write it; torch.compile compiles only the cell, because
unrolling all steps takes minutes; jax uses `scan`.

Invariant: the order of the gates is input, forget, output, candidate in every library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nodescope as ns
from bench.programs import training
from bench.programs.case import JAX, NUMPY, TORCH, Array, C, Case, Limit
from nodescope import nn

F = nn.functional
LIMITS = {NUMPY: Limit(TORCH, 0.45), C: Limit(JAX, 0.7, 0.55)}


def cases() -> tuple[Case, ...]:
    return (case(100, 16, 32, 64),)


def tiny() -> Case:
    return case(3, 2, 3, 4)


def case(steps: int, batch: int, inputs: int, hidden: int) -> Case:
    """Loss and gradients of ``batch`` sequences of ``steps`` vectors of ``inputs`` numbers."""
    rng = np.random.default_rng(4)

    def weight(*shape: int) -> Array:
        return (rng.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32)

    parameters = [weight(inputs, 4 * hidden), weight(hidden, 4 * hidden),
                  np.zeros(4 * hidden, np.float32)]  # fmt: skip
    x = rng.standard_normal((steps, batch, inputs)).astype(np.float32)
    r = rng.standard_normal((batch, hidden)).astype(np.float32)
    losses = training.Losses(by_hand, ours, torch_loss, jax_loss, torch_parts)
    # The loop node sums gradients in another order than the tape.
    return training.case(f"LSTM {steps} steps", losses, parameters, [x, r], LIMITS, exact=False)


def by_hand(parameters: Sequence[Array], inputs: Sequence[Array]) -> tuple[Any, list[Array]]:
    w, u, b = parameters
    x, r = inputs
    steps, batch, width = x.shape
    n = len(u)
    unity = x.dtype.type(1)
    h = c = np.zeros((batch, n), x.dtype)
    from_x = (x.reshape(-1, width) @ w + b).reshape(steps, batch, 4 * n)
    kept = []
    for t in range(steps):
        z = from_x[t] + h @ u
        gates = unity / (unity + np.exp(-z[:, : 3 * n]))
        i, f, o = gates[:, :n], gates[:, n : 2 * n], gates[:, 2 * n :]
        g = np.tanh(z[:, 3 * n :])
        before = c
        c = f * before + i * g
        squashed = np.tanh(c)
        kept.append((h, before, i, f, o, g, squashed))
        h = o * squashed
    loss = (h * r).mean()
    dh = r / x.dtype.type(r.size)
    dc = np.zeros_like(c)
    slopes = np.empty((steps, batch, 4 * n), x.dtype)
    turned = np.ascontiguousarray(u.T)
    for t in reversed(range(steps)):
        _, before, i, f, o, g, squashed = kept[t]
        dc = dc + dh * o * (unity - squashed * squashed)
        dz = slopes[t]
        dz[:, :n] = dc * g * i * (unity - i)
        dz[:, n : 2 * n] = dc * before * f * (unity - f)
        dz[:, 2 * n : 3 * n] = dh * squashed * o * (unity - o)
        dz[:, 3 * n :] = dc * i * (unity - g * g)
        dc = dc * f
        dh = dz @ turned
    flat = slopes.reshape(-1, 4 * n)
    states = np.concatenate([item[0] for item in kept])
    return loss, [x.reshape(-1, width).T @ flat, states.T @ flat, flat.sum(0)]


def ours(parameters: Any, x: Any, r: Any) -> Any:
    w, u, b = parameters

    def cell(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, o, g = np.split(x @ w + b + h @ u, 4, axis=1)
        c = F.sigmoid(f) * c + F.sigmoid(i) * np.tanh(g)
        return (F.sigmoid(o) * np.tanh(c), c), None

    start = ns.zeros(r.shape, dtype=np.float32)
    (h, _), _ = ns.scan(cell, (start, start), x)
    return (h * r).mean()


def _torch_cell(torch: Any, x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
    i, f, o, g = (torch.addmm(b, x, w) + h @ u).chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def _torch_loop(cell: Callable[..., Any], parameters: Any, x: Any, r: Any) -> Any:
    h = c = x.new_zeros(r.shape)
    for row in x.unbind():
        h, c = cell(row, h, c, *parameters)
    return (h * r).mean()


def torch_loss(torch: Any, parameters: Any, x: Any, r: Any) -> Any:
    return _torch_loop(lambda *arguments: _torch_cell(torch, *arguments), parameters, x, r)


def torch_parts(torch: Any) -> Callable[..., Any]:
    """The loss with a loop over a compiled cell."""
    cell = torch.compile(lambda *arguments: _torch_cell(torch, *arguments), dynamic=False)
    return lambda *arguments: _torch_loop(cell, *arguments)


def jax_loss(jax: Any, parameters: Any, x: Any, r: Any) -> Any:
    jnp = jax.numpy
    w, u, b = parameters

    def cell(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, o, g = jnp.split(x @ w + b + h @ u, 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    start = jnp.zeros(r.shape, jnp.float32)
    (h, _), _ = jax.lax.scan(cell, (start, start), x)
    return (h * r).mean()
