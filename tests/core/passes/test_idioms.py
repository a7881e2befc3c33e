"""Idioms: each is found in every usual spelling and in the samples, but not in lookalikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import nodescope as ns
from bench.programs import lstm
from nodescope import nn, optim
from nodescope.passes.idioms import RULES
from nodescope.passes.pipeline import Lowered, lower
from tests.core.passes.checking import check, lowered
from tests.core.passes.programs import (
    char_transformer,
    digits_mlp,
    kernels,
    layer_step,
    lowered_program,
)

rng = np.random.default_rng(5)
X = rng.standard_normal((6, 8)).astype(np.float32)
W, B = rng.standard_normal((8, 5)).astype(np.float32), np.arange(5, dtype=np.float32)
Q, K, V = rng.standard_normal((3, 2, 4, 8)).astype(np.float32)
GAIN = rng.standard_normal(8).astype(np.float32)
LABELS = np.arange(6) % 8
MASK = np.tri(4, dtype=bool)
ROWS = np.arange(6)


def found_in(function: Callable[..., Any], *inputs: Any) -> list[str]:
    return list(_found(function, *inputs))


def _found(function: Callable[..., Any], *inputs: Any) -> dict[str, int]:
    return kernels(check(function, inputs, ("patterns",), backend="c"))


# Products


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", ns.relu),
        ("relu", lambda x: np.maximum(x, 0)),
        ("relu", lambda x: np.maximum(0.0, x)),
        ("tanh", np.tanh),
        ("sigmoid", ns.sigmoid),
        ("gelu", ns.gelu),
        ("gelu", lambda x: ns.gelu(x, "tanh")),
    ],
)
def test_layers(name: str, function: Any) -> None:
    assert found_in(lambda x, w, b: function(x @ w + b), X, W, B) == [f"matmul_bias_{name}"]
    assert found_in(lambda x, w, b: function(b + x @ w), X, W, B) == [f"matmul_bias_{name}"]
    assert found_in(lambda x, w, b: function(x @ w + b), X, W, B[None]) == [f"matmul_bias_{name}"]


def test_layer_without_activation() -> None:
    assert found_in(lambda x, w, b: x @ w + b, X, W, B) == ["matmul_bias"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, b: np.maximum(x @ w + b, 1),  # The bound is not zero.
        lambda x, w, b: np.maximum(x @ w * b, 0),  # Not a sum.
        lambda x, w, b: np.maximum(x @ w, 0),  # No bias.
        lambda x, w, b: ns.relu(x @ w + b[:, None][:1]),  # A bias of one number.
        lambda x, w, b: ns.relu(w.T + b[:, None]),  # No product.
    ],
)
def test_no_layers(function: Any) -> None:
    assert "matmul_bias_relu" not in found_in(function, X, W, B)


def test_a_product_that_is_used_twice_is_not_a_layer() -> None:
    def twice(x: Any, w: Any, b: Any) -> Any:
        product = x @ w
        return ns.relu(product + b), product

    assert found_in(twice, X, W, B) == []


def test_a_sum_that_is_used_twice_comes_out() -> None:
    def twice(x: Any, w: Any, b: Any) -> Any:
        total = x @ w + b
        return ns.relu(total), total > 0

    result = lowered(twice, (X, W, B), ("patterns",), backend="c")
    (node,) = [n for n in result.graph.nodes if n.op == "fused"]
    assert node.attrs["pattern"] == "matmul_bias_relu"
    assert len(node.outputs) == 2


# Rows


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def softmax_by_index(x: Any) -> Any:
    e = np.exp(x - x.max(1)[:, None])
    return e / e.sum(axis=1)[:, None]


def softmax_by_reshape(x: Any) -> Any:
    e = np.exp(x - np.reshape(np.max(x, axis=(1,)), (6, 1)))
    return e / np.expand_dims(np.sum(e, axis=1), 1)


@pytest.mark.parametrize("function", [softmax, softmax_by_index, softmax_by_reshape])
def test_softmax(function: Any) -> None:
    assert found_in(function, X) == ["softmax"]
    assert found_in(lambda x: function(x) * 2.0, X) == ["softmax"]


def no_softmax(x: Any, over: int = 1, top: int = 1, swap: bool = False) -> Any:
    e = np.exp(x - np.max(x, axis=top, keepdims=True))
    total = np.sum(e, axis=over, keepdims=True)
    return total / e if swap else e / total


def mean_instead_of_max(x: Any) -> Any:
    e = np.exp(x - np.mean(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def sum_of_others(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e * 2.0, axis=1, keepdims=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: no_softmax(x, over=0),
        lambda x: no_softmax(x, top=0),
        lambda x: no_softmax(x, over=0, top=0),
        lambda x: no_softmax(x, swap=True),
        lambda x: np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True),
        mean_instead_of_max,
        sum_of_others,
    ],
)
def test_no_softmax(function: Any) -> None:
    assert found_in(function, X) == []


def test_a_square_softmax_along_the_wrong_axis() -> None:
    def wrong(x: Any) -> Any:
        e = np.exp(x - np.max(x, axis=1, keepdims=True))
        return e / np.sum(e, axis=1)

    assert found_in(wrong, X[:, :6]) == []


def test_log_softmax_and_logsumexp() -> None:
    def log_softmax(x: Any) -> Any:
        z = x - np.max(x, axis=1, keepdims=True)
        return z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))

    def after(x: Any) -> Any:
        z = x - np.max(x, axis=-1, keepdims=True)
        return z - np.log(np.sum(np.exp(z), axis=-1))[:, None]

    def logsumexp(x: Any) -> Any:
        top = np.max(x, axis=1, keepdims=True)
        return top + np.log(np.sum(np.exp(x - top), axis=1, keepdims=True))

    def other_base(x: Any) -> Any:
        z = x - np.max(x, axis=1, keepdims=True)
        return z - np.log2(np.sum(np.exp(z), axis=1, keepdims=True))

    assert found_in(log_softmax, X) == ["log_softmax"]
    assert found_in(after, X) == ["log_softmax"]
    assert found_in(logsumexp, X) == ["logsumexp"]
    assert found_in(other_base, X) == []


def test_cross_entropy() -> None:
    def loss(z: Any, labels: Any) -> Any:
        z = z - np.max(z, axis=1, keepdims=True)
        return np.mean(np.log(np.sum(np.exp(z), axis=1)) - z[np.arange(6), labels])

    def by_log_softmax(z: Any, labels: Any) -> Any:
        return -np.mean(nn.functional.log_softmax(z, axis=1)[np.arange(6), labels])

    def written(z: Any, labels: Any) -> Any:
        z = z - np.max(z, axis=1, keepdims=True)
        logs = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
        return np.sum(-logs[np.arange(6), labels])

    def other_rows(z: Any, labels: Any) -> Any:
        z = z - np.max(z, axis=1, keepdims=True)
        return np.mean(np.log(np.sum(np.exp(z), axis=1)) - z[np.arange(6)[::-1].copy(), labels])

    for function in (loss, by_log_softmax, written):
        result = lowered(function, (X, LABELS), ("patterns",), backend="c")
        (note,) = result.stages[0].notes
        assert note.startswith("cross_entropy at "), function
        assert "cross_entropy" not in kernels(result)
    result = lowered(other_rows, (X, LABELS), ("patterns",), backend="c")
    assert kernels(result) == {}
    assert result.stages[0].notes == ()


def normed(x: Any, how: str = "divide", axis: Any = -1, eps: float = 1e-5) -> Any:
    c = x - np.mean(x, axis=axis, keepdims=True)
    square = {"product": lambda: c * c, "power": lambda: c**2}.get(how, lambda: np.square(c))()
    variance = np.mean(square, axis=axis, keepdims=True)
    if how == "var":
        variance = np.var(x, axis=axis, keepdims=True)
    if how == "sum":
        variance = np.sum(square, axis=axis, keepdims=True) / 8
    if how == "root":
        return c * (variance + eps) ** -0.5
    if how == "inverse":
        return c * (1.0 / np.sqrt(variance + eps))
    return c / np.sqrt(eps + variance)


@pytest.mark.parametrize("how", ["divide", "product", "power", "var", "sum", "root", "inverse"])
def test_layer_norm(how: str) -> None:
    assert found_in(lambda x: normed(x, how), X) == ["layer_norm"]
    function = lambda x, g, b: normed(x, how) * g + b  # noqa: E731
    with_gain = lowered(function, (X, GAIN, GAIN), ("dce", "patterns"), backend="c")
    assert kernels(with_gain) == {"layer_norm": 1}
    assert all(node.op == "fused" or node.is_leaf for node in with_gain.graph.nodes)


def test_layer_norm_over_several_axes() -> None:
    assert found_in(lambda x: normed(x, axis=(1, 2)), Q) == ["layer_norm"]


def other_variance(x: Any) -> Any:
    c = x - np.mean(x, axis=1, keepdims=True)
    return c / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + 1e-5)


def eps_outside(x: Any) -> Any:
    c = x - np.mean(x, axis=1, keepdims=True)
    return c / (np.sqrt(np.mean(c * c, axis=1, keepdims=True)) + 1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: normed(x, axis=0),  # A batch norm.
        lambda x: (
            (x - np.mean(x, axis=0, keepdims=True))
            / np.sqrt(np.var(x, axis=1, keepdims=True) + 1e-5)
        ),
        lambda x: (
            (x - np.mean(x, axis=1, keepdims=True))
            / np.sqrt(np.var(x, axis=1, keepdims=True, ddof=1) + 1e-5)
        ),
        other_variance,
        eps_outside,
    ],
)
def test_no_layer_norm(function: Any) -> None:
    assert found_in(function, X) == []


# Attention


def attended(q: Any, k: Any, v: Any, how: str = "") -> Any:
    if how == "query":
        q = q * 0.25
    s = q @ np.swapaxes(k, -1, -2)
    s = {"factor": lambda: s * 0.25, "divisor": lambda: s / 4.0, "mask": lambda: np.where(
        MASK, s * 0.25, -np.inf), "added": lambda: s * 0.25 + np.where(MASK, 0.0, -1e9).astype(
        np.float32)}.get(how, lambda: s)()  # fmt: skip
    p = softmax(s) if how == "written" else ns.softmax(s, axis=-1)
    if how == "after":
        p = p * MASK
    return p @ v


@pytest.mark.parametrize("how", ["", "query", "factor", "divisor", "mask", "added", "written"])
def test_attention(how: str) -> None:
    result = lowered(lambda q, k, v: attended(q, k, v, how), (Q, K, V), ("patterns",), backend="c")
    assert kernels(result) == {"attention": 1}
    (node,) = [n for n in result.graph.nodes if n.op == "fused"]
    assert len(node.inputs) <= 4
    members = [n.op for n in node.attrs["body"].nodes]
    assert members.count("matmul") == 2
    check(lambda q, k, v: attended(q, k, v, how), (Q, K, V), ("patterns",), backend="c")


def test_no_attention() -> None:
    # The mask comes too late.
    assert found_in(lambda q, k, v: attended(q, k, v, "after"), Q, K, V) == []
    # No product of queries and keys.
    assert found_in(lambda q, v: ns.softmax(q, axis=-1) @ v, Q[..., :4], V) == []
    assert found_in(lambda q, k, v: ns.softmax(q @ k.swapaxes(1, 2), axis=1) @ v, Q, K, V) == []


def test_attention_of_a_layer() -> None:
    layer = nn.TransformerBlock(8, 2, rng=np.random.default_rng(0), causal=True)
    result = lowered(lambda x: layer(x), (Q,), ("patterns",), backend="c")
    assert kernels(result)["attention"] == 1


# Updates


def test_updates() -> None:
    keep = {"keep": True}
    for settings, optimizer, name in (
        ({}, optim.SGD, "sgd"),
        ({"weight_decay": 0.1}, optim.SGD, "sgd"),
        ({"momentum": 0.9}, optim.SGD, "momentum"),
        ({"momentum": 0.9, "weight_decay": 0.1}, optim.SGD, "momentum"),
        ({}, optim.Adam, "adam"),
        ({}, optim.AdamW, "adam"),
    ):
        result = lowered_program(layer_step(optimizer, **keep, **settings), backend="c")
        assert kernels(result)[name] == 2, (name, settings)
        assert not any(node.phase == "optimizer" and node.op not in ("fused",)
                       and not node.is_leaf for node in result.graph.nodes)  # fmt: skip


def test_an_update_of_ones_own_is_not_named() -> None:
    class Sign(optim.SGD):
        def update(self, F: Any, value: Any, gradient: Any, state: Any, rates: Any) -> Any:
            return (F.subtract(value, F.multiply(F.sign(F.multiply(value, 2.0)), rates["lr"])),)

    class Away(optim.SGD):
        def update(self, F: Any, value: Any, gradient: Any, state: Any, rates: Any) -> Any:
            return (F.add(value, F.multiply(gradient, rates["lr"])),)

    result = lowered_program(layer_step(Away), backend="c")
    assert not {"sgd", "matmul_sgd"} & set(kernels(result))
    assert "assign" in {node.op for node in result.graph.nodes}
    result = lowered_program(layer_step(Sign), backend="c")
    assert not {"momentum", "adam"} & set(kernels(result))


def test_a_gradient_used_only_by_its_update_joins_it() -> None:
    result = lowered_program(layer_step(), backend="c")
    assert kernels(result)["matmul_sgd"] == 1
    (node,) = [n for n in result.graph.nodes if n.attrs.get("pattern") == "matmul_sgd"]
    assert node.phase == "optimizer"
    assert {n.phase for n in node.attrs["body"].nodes} == {"backward", "optimizer"}
    assert "matmul_sgd" not in kernels(lowered_program(layer_step(keep=True), backend="c"))
    assert "matmul_sgd" not in kernels(lowered_program(layer_step(weight_decay=0.1), backend="c"))


# Programs


def test_digits_mlp() -> None:
    result = lowered_program(digits_mlp(), backend="c")
    names = kernels(result)
    assert names["matmul_bias_relu"] == 2
    assert any(note.startswith("cross_entropy at loss/") for note in result.stages[0].notes)
    assert names["momentum"] == 6
    assert _count(result.graph) * 2 < _count(result.traced)


def test_char_transformer() -> None:
    result = lowered_program(char_transformer(), backend="c")
    names = kernels(result)
    assert names["attention"] == 2
    assert names["matmul_bias_gelu"] == 2
    assert names["layer_norm"] == 5  # Includes those that the gradient recomputes.
    assert names["adam"] == 38
    assert _count(result.graph) * 3 < _count(result.traced)


def test_lstm_body() -> None:
    """One step of the loop: what follows the gates is one kernel, forward and backward."""

    def gradients(x: Any, r: Any, *weights: Any) -> Any:
        return ns.grad(lambda *item: lstm.ours(item, x, r), argnums=(0, 1, 2))(*weights)

    shapes = ((3, 2, 5), (2, 4), (5, 16), (4, 16), (16,))
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    graph = ns.compile(gradients).graph(*inputs).graph
    bodies = [node.attrs["body"] for node in graph.nodes if node.op == "scan"]
    assert len(bodies) == 2
    for body in bodies:
        result = lowered_program(Program(body, {}), backend="c")
        assert _count(result.graph) < _count(body)
        sizes = [len(n.attrs["body"].nodes) for n in result.graph.nodes if n.op == "fused"]
        assert max(sizes) >= 8


class Program(NamedTuple):
    """A graph with its constants."""

    graph: Any
    constants: dict[int, Any]


def _count(graph: Any) -> int:
    return sum(not node.is_leaf for node in graph.nodes)


# For NumPy, and what is said


def test_numpy_gets_what_was_found() -> None:
    result = lowered(lambda x, w, b: ns.relu(x @ w + b), (X, W, B), ("patterns",))
    assert kernels(result) == {}
    (stage,) = result.stages
    assert stage.notes == (
        "matmul_bias_relu: found 1×; NumPy runs the separate nodes just as fast",
    )


def test_a_path_through_a_node_outside_is_not_a_kernel() -> None:
    def through(x: Any, w: Any) -> Any:
        e = np.exp(x - np.max(x, axis=1, keepdims=True))
        total = np.sum(e, axis=1, keepdims=True)
        return e / total @ w, e

    assert found_in(through, X, W) == ["softmax"]

    def round_about(q: Any, k: Any, v: Any) -> Any:
        s = q @ np.swapaxes(k, -1, -2)
        return ns.softmax(s * np.max(s), axis=-1) @ v

    result = lowered(round_about, (Q, K, V), ("patterns",), backend="c")
    assert kernels(result) == {}
    (stage,) = result.stages
    assert any("lies between its nodes" in note for note in stage.notes)


def test_phases_do_not_mix() -> None:
    program = char_transformer()
    result: Lowered = lower(program.graph, program.constants, ("patterns",), options=None)
    assert not kernels(result)
    result = lowered_program(program, ("patterns",), backend="c")
    for node in result.graph.nodes:
        if node.op == "fused":
            assert {n.phase for n in node.attrs["body"].nodes} == {node.phase}


def test_every_kernel_is_a_rule() -> None:
    result = lowered_program(char_transformer(), ("patterns",), backend="c")
    assert {rewrite.rule for rewrite in result.rewrites} <= {item.name for item in RULES}
    assert all("bytes as one" in rewrite.note for rewrite in result.rewrites)
