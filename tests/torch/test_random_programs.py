"""Gradients of random programs are PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.programs import PARTS, Program, Table, check_close, for_each_program

torch.set_num_threads(1)


def _t(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(array))


def _axes(x: torch.Tensor, axis: int | None) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axis is None else (axis,)


TORCH: Table = {
    "constant": _t,
    "negative": lambda x: -x, "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh,
    "exp": torch.exp, "sigmoid": torch.sigmoid, "square": torch.square,
    "softplus": torch.nn.functional.softplus, "arctan": torch.atan,
    "silu": torch.nn.functional.silu, "erf_like": lambda x: torch.tanh(x * (1.0 + 0.1 * x * x)),
    "sqrt": lambda x, by: torch.sqrt(x + by), "log": lambda x, by: torch.log(x + by),
    "power": lambda x, by: (x + by) ** 1.5, "reciprocal": lambda x, by: 1.0 / (x + by),
    "relu": lambda x, apart: torch.relu(x + _t(apart)),
    "abs": lambda x, apart: torch.abs(x + _t(apart)),
    "clip": lambda x, apart: torch.clamp(x + _t(apart), -1.0, 1.0),
    "add": torch.add, "subtract": torch.sub, "multiply": torch.mul,
    "divide": lambda x, y, by: x / (y + by),
    "maximum": lambda x, y, apart: torch.maximum(x + _t(apart), y),
    "minimum": lambda x, y, apart: torch.minimum(x + _t(apart), y),
    "where": lambda x, y, apart: torch.where(_t(apart > 0), x + _t(apart), y),
    "matmul": torch.matmul,
    "sum": lambda x, axis, keepdims: torch.sum(x, _axes(x, axis), keepdim=keepdims),
    "mean": lambda x, axis, keepdims: torch.mean(x, _axes(x, axis), keepdim=keepdims),
    "var": lambda x, axis, keepdims: torch.square(
        x - x.mean(_axes(x, axis), keepdim=True)
    ).mean(_axes(x, axis), keepdim=keepdims),
    "max": lambda x, apart, axis, keepdims: torch.amax(x + _t(apart), _axes(x, axis), keepdims),
    "min": lambda x, apart, axis, keepdims: torch.amin(x + _t(apart), _axes(x, axis), keepdims),
    "logsumexp": lambda x, axis, keepdims: torch.logsumexp(x, _axes(x, axis), keepdims),
    "softmax": lambda x, axis: torch.softmax(x, axis),
    "log_softmax": lambda x, axis: torch.log_softmax(x, axis),
    "cumsum": lambda x, axis: torch.cumsum(x, axis),
    "reshape": lambda x, shape: x.reshape(shape),
    "broadcast_to": lambda x, shape: torch.broadcast_to(x, shape),
    "transpose": lambda x, axes: x.permute(axes), "flip": lambda x, axis: torch.flip(x, (axis,)),
    "slice": lambda x, axis, start, step: x[(*(slice(None),) * axis, slice(start, None, step))],
    "row": lambda x, axis, at: torch.select(x, axis, at),
    "take": lambda x, axis, at: torch.index_select(x, axis, _t(at)),
    "along": lambda x, axis, at: torch.take_along_dim(x, _t(at), axis),
    "concatenate": lambda *x, axis: torch.cat(x, axis),
    "stack": lambda *x, axis: torch.stack(x, axis),
}  # fmt: skip


def check(program: Program) -> None:
    inputs = [_t(array).requires_grad_() for array in program.arrays()]
    loss = program.loss(TORCH, inputs)
    loss.backward()
    gradients = [np.zeros(tuple(x.shape)) if x.grad is None else x.grad.numpy() for x in inputs]
    check_close(program, loss.item(), gradients)


@pytest.mark.parametrize("part", PARTS)
def test_gradients_of_random_programs(part: int) -> None:
    for_each_program(part, check)
