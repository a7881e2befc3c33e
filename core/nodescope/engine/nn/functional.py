"""Network operations as functions, with PyTorch's names, arguments and defaults.

Invariant: each function is one op or a few; sizes are normalised here, so that ops see only tuples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.emit.scopes import name_scope
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
from nodescope.engine.nn.spatial import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    avg_pool1d,
    avg_pool2d,
    call,
    conv1d,
    conv2d,
    conv_transpose1d,
    conv_transpose2d,
    max_pool1d,
    max_pool2d,
)
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import DomainError, ShapeError

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "avg_pool1d", "avg_pool2d", "batch_norm", "batch_norm_eval", "batch_norm_statistics",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "conv1d", "conv2d",
    "conv_transpose1d", "conv_transpose2d", "cosine_similarity", "cross_entropy", "dropout", "elu",
    "embedding", "erf", "flatten", "gelu", "glu", "group_norm", "hardsigmoid", "hardswish",
    "hardtanh", "huber_loss", "instance_norm", "kl_div", "l1_loss", "layer_norm", "leaky_relu",
    "linear", "log_softmax", "logsigmoid", "logsumexp", "max_pool1d", "max_pool2d", "mish",
    "mse_loss", "nll_loss", "prelu", "relu", "relu6", "rms_norm", "selu", "sigmoid", "silu",
    "smooth_l1_loss", "softmax", "softplus", "softsign", "swish", "tanh",
]  # fmt: skip

# Activations


def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """``x @ weight + bias``, as the layer `nodescope.nn.Linear` does.

    Args:
        x: (..., inputs).
        weight: (inputs, outputs), the transpose of PyTorch's.
        bias: (outputs,), or None for none.

    Raises:
        ShapeError: The sizes do not fit.
    """
    inputs, matrix = tensor_of(x), tensor_of(weight)
    if matrix.ndim != 2 or not inputs.ndim or inputs.shape[-1] != matrix.shape[0]:
        raise ShapeError(
            f"linear: a weight of shape {matrix.shape} for inputs of shape {inputs.shape}",
            source=where(),
            hint="a weight is (inputs, outputs); transpose a PyTorch weight with weight.T",
        )
    product: Any = inputs @ matrix
    return product if bias is None else product + tensor_of(bias)  # type: ignore[no-any-return]


def tanh(x: Any) -> Tensor:
    """Hyperbolic tangent, elementwise."""
    return np.tanh(x)  # type: ignore[no-any-return]


def erf(x: Any) -> Tensor:
    """The error function, elementwise."""
    return call("erf", x)  # type: ignore[no-any-return]


def relu6(x: Any) -> Tensor:
    """``x`` clipped to the range from 0 to 6."""
    return call("relu6", x)  # type: ignore[no-any-return]


def leaky_relu(x: Any, negative_slope: float = 0.01) -> Tensor:
    """``x``, times a small slope below 0."""
    return call("leaky_relu", x, slope=float(negative_slope))  # type: ignore[no-any-return]


def prelu(x: Any, weight: Any) -> Tensor:
    """``x``, multiplied below 0 by a learned slope: one, or one per channel (axis 1)."""
    return call("prelu", x, weight)  # type: ignore[no-any-return]


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """``x``; below 0, ``alpha (exp(x) - 1)`` (Clevert et al., 2016)."""
    return call("elu", x, alpha=float(alpha))  # type: ignore[no-any-return]


def celu(x: Any, alpha: float = 1.0) -> Tensor:
    """``x``; below 0, ``alpha (exp(x / alpha) - 1)``."""
    if not alpha:
        raise DomainError("celu: alpha must not be 0", source=where())
    return call("celu", x, alpha=float(alpha))  # type: ignore[no-any-return]


def selu(x: Any) -> Tensor:
    """A scaled `elu` that keeps mean 0 and variance 1."""
    return call("selu", x)  # type: ignore[no-any-return]


def mish(x: Any) -> Tensor:
    """``x tanh(softplus(x))`` (Misra, 2019)."""
    return call("mish", x)  # type: ignore[no-any-return]


def hardswish(x: Any) -> Tensor:
    """``x`` times `hardsigmoid`."""
    return call("hardswish", x)  # type: ignore[no-any-return]


def hardsigmoid(x: Any) -> Tensor:
    """``x / 6 + 1 / 2`` between 0 and 1."""
    return call("hardsigmoid", x)  # type: ignore[no-any-return]


def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """``x`` between two bounds."""
    return call("hardtanh", x, low=float(min_val), high=float(max_val))  # type: ignore[no-any-return]


def softsign(x: Any) -> Tensor:
    """``x / (1 + |x|)``."""
    return call("softsign", x)  # type: ignore[no-any-return]


def logsigmoid(x: Any) -> Tensor:
    """The logarithm of `sigmoid`, without computing the sigmoid."""
    return call("logsigmoid", x)  # type: ignore[no-any-return]


swish = silu


def glu(x: Any, axis: int = -1) -> Tensor:
    """The first half of ``x`` along ``axis`` times the `sigmoid` of the second."""
    x = tensor_of(x)
    if not x.ndim or x.shape[axis] % 2:
        raise ShapeError(f"glu: shape {x.shape} cannot be split in half along axis {axis}",
                         source=where())  # fmt: skip
    with name_scope("glu"):
        halves: Any = np.split(x, 2, axis=axis)
        return halves[0] * sigmoid(halves[1])  # type: ignore[no-any-return]


def flatten(x: Any, start: int = 0) -> Tensor:
    """Merge all dimensions from ``start`` on into one."""
    x = tensor_of(x)
    lead = x.shape[:start]
    size = int(np.prod(x.shape[start:], dtype=np.int64))
    flattened: Tensor = x.reshape(*lead, size)
    return flattened


# Normalisation


def _normal(kind: str, x: Any, weight: Any, bias: Any, **attrs: Any) -> Any:
    if weight is None and bias is not None:
        weight = np.ones(bias.shape, bias.dtype)
    params = [parameter for parameter in (weight, bias) if parameter is not None]
    return call(kind, x, *params, **attrs)


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
    """Normalise the last dimensions to mean 0 and variance 1; multiply by weight, add bias."""
    x = tensor_of(x)
    dims = _dims("layer_norm", x, normalized_shape)
    return _normal("layer_norm", x, weight, bias, dims=dims, eps=float(eps))  # type: ignore[no-any-return]


def rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float = 1e-6) -> Tensor:
    """Divide the last dimensions by their root mean square; multiply by weight."""
    x = tensor_of(x)
    dims = _dims("rms_norm", x, normalized_shape)
    return _normal("rms_norm", x, weight, None, dims=dims, eps=float(eps))  # type: ignore[no-any-return]


def group_norm(
    x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Normalise groups of channels (axis 1) of each element to mean 0 and variance 1."""
    return _normal("group_norm", x, weight, bias, groups=int(groups), eps=float(eps))  # type: ignore[no-any-return]


def instance_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Normalise each channel of each element to mean 0 and variance 1."""
    return _normal("instance_norm", x, weight, bias, eps=float(eps))  # type: ignore[no-any-return]


def batch_norm_statistics(
    x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """`batch_norm`, and the mean and variance of each channel."""
    out, mean, variance = _normal("batch_norm", x, weight, bias, eps=float(eps))
    return out, mean, variance


def batch_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Normalise each channel over the batch to mean 0, variance 1; multiply by weight, add bias."""
    return batch_norm_statistics(x, weight, bias, eps)[0]


def batch_norm_eval(
    x: Any, mean: Any, variance: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """`batch_norm` with given statistics."""
    if weight is None and bias is not None:
        weight = np.ones(bias.shape, bias.dtype)
    params = [parameter for parameter in (weight, bias) if parameter is not None]
    return call("batch_norm_eval", x, mean, variance, *params, eps=float(eps))  # type: ignore[no-any-return]


# Tables and masks


def embedding(indices: Any, weight: Any, padding_idx: int | None = None) -> Tensor:
    """Rows of ``weight`` by index; the row ``padding_idx`` gets no gradient.

    Raises:
        BoundsError: An index is out of range; the message names it.
        DtypeError: The indices are not integers.
    """
    attrs = {} if padding_idx is None else {"padding_idx": int(padding_idx)}
    return call("embedding", weight, indices, **attrs)  # type: ignore[no-any-return]


def dropout(x: Any, p: float = 0.5, *, rng: Any, training: bool = True) -> Tensor:
    """Set each element to 0 with probability ``p``; multiply the others by ``1 / (1 - p)``.

    Args:
        x: Floating point, any shape.
        p: Probability, from 0 to below 1.
        rng: A `nodescope.random.Generator`, or a key that is used for nothing else.
        training: Whether to drop elements.
    """
    tensor: Tensor = tensor_of(x)
    if not training or not p:
        return tensor
    from nodescope.engine.random import Generator, bernoulli

    with name_scope("dropout"):
        if isinstance(rng, Generator):
            mask = rng.bernoulli(1.0 - p, tensor.shape)
        else:
            mask = bernoulli(rng, 1.0 - p, tensor.shape)
        return call("dropout", tensor, mask, p=float(p))  # type: ignore[no-any-return]
