"""Layers of matrices and tables: linear, embedding, flatten, dropout.

Invariant: weights are (inputs, outputs), so that a layer is ``x @ weight + bias``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.engine.autodiff.grad import parameter
from nodescope.engine.functions import tensor_of
from nodescope.engine.nn import functional as F
from nodescope.engine.nn.init import Init, he
from nodescope.engine.nn.module import Module
from nodescope.engine.random import Generator
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import ShapeError, UsageError


class Linear(Module):
    """``x @ weight + bias``.

    Args:
        inputs: Size of the last dimension of ``x``.
        outputs: Size of the last dimension of the result.
        rng: Generator of the initial weights.
        init: `he` or `glorot`, or a function like them.
        bias: Whether there is a bias; it starts at 0.
        dtype: Floating-point dtype of the parameters.
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        rng: np.random.Generator,
        init: Init = he,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        if inputs < 1 or outputs < 1:
            raise ShapeError(f"Linear: sizes {inputs} and {outputs} must be positive")
        self.weight = parameter(init(rng, inputs, outputs), dtype, name="weight")
        self.bias = parameter(np.zeros(outputs), dtype, name="bias") if bias else None

    def forward(self, x: Any) -> Tensor:
        """(..., inputs) to (..., outputs)."""
        product: Tensor = x @ self.weight
        return product if self.bias is None else product + self.bias


Dense = Linear


class Embedding(Module):
    """A table whose rows are selected by index.

    Args:
        rows: Number of rows.
        size: Size of each row.
        rng: Generator of the initial weights, which are normal with standard deviation 1.
        padding_idx: Index of a row that starts at 0 and gets no gradient.
        dtype: Floating-point dtype of the table.
    """

    weight: Tensor

    def __init__(
        self,
        rows: int,
        size: int,
        *,
        rng: np.random.Generator,
        padding_idx: int | None = None,
        dtype: Any = np.float32,
    ) -> None:
        if rows < 1 or size < 1:
            raise ShapeError(f"Embedding: sizes {rows} and {size} must be positive", source=where())
        if padding_idx is not None and not 0 <= padding_idx < rows:
            raise UsageError(
                f"Embedding: padding_idx {padding_idx} is out of range for {rows} rows",
                source=where(),
            )
        table = rng.standard_normal((rows, size))
        if padding_idx is not None:
            table[padding_idx] = 0.0
        self.padding_idx = padding_idx
        self.weight = parameter(table, dtype, name="weight")

    def forward(self, indices: Any) -> Tensor:
        """Integers of any shape to (..., size)."""
        return F.embedding(indices, self.weight, self.padding_idx)


class Flatten(Module):
    """Merge all dimensions from ``start`` on into one.

    Args:
        start: The first dimension to merge; 1 keeps the batch dimension.
    """

    def __init__(self, start: int = 1) -> None:
        self.start = start

    def forward(self, x: Any) -> Tensor:
        """(N, A, B, …) to (N, A * B * …)."""
        return F.flatten(x, self.start)


class Dropout(Module):
    """While training, drop each element with probability ``p`` and scale the others up.

    Args:
        p: The fraction that is dropped, from 0 to below 1.
        rng: Source of the masks: a `nodescope.random.Generator`, which may be shared; for a NumPy
            generator or a seed, the layer makes its own.
    """

    def __init__(self, p: float = 0.5, *, rng: Generator | np.random.Generator | int) -> None:
        if not 0.0 <= p < 1.0:
            raise UsageError(
                f"Dropout: p = {p} is not in [0, 1)",
                source=where(),
                hint="p is the fraction of elements that is dropped",
            )
        self.p = float(p)
        self.rng = generator_of(rng)

    def forward(self, x: Any) -> Tensor:
        """The same shape; ``x`` itself outside of training."""
        if not self.training or not self.p:
            return tensor_of(x)
        return F.dropout(x, self.p, rng=self.rng)


def generator_of(rng: Generator | np.random.Generator | int) -> Generator:
    """A generator of masks from the argument of a layer."""
    if isinstance(rng, Generator):
        return rng
    return Generator(int(rng.integers(2**63)) if isinstance(rng, np.random.Generator) else rng)
