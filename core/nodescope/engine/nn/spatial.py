"""Convolutions and pooling as functions, with PyTorch's names, arguments and defaults.

Invariant: each function is one op; sizes and padding are normalised here, so that ops see only
tuples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine.functions import tensor_of
from nodescope.engine.run import apply
from nodescope.engine.source import where
from nodescope.engine.tensor import NO_ATTRS, Tensor
from nodescope.errors import ShapeError, UsageError

Size = int | tuple[int, ...]


def call(name: str, *inputs: Any, **attrs: Any) -> Any:
    """Run an op on tensors, arrays and numbers."""
    tensors = tuple(
        operand if operand.__class__ is Tensor else tensor_of(operand) for operand in inputs
    )
    return apply(ops.get(name), tensors, attrs or NO_ATTRS)


def sizes(name: str, description: str, value: Any, n: int) -> tuple[int, ...]:
    """``n`` sizes from one size for all dimensions, or one for each. Raises `ShapeError`."""
    if isinstance(value, int | np.integer):
        return (int(value),) * n
    if isinstance(value, tuple | list) and len(value) == n:
        return tuple(int(size) for size in value)
    raise ShapeError(
        f"{name}: {description} {value!r} is not one size or {n}",
        source=where(),
        hint="give an int",
    )


def _padding(
    name: str, value: Any, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: Any
) -> tuple[tuple[int, int], ...]:
    n = len(kernel)
    if value == "valid":
        return ((0, 0),) * n
    if value == "same":
        if any(step != 1 for step in stride):
            raise UsageError(
                f"{name}: padding='same' needs stride 1, not {stride}",
                source=where(),
                hint="give the padding as a number",
            )
        reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return tuple((step // 2, step - step // 2) for step in reach)
    if isinstance(value, str):
        raise UsageError(
            f"{name}: padding={value!r}", source=where(), hint="use 'same', 'valid' or a number"
        )
    if isinstance(value, tuple | list) and any(isinstance(side, tuple | list) for side in value):
        return tuple(sizes(name, "padding", side, 2) for side in value)  # type: ignore[misc]
    return tuple((size, size) for size in sizes(name, "padding", value, n))


def _convolved(
    n: int, transposed: bool, x: Any, weight: Any, bias: Any, stride: Any, padding: Any,
    dilation: Any, groups: int, output_padding: Any = None,
) -> Tensor:  # fmt: skip
    name = f"conv_transpose{n}d" if transposed else f"conv{n}d"
    weight = tensor_of(weight)
    attrs: dict[str, Any] = {"stride": sizes(name, "stride", stride, n)}
    attrs["dilation"] = sizes(name, "dilation", dilation, n)
    # For a weight of the wrong rank, the op raises the error.
    kernel = weight.shape[2:] if weight.ndim == n + 2 else (1,) * n
    attrs["padding"] = _padding(name, padding, kernel, attrs["stride"], attrs["dilation"])
    attrs["groups"] = int(groups)
    if transposed:
        attrs["output_padding"] = sizes(name, "output_padding", output_padding, n)
    inputs = (x, weight) if bias is None else (x, weight, bias)
    return call(name, *inputs, **attrs)  # type: ignore[no-any-return]


def conv1d(
    x: Any, weight: Any, bias: Any = None, stride: Size = 1, padding: Any = 0, dilation: Size = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of sequences, (N, C, L) with (O, C / groups, k) to (N, O, L')."""
    return _convolved(1, False, x, weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: Any, weight: Any, bias: Any = None, stride: Size = 1, padding: Any = 0, dilation: Size = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of images, (N, C, H, W) with (O, C / groups, kh, kw) to (N, O, H', W').

    Args:
        x: Images.
        weight: Kernels.
        bias: (O,), or None.
        stride: Distance between positions of the kernel.
        padding: A number, one per dimension, pairs of (before, after), ``"same"`` or ``"valid"``.
        dilation: Distance between elements of the kernel.
        groups: Number of groups; each group of outputs sees only its own group of inputs.

    Raises:
        ShapeError: Channels, groups, ranks or sizes do not fit together.
    """
    return _convolved(2, False, x, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    x: Any, weight: Any, bias: Any = None, stride: Size = 1, padding: Any = 0,
    output_padding: Size = 0, groups: int = 1, dilation: Size = 1,
) -> Tensor:  # fmt: skip
    """The transpose of `conv1d` as a function of ``x``; the weight is (C, O / groups, k)."""
    return _convolved(1, True, x, weight, bias, stride, padding, dilation, groups, output_padding)


def conv_transpose2d(
    x: Any, weight: Any, bias: Any = None, stride: Size = 1, padding: Any = 0,
    output_padding: Size = 0, groups: int = 1, dilation: Size = 1,
) -> Tensor:  # fmt: skip
    """The transpose of `conv2d` as a function of ``x``; the weight is (C, O / groups, kh, kw)."""
    return _convolved(2, True, x, weight, bias, stride, padding, dilation, groups, output_padding)


def _pooled(
    kind: str, n: int, x: Any, kernel: Any, stride: Any, padding: Any, **options: Any
) -> Tensor:
    name = f"{kind}_pool{n}d"
    kernel = sizes(name, "kernel_size", kernel, n)
    stride = kernel if stride is None else sizes(name, "stride", stride, n)
    if "dilation" in options:
        options["dilation"] = sizes(name, "dilation", options["dilation"], n)
    padding = _padding(name, padding, kernel, stride, (1,) * n)
    return call(name, x, kernel=kernel, stride=stride, padding=padding, **options)  # type: ignore[no-any-return]


def max_pool1d(
    x: Any, kernel_size: Size, stride: Size | None = None, padding: Any = 0, dilation: Size = 1,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The largest element of each window of (N, C, L)."""
    return _pooled(
        "max", 1, x, kernel_size, stride, padding, dilation=dilation, ceil_mode=bool(ceil_mode)
    )


def max_pool2d(
    x: Any, kernel_size: Size, stride: Size | None = None, padding: Any = 0, dilation: Size = 1,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The largest element of each window of (N, C, H, W).

    Args:
        x: Images.
        kernel_size: Size of the window.
        stride: Distance between windows; the window's size if None.
        padding: At most half of the window; padding is never the largest element.
        dilation: Distance between elements of the window.
        ceil_mode: Whether to include a last window that is only partly inside.
    """
    return _pooled(
        "max", 2, x, kernel_size, stride, padding, dilation=dilation, ceil_mode=bool(ceil_mode)
    )


def avg_pool1d(
    x: Any, kernel_size: Size, stride: Size | None = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of each window of (N, C, L)."""
    return _pooled("avg", 1, x, kernel_size, stride, padding, ceil_mode=bool(ceil_mode),
                   count_include_pad=bool(count_include_pad))  # fmt: skip


def avg_pool2d(
    x: Any, kernel_size: Size, stride: Size | None = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of each window of (N, C, H, W); padding counts as 0, or not at all."""
    return _pooled("avg", 2, x, kernel_size, stride, padding, ceil_mode=bool(ceil_mode),
                   count_include_pad=bool(count_include_pad))  # fmt: skip


def _adaptive(kind: str, n: int, x: Any, output: Any) -> Tensor:
    name, x = f"adaptive_{kind}_pool{n}d", tensor_of(x)
    if isinstance(output, tuple | list) and None in output and x.ndim == n + 2:
        output = tuple(k if m is None else m for m, k in zip(output, x.shape[2:], strict=True))
    return call(name, x, output=sizes(name, "output_size", output, n))  # type: ignore[no-any-return]


def adaptive_avg_pool1d(x: Any, output_size: Any) -> Tensor:
    """(N, C, L) to (N, C, output_size): means of as many windows."""
    return _adaptive("avg", 1, x, output_size)


def adaptive_avg_pool2d(x: Any, output_size: Any) -> Tensor:
    """(N, C, H, W) to (N, C, *output_size): means of as many windows; None keeps a size."""
    return _adaptive("avg", 2, x, output_size)


def adaptive_max_pool1d(x: Any, output_size: Any) -> Tensor:
    """(N, C, L) to (N, C, output_size): maxima of as many windows."""
    return _adaptive("max", 1, x, output_size)


def adaptive_max_pool2d(x: Any, output_size: Any) -> Tensor:
    """(N, C, H, W) to (N, C, *output_size): maxima of as many windows; None keeps a size."""
    return _adaptive("max", 2, x, output_size)
