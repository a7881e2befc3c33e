"""Normalising layers.

Invariant: running statistics are buffers that change only in training.
"""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import numpy as np

from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.grad import assign, parameter
from nodescope.engine.dispatch_mode import no_grad
from nodescope.engine.functions import tensor_of
from nodescope.engine.nn import functional as F
from nodescope.engine.nn.module import Module, buffer
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import ShapeError


class _Affine(Module):
    """Base of layers with a weight that starts at 1 and a bias that starts at 0, or neither."""

    weight: Tensor | None
    bias: Tensor | None

    def _make(self, shape: Any, affine: bool, dtype: Any, *, bias: bool = True) -> None:
        self.weight = parameter(np.ones(shape), dtype, name="weight") if affine else None
        self.bias = parameter(np.zeros(shape), dtype, name="bias") if affine and bias else None


class LayerNorm(_Affine):
    """Normalise the last dimensions of each element of the batch.

    Args:
        shape: Sizes of those dimensions; an int for one.
        eps: Added to the variance.
        affine: Whether the layer has weight and bias.
        dtype: Floating-point dtype of the parameters.
    """

    def __init__(
        self, shape: Any, *, eps: float = 1e-5, affine: bool = True, dtype: Any = np.float32
    ) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.eps = eps
        self._make(self.shape, affine, dtype)

    def forward(self, x: Any) -> Tensor:
        """(..., *shape) to the same shape."""
        return F.layer_norm(x, self.shape, self.weight, self.bias, self.eps)


class RMSNorm(_Affine):
    """Divide the last dimensions by their root mean square; arguments as for `LayerNorm`."""

    def __init__(
        self, shape: Any, *, eps: float = 1e-6, affine: bool = True, dtype: Any = np.float32
    ) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.eps = eps
        self._make(self.shape, affine, dtype, bias=False)

    def forward(self, x: Any) -> Tensor:
        """(..., *shape) to the same shape."""
        return F.rms_norm(x, self.shape, self.weight, self.eps)


class GroupNorm(_Affine):
    """Normalise groups of channels of each element of the batch.

    Args:
        groups: Number of groups; must divide ``channels``.
        channels: Size of axis 1.
    """

    def __init__(
        self,
        groups: int,
        channels: int,
        *,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        if groups < 1 or channels % groups:
            raise ShapeError(
                f"GroupNorm: {channels} channels are not divisible by {groups} groups",
                source=where(),
            )
        self.groups = groups
        self.eps = eps
        self._make(channels, affine, dtype)

    def forward(self, x: Any) -> Tensor:
        """(N, channels, …) to the same shape."""
        return F.group_norm(x, self.groups, self.weight, self.bias, self.eps)


class BatchNorm2d(_Affine):
    """Normalise each channel over the batch, or with running statistics outside training.

    Args:
        channels: Size of axis 1.
        eps: Added to the variance.
        momentum: Fraction of a running statistic that each batch replaces.
        affine: Whether the layer has weight and bias.
        dtype: Floating-point dtype of parameters and statistics.
    """

    ranks: ClassVar[tuple[int, ...]] = (4,)
    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self,
        channels: int,
        *,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        self.eps = eps
        self.momentum = momentum
        self._make(channels, affine, dtype)
        self.running_mean = buffer(np.zeros(channels), dtype, name="running_mean")
        self.running_var = buffer(np.ones(channels), dtype, name="running_var")

    def forward(self, x: Any) -> Tensor:
        """(N, channels, …) to the same shape."""
        x = tensor_of(x)
        if x.ndim not in self.ranks:
            raise ShapeError(
                f"{type(self).__name__}: expected {' or '.join(map(str, self.ranks))} dimensions, "
                f"got shape {x.shape}",
                source=where(),
            )
        if not self.training:
            return F.batch_norm_eval(
                x, self.running_mean, self.running_var, self.weight, self.bias, self.eps
            )
        out, mean, variance = F.batch_norm_statistics(x, self.weight, self.bias, self.eps)
        count = x.size // x.shape[1]
        builder = dispatch_mode.builder()
        with no_grad(), contextlib.nullcontext() if builder is None else builder.updating():
            # The running variance is the unbiased estimate, as in PyTorch.
            unbiased = variance * (count / (count - 1))
            for running, statistic in ((self.running_mean, mean), (self.running_var, unbiased)):
                moved = running * (1.0 - self.momentum) + statistic * self.momentum
                assign(running, moved)
        return out


class BatchNorm1d(BatchNorm2d):
    """`BatchNorm2d` for (N, channels) and (N, channels, L)."""

    ranks = (2, 3)
