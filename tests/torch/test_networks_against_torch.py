"""Network operations beside PyTorch's: values and gradients in float64, over many parameters."""

# ruff: noqa: B023 (the functions are called before the loop goes on)

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as T

import nodescope as ns
from nodescope import nn

F = nn.functional
RNG = np.random.default_rng


def same(result: Any, expected: Any, rtol: float = 1e-9) -> None:
    result = result.numpy() if hasattr(result, "numpy") else np.asarray(result)
    expected = expected.detach().numpy()
    assert result.shape == expected.shape
    scale = max(float(np.abs(expected).max(initial=0.0)), 1.0)
    np.testing.assert_allclose(result, expected, rtol=rtol, atol=1e-12 * scale)


def compare(
    function: Callable[..., Any],
    torch_function: Callable[..., Any],
    *arrays: Any,
    fixed: int = 0,
    rtol: float = 1e-9,
) -> None:
    """Values, and gradients of all arrays but the last ``fixed``."""
    free = len(arrays) - fixed
    tensors = [ns.tensor(a, requires_grad=i < free) for i, a in enumerate(arrays)]
    peers = [torch.tensor(a, requires_grad=i < free) for i, a in enumerate(arrays)]
    out, expected = function(*tensors), torch_function(*peers)
    same(out, expected)
    ct = RNG(9).standard_normal(out.shape)
    out.backward(ct)
    expected.backward(torch.tensor(ct))
    for a, b in zip(tensors[:free], peers[:free], strict=True):
        assert a.grad is not None
        assert b.grad is not None
        same(a.grad, b.grad, rtol)


def arrays(*shapes: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    rng = RNG(seed)
    return [rng.standard_normal(shape) for shape in shapes]


# Convolution

CONVOLUTIONS = list(itertools.product([1, 2], [1, 2, 3], [0, 1, 2], [1, 2], [1, 2], [True, False]))


@pytest.mark.parametrize(("n", "stride", "padding", "dilation", "groups", "bias"), CONVOLUTIONS)
@pytest.mark.parametrize("kernel", [1, 2, 3])
def test_convolution(
    n: int, stride: int, padding: int, dilation: int, groups: int, bias: bool, kernel: int
) -> None:
    x, w, b = arrays((2, 4, 7, 6)[: n + 2], (6, 4 // groups, *(kernel,) * n), (6,))
    operands = [x, w, b] if bias else [x, w]
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    compare(
        lambda *a: getattr(F, f"conv{n}d")(*a, **options),
        lambda *a: getattr(T, f"conv{n}d")(*a, **options),
        *operands,
    )


@pytest.mark.parametrize("groups", [1, 4])
def test_convolution_of_unequal_sizes_and_many_channels(groups: int) -> None:
    x, w, b = arrays((3, 4, 9, 5), (24, 4 // groups, 3, 2), (24,))
    options: Any = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": groups}
    compare(lambda *a: F.conv2d(*a, **options), lambda *a: T.conv2d(*a, **options), x, w, b)


@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_padding_by_name(kernel: int, dilation: int) -> None:
    x, w = arrays((2, 3, 8, 7), (4, 3, kernel, kernel))
    for padding in ("same", "valid"):
        options: Any = {"padding": padding, "dilation": dilation}
        compare(lambda *a: F.conv2d(*a, **options), lambda *a: T.conv2d(*a, **options), x, w)


@pytest.mark.parametrize(
    ("n", "stride", "padding", "dilation", "groups", "more"),
    [
        item
        for item in itertools.product([1, 2], [1, 2, 3], [0, 1], [1, 2], [1, 2], [0, 1])
        if item[5] < max(item[1], item[3])
    ],
)
def test_transposed_convolution(
    n: int, stride: int, padding: int, dilation: int, groups: int, more: int
) -> None:
    x, w, b = arrays((2, 4, 5, 4)[: n + 2], (4, 6 // groups, *(3,) * n), (6,))
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
               "output_padding": more}  # fmt: skip
    compare(
        lambda *a: getattr(F, f"conv_transpose{n}d")(*a, **options),
        lambda *a: getattr(T, f"conv_transpose{n}d")(*a, **options),
        x, w, b,
    )  # fmt: skip


def test_second_derivatives_of_a_convolution() -> None:
    x, w = arrays((2, 4, 6, 5), (6, 2, 3, 3))
    options: Any = {"stride": 2, "padding": 1, "groups": 2}

    def slope(y: Any) -> Any:
        return (y * y * y).sum()

    tensors = [ns.tensor(a, requires_grad=True) for a in (x, w)]
    grads = ns.grad(lambda a, b: slope(F.conv2d(a, b, **options)), (0, 1))(*tensors)
    (grads[0] * grads[0]).sum().backward()
    peers = [torch.tensor(a, requires_grad=True) for a in (x, w)]
    first = torch.autograd.grad(slope(T.conv2d(*peers, **options)), peers, create_graph=True)
    (first[0] * first[0]).sum().backward()
    for a, b in zip(tensors, peers, strict=True):
        same(a.grad, b.grad)


# Pooling


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [
    (2, 2, 0), (2, 1, 1), (3, 2, 1), (3, 1, 0), (3, 3, 1), (2, 3, 0), (4, 3, 2),
])  # fmt: skip
@pytest.mark.parametrize("n", [1, 2])
def test_pooling(n: int, kernel: int, stride: int, padding: int, ceil: bool) -> None:
    (x,) = arrays((2, 3, 9, 8)[: n + 2])
    options: Any = {"stride": stride, "padding": padding, "ceil_mode": ceil}
    compare(
        lambda a: getattr(F, f"max_pool{n}d")(a, kernel, **options),
        lambda a: getattr(T, f"max_pool{n}d")(a, kernel, **options),
        x,
    )
    for counted in (True, False):
        options["count_include_pad"] = counted
        compare(
            lambda a: getattr(F, f"avg_pool{n}d")(a, kernel, **options),
            lambda a: getattr(T, f"avg_pool{n}d")(a, kernel, **options),
            x,
        )


def test_pooling_with_dilation_ties_and_pairs() -> None:
    (x,) = arrays((2, 3, 9, 8))
    ties = np.round(x)
    for operand in (x, ties):
        compare(
            lambda a: F.max_pool2d(a, (2, 3), (2, 1), (0, 1), (3, 2)),
            lambda a: T.max_pool2d(a, (2, 3), (2, 1), (0, 1), (3, 2)),
            operand,
        )
        compare(lambda a: F.max_pool2d(a, 2), lambda a: T.max_pool2d(a, 2), operand)


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("output", [(1, 1), (3, 2), (4, 7), (9, 8), (2, 4)])
def test_adaptive_pooling(kind: str, output: tuple[int, int]) -> None:
    x, line = arrays((2, 3, 9, 8), (2, 3, 7))
    compare(
        lambda a: getattr(F, f"adaptive_{kind}_pool2d")(a, output),
        lambda a: getattr(T, f"adaptive_{kind}_pool2d")(a, output),
        x,
    )
    compare(
        lambda a: getattr(F, f"adaptive_{kind}_pool1d")(a, output[0]),
        lambda a: getattr(T, f"adaptive_{kind}_pool1d")(a, output[0]),
        line,
    )


# Normalisation


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 3), (4, 6, 3, 2)])
def test_normalisation(shape: tuple[int, ...]) -> None:
    x, w, b, last = arrays(shape, (6,), (6,), shape[1:])
    compare(
        lambda *a: F.batch_norm(*a),
        lambda a, c, d: T.batch_norm(a, None, None, c, d, training=True),
        x, w, b,
    )  # fmt: skip
    mean, var = RNG(1).standard_normal(6), RNG(1).uniform(0.5, 2, 6)
    compare(
        lambda a, c, d: F.batch_norm_eval(a, mean, var, c, d),
        lambda a, c, d: T.batch_norm(a, torch.tensor(mean), torch.tensor(var), c, d),
        x, w, b,
    )  # fmt: skip
    compare(
        lambda *a: F.layer_norm(a[0], shape[1:], *a[1:]),
        lambda *a: T.layer_norm(a[0], shape[1:], *a[1:]),
        x, last, last + 1,
    )  # fmt: skip
    compare(
        lambda a, c: F.rms_norm(a, shape[1:], c, 1e-6),
        lambda a, c: T.rms_norm(a, shape[1:], c, 1e-6),
        x, last,
    )  # fmt: skip
    if len(shape) > 2:
        compare(
            lambda *a: F.group_norm(a[0], 3, *a[1:]),
            lambda *a: T.group_norm(a[0], 3, *a[1:]),
            x, w, b,
        )  # fmt: skip
        compare(
            lambda *a: F.instance_norm(*a),
            lambda a, c, d: T.instance_norm(a, weight=c, bias=d),
            x, w, b,
        )  # fmt: skip


def test_running_statistics() -> None:
    norm, peer = nn.BatchNorm2d(3, dtype=np.float64), torch.nn.BatchNorm2d(3).double()
    for seed in range(3):
        (x,) = arrays((4, 3, 2, 5), seed=seed)
        same(norm(ns.tensor(x)), peer(torch.tensor(x)))
    same(norm.running_mean, peer.running_mean)
    same(norm.running_var, peer.running_var)
    norm.eval()
    peer.eval()
    same(norm(ns.tensor(x)), peer(torch.tensor(x)))


# Activations

ACTIVATIONS: list[tuple[str, Any, Any]] = [
    ("relu", F.relu, T.relu), ("relu6", F.relu6, T.relu6), ("elu", F.elu, T.elu),
    ("leaky_relu", lambda x: F.leaky_relu(x, 0.2), lambda x: T.leaky_relu(x, 0.2)),
    ("elu_alpha", lambda x: F.elu(x, 0.7), lambda x: T.elu(x, 0.7)), ("selu", F.selu, T.selu),
    ("celu", lambda x: F.celu(x, 1.5), lambda x: T.celu(x, 1.5)), ("gelu", F.gelu, T.gelu),
    ("gelu_tanh", lambda x: F.gelu(x, "tanh"), lambda x: T.gelu(x, approximate="tanh")),
    ("silu", F.silu, T.silu), ("mish", F.mish, T.mish), ("hardswish", F.hardswish, T.hardswish),
    ("hardsigmoid", F.hardsigmoid, T.hardsigmoid), ("softsign", F.softsign, T.softsign),
    ("hardtanh", lambda x: F.hardtanh(x, -0.5, 2), lambda x: T.hardtanh(x, -0.5, 2)),
    ("logsigmoid", F.logsigmoid, T.logsigmoid), ("glu", F.glu, T.glu),
    ("erf", F.erf, torch.erf), ("sigmoid", F.sigmoid, torch.sigmoid),
    ("softplus", F.softplus, lambda x: T.softplus(x, threshold=1000)),
    ("softmax", F.softmax, lambda x: T.softmax(x, -1)),
    ("log_softmax", F.log_softmax, lambda x: T.log_softmax(x, -1)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "function", "torch_function"), ACTIVATIONS, ids=[a[0] for a in ACTIVATIONS]
)
def test_activations(name: str, function: Any, torch_function: Any) -> None:
    x = np.concatenate([np.linspace(-8, 8, 64), [-3.0, 3.0, 0.0, 6.0, 100.0, -100.0, 1.0, -1.0]])
    # PyTorch stores 1/6 as a float32.
    rtol = 1e-7 if name == "hardsigmoid" else 1e-9
    compare(function, torch_function, x.reshape(8, 9)[:, :8], rtol=rtol)


@pytest.mark.parametrize("slopes", [(1,), (3,)])
def test_prelu(slopes: tuple[int, ...]) -> None:
    compare(F.prelu, T.prelu, *arrays((4, 3, 5), slopes))


# Losses


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("ignore", [-100, 2])
@pytest.mark.parametrize("shape", [(6, 4), (3, 4, 5), (2, 4, 3, 2)])
def test_cross_entropy(
    shape: tuple[int, ...], ignore: int, smoothing: float, reduction: str
) -> None:
    (x,) = arrays(shape)
    labels = RNG(1).integers(0, 4, (shape[0], *shape[2:]))
    labels.flat[1] = ignore
    compare(
        lambda a: F.cross_entropy(
            a, labels, label_smoothing=smoothing, ignore_index=ignore, reduction=reduction
        ),
        lambda a: T.cross_entropy(
            a, torch.tensor(labels), label_smoothing=smoothing, ignore_index=ignore,
            reduction=reduction,
        ),
        x,
    )  # fmt: skip
    soft = np.moveaxis(RNG(2).dirichlet(np.ones(4), labels.shape), -1, 1)
    compare(
        lambda a, b: F.cross_entropy(a, b, label_smoothing=smoothing, reduction=reduction),
        lambda a, b: T.cross_entropy(a, b, label_smoothing=smoothing, reduction=reduction),
        x, np.ascontiguousarray(soft),
    )  # fmt: skip
    compare(
        lambda a: F.nll_loss(a, labels, ignore_index=ignore, reduction=reduction),
        lambda a: T.nll_loss(a, torch.tensor(labels), ignore_index=ignore, reduction=reduction),
        x,
    )


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_pointwise_losses(reduction: str) -> None:
    a, b = arrays((5, 4), (5, 4))
    p, q = RNG(3).uniform(0.05, 0.95, (2, 5, 4))
    r: Any = {"reduction": reduction}
    compare(lambda x, y: F.mse_loss(x, y, **r), lambda x, y: T.mse_loss(x, y, **r), a, b)
    compare(lambda x, y: F.l1_loss(x, y, **r), lambda x, y: T.l1_loss(x, y, **r), a, b)
    for width in (0.5, 1.0):
        compare(
            lambda x, y: F.huber_loss(x, y, delta=width, **r),
            lambda x, y: T.huber_loss(x, y, delta=width, **r),
            a, b,
        )  # fmt: skip
        compare(
            lambda x, y: F.smooth_l1_loss(x, y, beta=width, **r),
            lambda x, y: T.smooth_l1_loss(x, y, beta=width, **r),
            a, b,
        )  # fmt: skip
    compare(
        lambda x, y: F.binary_cross_entropy(x, y, **r),
        lambda x, y: T.binary_cross_entropy(x, y, **r),
        p, q, fixed=1,
    )  # fmt: skip
    compare(
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, **r),
        lambda x, y: T.binary_cross_entropy_with_logits(x, y, **r),
        a, q,
    )  # fmt: skip
    for log in (False, True):
        compare(
            lambda x, y: F.kl_div(x, y, log_target=log, **r),
            lambda x, y: T.kl_div(x, y, log_target=log, **r),
            a, q, fixed=1,
        )  # fmt: skip


def test_batchmean_certain_mistakes_and_cosine() -> None:
    a, b = arrays((5, 4), (5, 4))
    q = RNG(3).uniform(0.05, 0.95, (5, 4))
    compare(
        lambda x: F.kl_div(x, q, "batchmean"),
        lambda x: T.kl_div(x, torch.tensor(q), reduction="batchmean"),
        a,
    )
    compare(F.cosine_similarity, T.cosine_similarity, a, b)
    # PyTorch stores the 1e-12 that bounds the slope as a float32.
    p, t = np.array([0.0, 1.0, 0.0, 1.0, 0.5]), np.array([1.0, 0.0, 0.0, 1.0, 1.0])
    compare(
        F.binary_cross_entropy,
        lambda x, y: T.binary_cross_entropy(x, y),
        p, t, fixed=1, rtol=1e-7,
    )  # fmt: skip


# Embedding, attention, recurrent cells


def test_embedding() -> None:
    (table,) = arrays((7, 3))
    for index in (np.array([[1, 6], [1, 0]]), np.array(2), np.zeros((0, 2), np.int64)):
        for padding in (None, 1):
            compare(
                lambda w: F.embedding(index, w, padding),
                lambda w: T.embedding(torch.tensor(index), w, padding),
                table,
            )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [None, "bool", "float"])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention(causal: bool, mask: str | None, scale: float | None) -> None:
    q, k, v = arrays((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 7))
    keep = RNG(4).random((2, 1, 5, 6)) > 0.4
    keep[..., 0] = True  # PyTorch gives NaN for a query without keys
    given: Any = None
    if mask == "bool":
        given = keep
    elif mask == "float":
        given = np.where(keep, RNG(5).standard_normal(keep.shape), -np.inf)
    merged = given
    if causal and given is not None:  # PyTorch takes either a mask or `is_causal`.
        earlier = np.tril(np.ones((5, 6), bool))
        merged = given & earlier if mask == "bool" else np.where(earlier, given, -np.inf)
    compare(
        lambda *a: nn.scaled_dot_product_attention(*a, given, causal=causal, scale=scale),
        lambda *a: T.scaled_dot_product_attention(
            *a, None if merged is None else torch.tensor(merged),
            is_causal=causal and given is None, scale=scale,
        ),
        q, k, v,
    )  # fmt: skip


def copied(cell: Any, peer: Any, suffix: str = "") -> None:
    """PyTorch's weights, which are transposed."""
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        value = getattr(peer, name + suffix).detach().numpy()
        ns.assign(getattr(cell, name), value.T.copy())


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells(kind: str) -> None:
    cell = getattr(nn, kind)(3, 4, rng=RNG(0), dtype=np.float64)
    peer = getattr(torch.nn, kind)(3, 4).double()
    copied(cell, peer)
    x, h, c = arrays((5, 3), (5, 4), (5, 4))
    two = kind == "LSTMCell"

    def run_cell(x: Any, h: Any, c: Any) -> Any:
        return np.concatenate(cell(x, (h, c))) if two else cell(x, h) * c

    def run_peer(x: Any, h: Any, c: Any) -> Any:
        return torch.cat(peer(x, (h, c))) if two else peer(x, h) * c

    compare(run_cell, run_peer, x, h, c)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        same(getattr(cell, name).grad.numpy().T, getattr(peer, name).grad)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_layers_over_time_with_lengths(kind: str) -> None:
    layer = getattr(nn, kind)(3, 4, 2, rng=RNG(0), dtype=np.float64)
    peer = getattr(torch.nn, kind)(3, 4, 2, batch_first=True).double()
    for i, cell in enumerate(layer.cell):
        copied(cell, peer, f"_l{i}")
    (x,) = arrays((3, 6, 3))
    lengths = np.array([6, 2, 4])
    compare(lambda a: layer(a)[0], lambda a: peer(a)[0], x)
    packed = torch.nn.utils.rnn.pack_padded_sequence
    unpacked = torch.nn.utils.rnn.pad_packed_sequence

    def run_peer(a: Any) -> Any:
        out, _ = peer(packed(a, torch.tensor(lengths), batch_first=True, enforce_sorted=False))
        return unpacked(out, batch_first=True)[0]

    compare(lambda a: layer(a, lengths=lengths)[0], run_peer, x)
    _, state = layer(ns.tensor(x), lengths=lengths)
    _, last = peer(packed(torch.tensor(x), torch.tensor(lengths), batch_first=True,
                          enforce_sorted=False))  # fmt: skip
    result = [item[0] for item in state] if kind == "LSTM" else state
    for result_state, peer_state in zip(result, last[0] if kind == "LSTM" else last, strict=True):
        same(result_state, peer_state)


def test_multi_head_attention() -> None:
    layer = nn.MultiHeadAttention(8, 2, rng=RNG(0), dtype=np.float64)
    peer = torch.nn.MultiheadAttention(8, 2, batch_first=True).double()
    with torch.no_grad():
        parts = (layer.query, layer.key, layer.value)
        peer.in_proj_weight.copy_(
            torch.tensor(np.concatenate([part.weight.numpy().T for part in parts]))
        )
        peer.out_proj.weight.copy_(torch.tensor(layer.output.weight.numpy().T.copy()))
    q, k, v = arrays((2, 5, 8), (2, 4, 8), (2, 4, 8))
    compare(lambda *a: layer(*a), lambda *a: peer(*a, need_weights=False)[0], q, k, v)
