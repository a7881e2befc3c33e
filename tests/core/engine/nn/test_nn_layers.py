"""Layers: shapes, modes, state, lengths, masks, errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import nn, optim
from nodescope.errors import (
    BoundsError,
    DomainError,
    DtypeError,
    NodescopeError,
    ShapeError,
    UsageError,
)
from tests.core.engine.events_of import observed

F = nn.functional
RNG = np.random.default_rng


def normal(*shape: int, seed: int = 0) -> Any:
    return ns.tensor(RNG(seed).standard_normal(shape).astype(np.float32))


LAYERS: list[tuple[Any, tuple[int, ...], tuple[int, ...]]] = [
    (nn.Conv1d(3, 4, 3, rng=RNG(0), padding="same"), (2, 3, 7), (2, 4, 7)),
    (nn.Conv2d(4, 6, (3, 2), rng=RNG(0), stride=2, groups=2), (2, 4, 7, 6), (2, 6, 3, 3)),
    (nn.ConvTranspose1d(4, 3, 3, rng=RNG(0), stride=2), (2, 4, 5), (2, 3, 11)),
    (nn.ConvTranspose2d(4, 6, 2, rng=RNG(0), stride=2, groups=2, output_padding=1),
     (1, 4, 3, 3), (1, 6, 7, 7)),
    (nn.MaxPool1d(2), (2, 3, 6), (2, 3, 3)),
    (nn.MaxPool2d(2, padding=1), (2, 3, 6, 6), (2, 3, 4, 4)),
    (nn.AvgPool1d(3, 1), (2, 3, 6), (2, 3, 4)),
    (nn.AvgPool2d(3, 2, count_include_pad=False), (2, 3, 7, 7), (2, 3, 3, 3)),
    (nn.AdaptiveAvgPool1d(2), (2, 3, 5), (2, 3, 2)),
    (nn.AdaptiveAvgPool2d((None, 1)), (2, 3, 5, 4), (2, 3, 5, 1)),
    (nn.AdaptiveMaxPool1d(1), (2, 3, 5), (2, 3, 1)),
    (nn.AdaptiveMaxPool2d(2), (2, 3, 5, 4), (2, 3, 2, 2)),
    (nn.BatchNorm1d(3), (4, 3), (4, 3)),
    (nn.BatchNorm2d(3, affine=False), (2, 3, 4, 4), (2, 3, 4, 4)),
    (nn.LayerNorm((3, 4)), (2, 3, 4), (2, 3, 4)),
    (nn.RMSNorm(4), (2, 3, 4), (2, 3, 4)),
    (nn.GroupNorm(2, 4), (2, 4, 3), (2, 4, 3)),
    (nn.Flatten(), (2, 3, 4), (2, 12)),
    (nn.Dropout(0.5, rng=1), (2, 3), (2, 3)),
    (nn.MultiHeadAttention(8, 2, rng=RNG(0), dropout=0.1), (2, 5, 8), (2, 5, 8)),
    (nn.TransformerBlock(8, 2, rng=RNG(0), dropout=0.1, causal=True), (2, 5, 8), (2, 5, 8)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("layer", "argument", "expected"), LAYERS, ids=[type(item[0]).__name__ for item in LAYERS]
)
def test_layers_keep_dtype_and_reach_every_parameter(
    layer: Any, argument: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    out = layer(normal(*argument))
    assert out.shape == expected
    assert out.dtype == np.float32
    (out * normal(*out.shape, seed=1)).sum().backward() if layer.parameters() else None
    assert all(parameter.grad is not None for parameter in layer.parameters())
    layer.zero_grad()
    assert all(parameter.grad is None for parameter in layer.parameters())


def test_modes_and_buffers() -> None:
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5, rng=RNG(0)), nn.Linear(3, 2, rng=RNG(0)))
    assert [name for name, _ in net.named_buffers()] == [
        "layer_0/running_mean", "layer_0/running_var",
    ]  # fmt: skip
    assert len(net.parameters()) == 4
    assert net.num_parameters() == 3 + 3 + 6 + 2
    assert len(optim.SGD(net).parameters) == 4
    x = normal(5, 3)
    before = net.layer[0].running_mean.data.copy()
    net(x)
    assert (net.layer[0].running_mean.data != before).all()
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    kept = net.layer[0].running_mean.data.copy()
    first, second = net(x), net(x)
    assert first.tolist() == second.tolist()
    assert (net.layer[0].running_mean.data == kept).all()
    net.train()
    assert net(x).tolist() != net(x).tolist()
    seen: list[str] = []
    net.apply(lambda item: seen.append(type(item).__name__))
    assert seen == ["Linear", "Dropout", "BatchNorm1d", "Sequential"]


def test_state_is_saved_and_loaded() -> None:
    def net(seed: int) -> Any:
        return nn.Sequential(nn.Linear(3, 4, rng=RNG(seed)), nn.BatchNorm1d(4))

    first, two = net(0), net(1)
    first(normal(6, 3))
    state = first.state_dict()
    assert list(state) == [
        "layer_0/weight", "layer_0/bias", "layer_1/weight", "layer_1/bias",
        "layer_1/running_mean", "layer_1/running_var",
    ]  # fmt: skip
    two.load_state_dict(state)
    x = normal(2, 3, seed=5)
    assert first.eval()(x).tolist() == two.eval()(x).tolist()
    state["layer_0/weight"][:] = 0
    assert first.layer[0].weight.data.any(), "state_dict gives copies"

    with pytest.raises(UsageError, match="missing layer_0/bias; unexpected layer_0/bia") as raised:
        two.load_state_dict({**without(state, "layer_0/bias"), "layer_0/bia": np.zeros(4)})
    assert "layer_0/bias" in raised.value.hint
    assert "test_nn_layers.py" in raised.value.source
    with pytest.raises(ShapeError, match=r"layer_0/bias is \(4,\), not \(5,\)"):
        two.load_state_dict({**state, "layer_0/bias": np.zeros(5)})
    assert two.layer[0].weight.data.any(), "nothing was changed by what was refused"
    two.load_state_dict({"layer_0/bias": np.ones(4)}, strict=False)
    assert two.layer[0].bias.tolist() == [1.0] * 4


def without(state: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key != name}


def test_dropout_repeats_and_scales() -> None:
    x = ns.tensor(np.ones((100, 100)), requires_grad=True)
    key = ns.random.key(3)
    out = F.dropout(x, 0.25, rng=key)
    assert out.tolist() == F.dropout(x, 0.25, rng=key).tolist()
    assert sorted(set(out.numpy().ravel())) == [0.0, 1 / 0.75]
    assert float(out.mean()) == pytest.approx(1.0, abs=0.02)
    out.sum().backward()
    assert (x.grad.numpy() == out.numpy()).all()
    assert F.dropout(x, 0.25, rng=key, training=False).tolist() == x.tolist()
    first, two = nn.Dropout(0.5, rng=7), nn.Dropout(0.5, rng=7)
    assert first(x).tolist() == two(x).tolist() != two(x).tolist()


def test_a_query_without_keys_gets_zeros() -> None:
    q, k, v = (normal(1, 3, 4, seed=i) for i in range(3))
    keep = np.array([[True, False, True], [False, False, False], [True, True, True]])
    added = np.where(keep, 0.0, -np.inf)
    for mask in (keep, added.astype(np.float32)):
        leaf = ns.tensor(q.data, requires_grad=True)
        out = nn.scaled_dot_product_attention(leaf, k, v, mask)
        assert not out.numpy()[0, 1].any()
        out.sum().backward()
        assert np.isfinite(leaf.grad.numpy()).all()
        assert not leaf.grad.numpy()[0, 1].any()
    first = nn.scaled_dot_product_attention(q, k, v, keep).numpy()[0, 0]
    scores = (q.data[0, 0] / 2) @ k.data[0][[0, 2]].T
    weights = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(first, weights @ v.data[0][[0, 2]], rtol=1e-5)


def test_attention_is_seen_as_its_parts() -> None:
    with observed() as events:
        nn.scaled_dot_product_attention(*(normal(2, 3, 4) for _ in range(3)), causal=True)
    names = {node.name for node in events.nodes.values()}
    assert {"attention/softmax", "attention/where", "attention/matmul"} <= names


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_sequences_that_have_ended_keep_their_state(kind: Any) -> None:
    layer = kind(2, 3, rng=RNG(0))
    x = normal(2, 4, 2)
    out, state = layer(x, lengths=[4, 2])
    assert out.shape == (2, 4, 3)
    assert not out.numpy()[1, 2:].any()
    short, last = layer(x[1:, :2])
    np.testing.assert_allclose(out.numpy()[1, :2], short.numpy()[0], rtol=1e-6)
    result, expected = (item[0][0] if kind is nn.LSTM else item[0] for item in (state, last))
    np.testing.assert_allclose(result.numpy()[1], expected.numpy()[0], rtol=1e-6)


def test_half_precisions_stay_what_they_are() -> None:
    for name in ("float16", "bfloat16"):
        x = normal(2, 4, 6, 6).astype(name)
        assert F.conv2d(x, normal(4, 4, 3, 3).astype(name)).dtype.name == name
        for result in (
            F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 2), F.batch_norm(x),
            F.group_norm(x, 2), F.gelu(x), F.layer_norm(x, 6),
        ):  # fmt: skip
            assert result.dtype.name == name
    many = np.full((1, 1, 64, 64), 100, np.float16)
    assert F.adaptive_avg_pool2d(many, 1).item() == 100, "added up in float32"


IMAGE = np.zeros((2, 3, 5, 5), np.float32)
X = np.zeros((2, 3), np.float32)
MISTAKES: list[tuple[Any, type[NodescopeError], str]] = [
    (lambda: F.conv2d(IMAGE, np.zeros((4, 2, 3, 3))), ShapeError, "3 input channels, but"),
    (lambda: F.conv2d(IMAGE, np.zeros((4, 3, 3, 3)), groups=2), ShapeError, "by 2 groups"),
    (lambda: F.conv2d(IMAGE, np.zeros((4, 3, 6, 3))), ShapeError, "kernel of 6 does not fit"),
    (lambda: F.conv2d(IMAGE[0], np.zeros((4, 3, 3, 3))), ShapeError, r"x\[None\]"),
    (lambda: F.conv2d(IMAGE, np.zeros((4, 3, 3))), ShapeError, "conv2d weight: expected"),
    (lambda: F.conv2d(IMAGE, np.zeros((4, 3, 3, 3)), np.zeros(3)), ShapeError, "the bias has"),
    (lambda: F.conv2d(IMAGE, np.zeros((4, 3, 3, 3)), stride=0), ShapeError, "must be positive"),
    (lambda: F.conv2d(IMAGE, np.zeros((4, 3, 3, 3)), padding=-1), ShapeError, "not be negative"),
    (lambda: F.conv2d(IMAGE, np.zeros((4, 3, 3, 3)), stride=(1, 2, 3)), ShapeError, "stride"),
    (lambda: F.conv2d(IMAGE, np.zeros((4, 3, 3, 3)), stride=2, padding="same"), UsageError,
     "needs stride 1"),
    (lambda: F.conv2d(IMAGE.astype(int), np.zeros((4, 3, 3, 3), int)), DtypeError, "int64"),
    (lambda: F.conv_transpose2d(IMAGE, np.zeros((3, 4, 3, 3)), output_padding=1), ShapeError,
     "output_padding 1 must be less"),
    (lambda: F.max_pool2d(IMAGE, 6), ShapeError, "does not fit"),
    (lambda: F.max_pool2d(IMAGE, 2, padding=2), ShapeError, "more than half"),
    (lambda: F.max_pool2d(IMAGE.astype(complex), 2), DtypeError, "no order"),
    (lambda: F.adaptive_avg_pool2d(IMAGE, 0), ShapeError, "must be positive"),
    (lambda: F.batch_norm(X[:1]), ShapeError, "1 values to average over"),
    (lambda: F.group_norm(IMAGE, 2), ShapeError, "3 channels are not divisible by 2 groups"),
    (lambda: F.layer_norm(X, 4), ShapeError, r"does not end in \(4,\)"),
    (lambda: F.layer_norm(X, 3, np.ones(2)), ShapeError, "the weight has shape"),
    (lambda: nn.BatchNorm2d(3)(X), ShapeError, "expected 4 dimensions"),
    (lambda: F.embedding(np.array([[0, 1], [7, 1]]), X), BoundsError,
     r"index 7 at position \(1, 0"),
    (lambda: F.embedding(np.array([0.0]), X), DtypeError, "must be integers"),
    (lambda: F.cross_entropy(X, np.array([0, 3])), BoundsError, "labels run from 0 to 3"),
    (lambda: F.cross_entropy(X, np.array([True, False])), DtypeError, "must be integers"),
    (lambda: F.cross_entropy(X, np.array([0, 1, 2])), ShapeError, "do not fit"),
    (lambda: F.cross_entropy(X, np.array([0, 1]), reduction="avg"), UsageError, "reduction 'avg'"),
    (lambda: F.l1_loss(X, X, "avg"), UsageError, "reduction 'avg'"),
    (lambda: F.binary_cross_entropy(X + 2, X), DomainError, "probabilities run from 2 to 2"),
    (lambda: F.huber_loss(X, X, delta=0), DomainError, "delta must be positive"),
    (lambda: F.gelu(X, "exact"), UsageError, "approximate='exact'"),
    (lambda: F.glu(X), ShapeError, "split in half"),
    (lambda: F.prelu(X, np.ones(2)), ShapeError, "slopes of shape"),
    (lambda: nn.Dropout(1.0, rng=0), UsageError, r"is not in \[0, 1\)"),
    (lambda: F.dropout(X, 1.5, rng=ns.random.key(0)), NodescopeError, "1.5|probab"),
    (lambda: nn.LSTMCell(3, 4, rng=RNG(0))(np.zeros((2, 5))), ShapeError, r"expected \(N, 3\)"),
    (lambda: nn.GRUCell(3, 4, rng=RNG(0))(X, np.zeros((2, 5))), ShapeError, "a state of shape"),
    (lambda: nn.LSTM(3, 4, rng=RNG(0))(X), ShapeError, r"expected \(N, T, 3\)"),
    (lambda: nn.GRU(3, 4, rng=RNG(0))(X[:, None], lengths=[1, 2]), BoundsError, "lengths from 1"),
    (lambda: nn.MultiHeadAttention(8, 3, rng=RNG(0)), ShapeError, "not divisible by 3 heads"),
    (lambda: nn.scaled_dot_product_attention(X, X[:, :2], X), ShapeError, "do not fit"),
    (lambda: nn.scaled_dot_product_attention(X, X, X, np.ones((3, 2), bool)), ShapeError,
     "a mask of shape"),
    (lambda: nn.Conv2d(4, 6, 3, rng=RNG(0), groups=4), ShapeError, "not divisible by 4 groups"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_mistakes_say_what_and_where(number: int) -> None:
    call, kind, text = MISTAKES[number]
    with pytest.raises(kind) as raised:
        call()
    assert re.search(text, str(raised.value)), str(raised.value)
    assert "test_nn_layers.py" in raised.value.source
