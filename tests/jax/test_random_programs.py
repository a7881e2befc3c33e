"""Gradients of random programs equal JAX's."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.programs import PARTS, Program, Table, check_close, for_each_program

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")
# Each program is compiled once and run once.
jax.config.update("jax_disable_most_optimizations", True)


def _extreme(where: Any, x: Any, axis: int | None, keepdims: bool) -> Any:
    """The largest or smallest element, taken by its index.

    The gradient of `jnp.max` compares elements with the maximum again. When compiled, both may be
    rounded differently; then no element equals the maximum, and the gradient is 0 / 0.
    """
    if axis is None:
        result = x.ravel()[where(x)]
        return result.reshape((1,) * x.ndim) if keepdims else result
    result = jnp.take_along_axis(x, where(x, axis=axis, keepdims=True), axis)
    return result if keepdims else jnp.squeeze(result, axis)


JAX: Table = {
    "constant": jnp.asarray,
    "negative": lambda x: -x, "sin": jnp.sin, "cos": jnp.cos, "tanh": jnp.tanh, "exp": jnp.exp,
    "sigmoid": jax.nn.sigmoid, "square": jnp.square, "softplus": jax.nn.softplus,
    "arctan": jnp.arctan, "silu": jax.nn.silu,
    "erf_like": lambda x: jnp.tanh(x * (1.0 + 0.1 * x * x)),
    "sqrt": lambda x, by: jnp.sqrt(x + by), "log": lambda x, by: jnp.log(x + by),
    "power": lambda x, by: (x + by) ** 1.5, "reciprocal": lambda x, by: 1.0 / (x + by),
    "relu": lambda x, apart: jax.nn.relu(x + apart), "abs": lambda x, apart: jnp.abs(x + apart),
    "clip": lambda x, apart: jnp.clip(x + apart, -1.0, 1.0),
    "add": jnp.add, "subtract": jnp.subtract, "multiply": jnp.multiply,
    "divide": lambda x, y, by: x / (y + by),
    "maximum": lambda x, y, apart: jnp.maximum(x + apart, y),
    "minimum": lambda x, y, apart: jnp.minimum(x + apart, y),
    "where": lambda x, y, apart: jnp.where(apart > 0, x + apart, y),
    "matmul": jnp.matmul,
    "sum": jnp.sum, "mean": jnp.mean, "var": jnp.var,
    "max": lambda x, apart, **how: _extreme(jnp.argmax, x + apart, **how),
    "min": lambda x, apart, **how: _extreme(jnp.argmin, x + apart, **how),
    "logsumexp": jax.nn.logsumexp, "softmax": jax.nn.softmax, "log_softmax": jax.nn.log_softmax,
    "cumsum": lambda x, axis: jnp.cumsum(x, axis),
    "reshape": lambda x, shape: x.reshape(shape),
    "broadcast_to": lambda x, shape: jnp.broadcast_to(x, shape),
    "transpose": lambda x, axes: jnp.transpose(x, axes), "flip": lambda x, axis: jnp.flip(x, axis),
    "slice": lambda x, axis, start, step: x[(*(slice(None),) * axis, slice(start, None, step))],
    "row": lambda x, axis, at: x[(*(slice(None),) * axis, at)],
    "take": lambda x, axis, at: jnp.take(x, at, axis=axis),
    "along": lambda x, axis, at: jnp.take_along_axis(x, at, axis),
    "concatenate": lambda *x, axis: jnp.concatenate(x, axis),
    "stack": lambda *x, axis: jnp.stack(x, axis),
}  # fmt: skip


def check(program: Program) -> None:
    def loss(*inputs: Any) -> Any:
        return program.loss(JAX, list(inputs))

    inputs = [jnp.asarray(array) for array in program.arrays()]
    both = jax.jit(jax.value_and_grad(loss, tuple(range(len(inputs)))))
    value, gradients = both(*inputs)
    check_close(program, float(value), [np.asarray(gradient) for gradient in gradients])


@pytest.mark.parametrize("part", PARTS)
def test_gradients_of_random_programs(part: int) -> None:
    for_each_program(part, check)
