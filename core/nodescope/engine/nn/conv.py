"""Convolutional layers.

Invariant: weights have PyTorch's shapes: (outputs, inputs / groups, kernel…); for transposed
convolutions, (inputs, outputs / groups, kernel…).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from nodescope.engine.autodiff.grad import parameter
from nodescope.engine.nn import functional as F
from nodescope.engine.nn.init import Init, he, kernels
from nodescope.engine.nn.module import Module
from nodescope.engine.nn.spatial import Size, sizes
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import ShapeError


class _Conv(Module):
    """Base of all convolutions: weight, bias and the settings of the kernel."""

    spatial: ClassVar[int] = 2
    transposed: ClassVar[bool] = False
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel_size: Size,
        *,
        rng: np.random.Generator,
        stride: Size = 1,
        padding: Any = 0,
        output_padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        init: Init = he,
        dtype: Any = np.float32,
    ) -> None:
        name = type(self).__name__
        size = sizes(name, "kernel_size", kernel_size, self.spatial)
        if min(inputs, outputs, groups, *size) < 1:
            raise ShapeError(f"{name}: channels, groups and kernel must be positive",
                             source=where())  # fmt: skip
        if inputs % groups or outputs % groups:
            raise ShapeError(
                f"{name}: {inputs} inputs, {outputs} outputs are not divisible by {groups} groups",
                source=where(),
            )
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.output_padding, self.groups = output_padding, groups
        if self.transposed:
            # Each output sums over the inputs of its group, so ``init`` gets their number.
            array = kernels(init, rng, outputs, inputs // groups, size)
            array = array.reshape(groups, outputs // groups, inputs // groups, *size)
            array = array.swapaxes(1, 2).reshape(inputs, outputs // groups, *size)
        else:
            array = kernels(init, rng, outputs, inputs // groups, size)
        self.weight = parameter(array, dtype, name="weight")
        self.bias = parameter(np.zeros(outputs), dtype, name="bias") if bias else None

    def forward(self, x: Any) -> Tensor:
        """(N, inputs, …) to (N, outputs, …)."""
        convolve: Any = (F.conv1d, F.conv2d)[self.spatial - 1]
        return convolve(  # type: ignore[no-any-return]
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )


class Conv2d(_Conv):
    """A convolution of images.

    Args:
        inputs: Channels of the input.
        outputs: Channels of the result.
        kernel_size: One size or a pair.
        rng: Generator of the initial weights.
        stride: Distance between positions of the kernel.
        padding: Zeros around the image: one number, a pair, pairs of (before, after), ``"same"``
            or ``"valid"``.
        dilation: Distance between elements of the kernel.
        groups: Number of groups; each group of outputs sees only its own group of inputs.
        bias: Whether there is a bias; it starts at 0.
        init: `he` or `glorot`, or a function like them.
        dtype: Floating-point dtype of the parameters.

    Raises:
        ShapeError: A size is not positive, or the groups do not divide the channels.
    """


class Conv1d(_Conv):
    """A convolution of sequences, (N, inputs, L); arguments as for `Conv2d`."""

    spatial = 1


class ConvTranspose2d(_Conv):
    """The transpose of `Conv2d`, which makes images larger (Zeiler et al., 2010).

    Args:
        output_padding: Added to one side of the result, to choose between the sizes that a
            convolution with this stride maps to the same size.
    """

    transposed = True

    def forward(self, x: Any) -> Tensor:
        """(N, inputs, …) to (N, outputs, …)."""
        convolve: Any = (F.conv_transpose1d, F.conv_transpose2d)[self.spatial - 1]
        return convolve(  # type: ignore[no-any-return]
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding,
            self.groups, self.dilation,
        )  # fmt: skip


class ConvTranspose1d(ConvTranspose2d):
    """The transpose of `Conv1d`."""

    spatial = 1
