"""Twelve elementwise operations in a chain: two transcendental, a root, a quotient, eight cheap.

Invariant: every library runs the same twelve operations on float32, without gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import nodescope as ns
from bench.programs.case import (
    BACKENDS,
    EAGER,
    HAND,
    JAX,
    NUMPY,
    TORCH,
    TORCH_COMPILE,
    Array,
    C,
    Case,
    Contender,
    Limit,
)  # fmt: skip

SIZES = (1_000, 100_000, 10_000_000)
LIMITS = {10_000_000: {NUMPY: Limit(JAX, 1.1), C: Limit(JAX, 0.5, 0.35)}}
NO_LIMITS = {NUMPY: Limit(JAX), C: Limit(JAX)}


def cases() -> tuple[Case, ...]:
    return tuple(case(size) for size in SIZES)


def tiny() -> Case:
    return case(37)


def chain(xp: Any, x: Any, b: Any) -> Any:
    """The program, with the functions of ``xp``; x and b are (n,), the result is (n,)."""
    t = x * 1.5
    t = t + b
    squashed = xp.tanh(t)
    t = squashed * squashed
    t = t - x
    t = xp.minimum(t, 0.0)
    grown = xp.exp(t)
    t = grown + squashed
    t = xp.maximum(t, 0.0)
    t = t + 1.0
    return grown / xp.sqrt(t)


def case(size: int) -> Case:
    """The chain over ``size`` elements."""

    @functools.cache
    def data() -> list[Array]:  # drawn only if the case runs: the largest takes a second
        rng = np.random.default_rng(0)
        return [rng.standard_normal(size).astype(np.float32) for _ in range(2)]

    makers = {
        EAGER: lambda: _ours(data(), None),
        **{name: lambda b=backend: _ours(data(), b) for name, backend in BACKENDS.items()},
        HAND: lambda: _by_hand(data()),
        TORCH: lambda: _torch(data(), compiled=False),
        TORCH_COMPILE: lambda: _torch(data(), compiled=True),
        JAX: lambda: _jax(data()),
    }
    return Case(
        f"chain of 12, {size:.0e}".replace("e+0", "e"),
        makers,
        lambda: [chain(np, *(array.astype(np.float64) for array in data()))],
        LIMITS.get(size, NO_LIMITS),
        tolerance=1e-5,
    )


def _ours(data: Sequence[Array], backend: str | None) -> Contender:
    def program(x: Any, b: Any) -> Any:
        return chain(np, x, b)

    inputs = tuple(map(ns.tensor, data))
    if backend is None:
        return Contender(lambda: program(*inputs), lambda y: [y.numpy()])
    ready = ns.compile(program, backend=backend)
    return Contender(lambda: ready(*inputs), lambda y: [y.numpy()], ready, inputs)


def _by_hand(data: Sequence[Array]) -> Contender:
    return Contender(lambda: chain(np, *data), lambda y: [y])


def _torch(data: Sequence[Array], *, compiled: bool) -> Contender:
    import torch

    functions = SimpleNamespace(
        tanh=torch.tanh, exp=torch.exp, sqrt=torch.sqrt,
        minimum=lambda t, limit: torch.clamp(t, max=limit),
        maximum=lambda t, limit: torch.clamp(t, min=limit),
    )  # fmt: skip

    def program(x: Any, b: Any) -> Any:
        return chain(functions, x, b)

    inputs = tuple(map(torch.from_numpy, data))
    ready = torch.compile(program, dynamic=False) if compiled else program

    def run() -> Any:
        with torch.inference_mode():
            return ready(*inputs)

    return Contender(run, lambda y: [y.numpy()])


def _jax(data: Sequence[Array]) -> Contender:
    import jax
    import jax.numpy as jnp

    ready = jax.jit(lambda x, b: chain(jnp, x, b))
    inputs = tuple(map(jnp.asarray, data))
    return Contender(lambda: jax.block_until_ready(ready(*inputs)), lambda y: [np.asarray(y)])
