"""Pooling layers.

Invariant: they hold no parameters; arguments are those of the functions.
"""

from __future__ import annotations

from typing import Any, ClassVar

from nodescope.engine.nn import functional as F
from nodescope.engine.nn.module import Module
from nodescope.engine.nn.spatial import Size
from nodescope.engine.tensor import Tensor


class _Pool(Module):
    function: ClassVar[Any]

    def __init__(self, kernel_size: Size, stride: Size | None = None, **options: Any) -> None:
        self.kernel_size, self.stride, self.options = kernel_size, stride, options

    def forward(self, x: Any) -> Tensor:
        """(N, C, …) to (N, C, fewer …)."""
        return type(self).function(x, self.kernel_size, self.stride, **self.options)  # type: ignore[no-any-return]


class MaxPool1d(_Pool):
    """The largest element of each window; see `functional.max_pool1d`."""

    function = staticmethod(F.max_pool1d)


class MaxPool2d(_Pool):
    """The largest element of each window; see `functional.max_pool2d`."""

    function = staticmethod(F.max_pool2d)


class AvgPool1d(_Pool):
    """The mean of each window; see `functional.avg_pool1d`."""

    function = staticmethod(F.avg_pool1d)


class AvgPool2d(_Pool):
    """The mean of each window; see `functional.avg_pool2d`."""

    function = staticmethod(F.avg_pool2d)


class _AdaptivePool(Module):
    function: ClassVar[Any]

    def __init__(self, output_size: Any) -> None:
        self.output_size = output_size

    def forward(self, x: Any) -> Tensor:
        """(N, C, …) to (N, C, *output_size)."""
        return type(self).function(x, self.output_size)  # type: ignore[no-any-return]


class AdaptiveAvgPool1d(_AdaptivePool):
    """A fixed number of means, whatever the length of the sequence."""

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptivePool):
    """A fixed number of means, whatever the size of the image; 1 for the mean over all of it."""

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveMaxPool1d(_AdaptivePool):
    """A fixed number of maxima, whatever the length of the sequence."""

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptivePool):
    """A fixed number of maxima, whatever the size of the image."""

    function = staticmethod(F.adaptive_max_pool2d)
