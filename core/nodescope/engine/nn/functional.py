"""Network operations as functions, with PyTorch's names, arguments and defaults.

Invariant: each is one op or a few, in a scope of their own where they are many; sizes are
normalised here, so that ops see tuples only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine.functions import (
    gelu,
    log_softmax,
    logsumexp,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    tensor_of,
)
from nodescope.engine.nn.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_similarity,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from nodescope.engine.run import apply
from nodescope.engine.scopes import name_scope
from nodescope.engine.source import where
from nodescope.engine.tensor import NO_ATTRS, Tensor
from nodescope.errors import DomainError, ShapeError, UsageError

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "avg_pool1d", "avg_pool2d", "batch_norm", "batch_norm_eval", "batch_norm_statistics",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "conv1d", "conv2d",
    "conv_transpose1d", "conv_transpose2d", "cosine_similarity", "cross_entropy", "dropout", "elu",
    "embedding", "erf", "flatten", "gelu", "glu", "group_norm", "hardsigmoid", "hardswish",
    "hardtanh", "huber_loss", "instance_norm", "kl_div", "l1_loss", "layer_norm", "leaky_relu",
    "log_softmax", "logsigmoid", "logsumexp", "max_pool1d", "max_pool2d", "mish", "mse_loss",
    "nll_loss", "prelu", "relu", "relu6", "rms_norm", "selu", "sigmoid", "silu", "smooth_l1_loss",
    "softmax", "softplus", "softsign", "swish", "tanh",
]  # fmt: skip

Size = int | tuple[int, ...]


def _call(name: str, *inputs: Any, **attrs: Any) -> Any:
    found = tuple(each if each.__class__ is Tensor else tensor_of(each) for each in inputs)
    return apply(ops.get(name), found, attrs or NO_ATTRS)


# Activations


def tanh(x: Any) -> Tensor:
    """Hyperbolic tangent, element by element."""
    return np.tanh(x)  # type: ignore[no-any-return]


def erf(x: Any) -> Tensor:
    """The error function, element by element."""
    return _call("erf", x)  # type: ignore[no-any-return]


def relu6(x: Any) -> Tensor:
    """``x`` between 0 and 6."""
    return _call("relu6", x)  # type: ignore[no-any-return]


def leaky_relu(x: Any, negative_slope: float = 0.01) -> Tensor:
    """``x``, times a small slope below 0."""
    return _call("leaky_relu", x, slope=float(negative_slope))  # type: ignore[no-any-return]


def prelu(x: Any, weight: Any) -> Tensor:
    """``x``, below 0 times a slope that is learned: one, or one per channel (axis 1)."""
    return _call("prelu", x, weight)  # type: ignore[no-any-return]


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """``x``, below 0 ``alpha (exp(x) - 1)`` (Clevert et al., 2016)."""
    return _call("elu", x, alpha=float(alpha))  # type: ignore[no-any-return]


def celu(x: Any, alpha: float = 1.0) -> Tensor:
    """``x``, below 0 ``alpha (exp(x / alpha) - 1)``."""
    if not alpha:
        raise DomainError("celu: alpha must not be 0", source=where())
    return _call("celu", x, alpha=float(alpha))  # type: ignore[no-any-return]


def selu(x: Any) -> Tensor:
    """A scaled `elu` that keeps mean 0 and variance 1."""
    return _call("selu", x)  # type: ignore[no-any-return]


def mish(x: Any) -> Tensor:
    """``x tanh(softplus(x))`` (Misra, 2019)."""
    return _call("mish", x)  # type: ignore[no-any-return]


def hardswish(x: Any) -> Tensor:
    """``x`` times `hardsigmoid`."""
    return _call("hardswish", x)  # type: ignore[no-any-return]


def hardsigmoid(x: Any) -> Tensor:
    """``x / 6 + 1 / 2`` between 0 and 1."""
    return _call("hardsigmoid", x)  # type: ignore[no-any-return]


def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """``x`` between two bounds."""
    return _call("hardtanh", x, low=float(min_val), high=float(max_val))  # type: ignore[no-any-return]


def softsign(x: Any) -> Tensor:
    """``x / (1 + |x|)``."""
    return _call("softsign", x)  # type: ignore[no-any-return]


def logsigmoid(x: Any) -> Tensor:
    """The logarithm of `sigmoid`, without computing it."""
    return _call("logsigmoid", x)  # type: ignore[no-any-return]


swish = silu


def glu(x: Any, axis: int = -1) -> Tensor:
    """The first half of ``x`` along ``axis`` times the `sigmoid` of the second."""
    x = tensor_of(x)
    if not x.ndim or x.shape[axis] % 2:
        raise ShapeError(f"glu: shape {x.shape} has no two halves along axis {axis}",
                         source=where())  # fmt: skip
    with name_scope("glu"):
        first, second = np.split(x, 2, axis=axis)
        return first * sigmoid(second)  # type: ignore[no-any-return]


# Convolution and pooling


def sizes(name: str, what: str, value: Any, n: int) -> tuple[int, ...]:
    """One size for all of ``n`` dimensions, or one for each. Raises `ShapeError`."""
    if isinstance(value, int | np.integer):
        return (int(value),) * n
    if isinstance(value, tuple | list) and len(value) == n:
        return tuple(int(each) for each in value)
    raise ShapeError(
        f"{name}: {what} {value!r} is not one size or {n}", source=where(), hint="give an int"
    )


def _padding(
    name: str, value: Any, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: Any
) -> tuple[tuple[int, int], ...]:
    n = len(kernel)
    if value == "valid":
        return ((0, 0),) * n
    if value == "same":
        if any(each != 1 for each in stride):
            raise UsageError(
                f"{name}: padding='same' needs stride 1, not {stride}",
                source=where(),
                hint="give the padding as a number",
            )
        reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return tuple((each // 2, each - each // 2) for each in reach)
    if isinstance(value, str):
        raise UsageError(
            f"{name}: padding={value!r}", source=where(), hint="use 'same', 'valid' or a number"
        )
    if isinstance(value, tuple | list) and any(isinstance(each, tuple | list) for each in value):
        return tuple(sizes(name, "padding", each, 2) for each in value)  # type: ignore[misc]
    return tuple((each, each) for each in sizes(name, "padding", value, n))


def _convolved(
    n: int, transposed: bool, x: Any, weight: Any, bias: Any, stride: Any, padding: Any,
    dilation: Any, groups: int, output_padding: Any = None,
) -> Tensor:  # fmt: skip
    name = f"conv_transpose{n}d" if transposed else f"conv{n}d"
    weight = tensor_of(weight)
    attrs: dict[str, Any] = {"stride": sizes(name, "stride", stride, n)}
    attrs["dilation"] = sizes(name, "dilation", dilation, n)
    # With another rank, the op says what is wrong.
    kernel = weight.shape[2:] if weight.ndim == n + 2 else (1,) * n
    attrs["padding"] = _padding(name, padding, kernel, attrs["stride"], attrs["dilation"])
    attrs["groups"] = int(groups)
    if transposed:
        attrs["output_padding"] = sizes(name, "output_padding", output_padding, n)
    inputs = (x, weight) if bias is None else (x, weight, bias)
    return _call(name, *inputs, **attrs)  # type: ignore[no-any-return]


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
        stride: Between positions.
        padding: A number, one per dimension, pairs of (before, after), ``"same"`` or ``"valid"``.
        dilation: Between elements of the kernel.
        groups: Each group of outputs sees its own group of inputs only.

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
    what: str, n: int, x: Any, kernel: Any, stride: Any, padding: Any, **options: Any
) -> Tensor:
    name = f"{what}_pool{n}d"
    kernel = sizes(name, "kernel_size", kernel, n)
    stride = kernel if stride is None else sizes(name, "stride", stride, n)
    if "dilation" in options:
        options["dilation"] = sizes(name, "dilation", options["dilation"], n)
    padding = _padding(name, padding, kernel, stride, (1,) * n)
    return _call(name, x, kernel=kernel, stride=stride, padding=padding, **options)  # type: ignore[no-any-return]


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
        kernel_size: Of the window.
        stride: Between windows; the window's size if None.
        padding: At most half of the window; what is padded is never the largest.
        dilation: Between elements of the window.
        ceil_mode: Also a last window that is only partly inside.
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


def _adaptive(what: str, n: int, x: Any, output: Any) -> Tensor:
    name, x = f"adaptive_{what}_pool{n}d", tensor_of(x)
    if isinstance(output, tuple | list) and None in output and x.ndim == n + 2:
        output = tuple(k if m is None else m for m, k in zip(output, x.shape[2:], strict=True))
    return _call(name, x, output=sizes(name, "output_size", output, n))  # type: ignore[no-any-return]


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


def flatten(x: Any, start: int = 0) -> Tensor:
    """All dimensions from ``start`` on as one."""
    x = tensor_of(x)
    lead = x.shape[:start]
    size = int(np.prod(x.shape[start:], dtype=np.int64))
    return x.reshape(*lead, size)


# Normalisation


def _normal(kind: str, x: Any, weight: Any, bias: Any, **attrs: Any) -> Any:
    if weight is None and bias is not None:
        weight = np.ones(bias.shape, bias.dtype)
    params = [each for each in (weight, bias) if each is not None]
    return _call(kind, x, *params, **attrs)


def _dims(kind: str, x: Any, shape: Any) -> int:
    last = (shape,) if isinstance(shape, int) else tuple(shape)
    if not last or x.shape[-len(last) :] != last:
        raise ShapeError(
            f"{kind}: an input of shape {x.shape} does not end in {last}", source=where()
        )
    return len(last)


def layer_norm(
    x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """The last dimensions to mean 0 and variance 1, times weight, plus bias."""
    x = tensor_of(x)
    dims = _dims("layer_norm", x, normalized_shape)
    return _normal("layer_norm", x, weight, bias, dims=dims, eps=float(eps))  # type: ignore[no-any-return]


def rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float = 1e-6) -> Tensor:
    """The last dimensions over their root mean square, times weight."""
    x = tensor_of(x)
    dims = _dims("rms_norm", x, normalized_shape)
    return _normal("rms_norm", x, weight, None, dims=dims, eps=float(eps))  # type: ignore[no-any-return]


def group_norm(
    x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Groups of channels (axis 1) of each element to mean 0 and variance 1."""
    return _normal("group_norm", x, weight, bias, groups=int(groups), eps=float(eps))  # type: ignore[no-any-return]


def instance_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Each channel of each element to mean 0 and variance 1."""
    return _normal("instance_norm", x, weight, bias, eps=float(eps))  # type: ignore[no-any-return]


def batch_norm_statistics(
    x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """Each channel over the batch to mean 0 and variance 1; and that mean and variance."""
    out, mean, variance = _normal("batch_norm", x, weight, bias, eps=float(eps))
    return out, mean, variance


def batch_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Each channel over the batch to mean 0 and variance 1, times weight, plus bias."""
    return batch_norm_statistics(x, weight, bias, eps)[0]


def batch_norm_eval(
    x: Any, mean: Any, variance: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """`batch_norm` with statistics that are given."""
    if weight is None and bias is not None:
        weight = np.ones(bias.shape, bias.dtype)
    params = [each for each in (weight, bias) if each is not None]
    return _call("batch_norm_eval", x, mean, variance, *params, eps=float(eps))  # type: ignore[no-any-return]


# Tables and masks


def embedding(indices: Any, weight: Any, padding_idx: int | None = None) -> Tensor:
    """Rows of ``weight`` by number; the row ``padding_idx`` gets no gradient.

    Raises:
        BoundsError: An index is outside of the table; it is named.
        DtypeError: The indices are not integers.
    """
    attrs = {} if padding_idx is None else {"padding_idx": int(padding_idx)}
    return _call("embedding", weight, indices, **attrs)  # type: ignore[no-any-return]


def dropout(x: Any, p: float = 0.5, *, rng: Any, training: bool = True) -> Tensor:
    """Each element with probability ``p`` to 0, the others times ``1 / (1 - p)``.

    Args:
        x: Floating point, any shape.
        p: From 0 to below 1.
        rng: A `nodescope.random.Generator`, or a key that is used for nothing else.
        training: Whether anything is dropped.
    """
    x = tensor_of(x)
    if not training or not p:
        return x
    from nodescope.engine.random import Generator, bernoulli

    with name_scope("dropout"):
        if isinstance(rng, Generator):
            mask = rng.bernoulli(1.0 - p, x.shape)
        else:
            mask = bernoulli(rng, 1.0 - p, x.shape)
        return _call("dropout", x, mask, p=float(p))  # type: ignore[no-any-return]
