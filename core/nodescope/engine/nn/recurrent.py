"""Recurrent layers: cells made of a few large products, and layers that loop over time in Python.

Gates are in PyTorch's order: input, forget, cell, output; and reset, update, new. Weights are
(inputs, gates * size), the transposes of PyTorch's.

Invariant: batch first; a sequence that has ended keeps its state, and its outputs are 0.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from nodescope.engine.autodiff.grad import parameter
from nodescope.engine.functions import sigmoid, tensor_of
from nodescope.engine.nn.module import Module
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import BoundsError, ShapeError


class _Cell(Module):
    """Weights for input and state, and one step of time.

    Args:
        inputs: Size of the input.
        size: Size of the state.
        rng: Generator of the initial weights, uniform between ±1 / sqrt(size).
        bias: Whether there are two biases, for input and state.
        dtype: Floating-point dtype of the parameters.
    """

    gates: ClassVar[int] = 1
    states: ClassVar[int] = 1
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self,
        inputs: int,
        size: int,
        *,
        rng: np.random.Generator,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        if inputs < 1 or size < 1:
            raise ShapeError(f"{type(self).__name__}: sizes {inputs} and {size} must be positive",
                             source=where())  # fmt: skip
        self.inputs, self.size = inputs, size
        limit = 1.0 / math.sqrt(size)

        def drawn(name: str, *shape: int) -> Tensor:
            return parameter(rng.uniform(-limit, limit, shape), dtype, name=name)

        wide = self.gates * size
        self.weight_ih = drawn("weight_ih", inputs, wide)
        self.weight_hh = drawn("weight_hh", size, wide)
        self.bias_ih = drawn("bias_ih", wide) if bias else None
        self.bias_hh = drawn("bias_hh", wide) if bias else None

    def forward(self, x: Any, state: Any = None) -> Any:
        """Map (N, inputs) and the last state to the next state; None is a state of zeros."""
        x = tensor_of(x)
        if x.ndim != 2 or x.shape[1] != self.inputs:
            raise ShapeError(
                f"{type(self).__name__}: expected (N, {self.inputs}), got shape {x.shape}",
                source=where(),
            )
        return self.step(self.projected(x), self.checked(state, x.shape[0]))

    def zero_state(self, batch: int) -> Any:
        """The state before the first step."""
        zeros = tensor_of(np.zeros((batch, self.size), self.weight_hh.dtype))
        return zeros if self.states == 1 else (zeros,) * self.states

    def checked(self, state: Any, batch: int) -> Any:
        """Check the shape of a state; zeros for None. Raises `ShapeError`."""
        if state is None:
            return self.zero_state(batch)
        parts = (state,) if self.states == 1 else tuple(state)
        states = tuple(tensor_of(part) for part in parts)
        for part_state in states:
            if part_state.shape != (batch, self.size):
                raise ShapeError(
                    f"{type(self).__name__}: a state of shape {part_state.shape}, expected "
                    f"({batch}, {self.size})",
                    source=where(),
                )
        if len(states) != self.states:
            raise ShapeError(f"{type(self).__name__}: {len(states)} states for {self.states}",
                             source=where())  # fmt: skip
        return states[0] if self.states == 1 else states

    def projected(self, x: Tensor) -> Tensor:
        """The input's contribution to the gates: (..., inputs) to (..., gates * size)."""
        projection = x @ self.weight_ih
        return projection if self.bias_ih is None else projection + self.bias_ih

    def _recalled(self, h: Tensor) -> Tensor:
        projection = h @ self.weight_hh
        return projection if self.bias_hh is None else projection + self.bias_hh

    def _gate(self, gates: Tensor, i: int) -> Tensor:
        return gates[:, i * self.size : (i + 1) * self.size]

    def step(self, projected: Tensor, state: Any) -> Any:
        """The next state from a projected input and the last state."""
        return np.tanh(projected + self._recalled(state))


class RNNCell(_Cell):
    """``tanh(x W + b + h U + c)``; the state is (N, size)."""


class LSTMCell(_Cell):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997); the state is ``(h, c)``."""

    gates = 4
    states = 2

    def step(self, projected: Tensor, state: Any) -> Any:
        """The next ``(h, c)``."""
        h, c = state
        gates = projected + self._recalled(h)
        keep = sigmoid(gates[:, : 2 * self.size])  # input and forget gate at once
        new = np.tanh(self._gate(gates, 2))
        c = keep[:, self.size :] * c + keep[:, : self.size] * new
        return sigmoid(self._gate(gates, 3)) * np.tanh(c), c


class GRUCell(_Cell):
    """Gated recurrent unit (Cho et al., 2014); the state is (N, size)."""

    gates = 3

    def step(self, projected: Tensor, state: Any) -> Any:
        """The next state."""
        recalled = self._recalled(state)
        both = slice(0, 2 * self.size)
        gates = sigmoid(projected[:, both] + recalled[:, both])
        new = np.tanh(self._gate(projected, 2) + gates[:, : self.size] * self._gate(recalled, 2))
        update = gates[:, self.size :]
        return new + update * (state - new)


class _Recurrent(Module):
    """Base of stacked layers of cells that run over time.

    Args:
        inputs: Size of the input.
        size: Size of each layer's state.
        layers: Number of layers.
        rng: Generator of the initial weights.
        bias: Whether the cells have biases.
        dtype: Floating-point dtype of the parameters.
    """

    kind: ClassVar[type[_Cell]]

    def __init__(
        self,
        inputs: int,
        size: int,
        layers: int = 1,
        *,
        rng: np.random.Generator,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        if layers < 1:
            raise ShapeError(f"{type(self).__name__}: {layers} layers", source=where())
        self.cell = [
            self.kind(inputs if i == 0 else size, size, rng=rng, bias=bias, dtype=dtype)
            for i in range(layers)
        ]

    def forward(self, x: Any, state: Any = None, *, lengths: Any = None) -> tuple[Tensor, Any]:
        """Run over sequences.

        Args:
            x: (N, T, inputs).
            state: The state of each layer before the first step, in a list; zeros if None.
            lengths: (N,), number of steps of each sequence; all steps if None.

        Returns:
            The last layer's outputs (N, T, size), and a list of each layer's last state.
        """
        x = tensor_of(x)
        first = self.cell[0]
        if x.ndim != 3 or x.shape[2] != first.inputs:
            raise ShapeError(
                f"{type(self).__name__}: expected (N, T, {first.inputs}), got shape {x.shape}",
                source=where(),
            )
        if not x.shape[1]:
            raise ShapeError(f"{type(self).__name__}: no steps in shape {x.shape}", source=where())
        if state is not None and len(state) != len(self.cell):
            raise ShapeError(
                f"{type(self).__name__}: {len(state)} states for {len(self.cell)} layers",
                source=where(),
            )
        running = None if lengths is None else self._running(lengths, x)
        last = []
        for i, cell in enumerate(self.cell):
            initial = cell.checked(None if state is None else state[i], x.shape[0])
            x, final = cell_over_time(cell, x, initial, running)
            last.append(final)
        return x, last

    def _running(self, lengths: Any, x: Tensor) -> Tensor:
        """Which sequences are still running at each step: (N, T, 1) booleans."""
        counts = tensor_of(lengths)
        if counts.shape != x.shape[:1]:
            raise ShapeError(
                f"{type(self).__name__}: lengths of shape {counts.shape} for {x.shape[0]} "
                "sequences",
                source=where(),
            )
        steps = np.arange(x.shape[1])
        # Lengths in a tensor may be unknown, so they are not checked; a larger one means all steps.
        if not isinstance(lengths, Tensor) and counts.size:
            low, high = counts.data.min(), counts.data.max()
            if low < 0 or high > x.shape[1]:
                raise BoundsError(
                    f"{type(self).__name__}: lengths from {low} to {high} for sequences of "
                    f"{x.shape[1]} steps",
                    source=where(),
                )
        return np.less(steps[None, :, None], counts.reshape(-1, 1, 1))  # type: ignore[return-value]


def cell_over_time(
    cell: _Cell, x: Tensor, state: Any, running: Tensor | None
) -> tuple[Tensor, Any]:
    """One layer over (N, T, inputs): its outputs (N, T, size) and its last state."""
    projected = cell.projected(x)  # one product for all steps
    outputs = []
    for t in range(x.shape[1]):
        new = cell.step(projected[:, t], state)
        h = new if cell.states == 1 else new[0]
        if running is not None:
            on = running[:, t]
            if cell.states == 1:
                new = np.where(on, new, state)
            else:
                new = tuple(np.where(on, a, b) for a, b in zip(new, state, strict=True))
            h = np.where(on, h, 0.0)
        outputs.append(h)
        state = new
    stacked: Any = np.stack(outputs, axis=1)
    return stacked, state


class RNN(_Recurrent):
    """`RNNCell` over time."""

    kind = RNNCell


class LSTM(_Recurrent):
    """`LSTMCell` over time."""

    kind = LSTMCell


class GRU(_Recurrent):
    """`GRUCell` over time."""

    kind = GRUCell
