"""Fuse: which neighbours become one kernel, that results stay equal to the bit, and the reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.ir.graph import Graph, Node, TensorSpec, Value
from nodescope.ir.verify import verify
from nodescope.passes import fuse
from nodescope.passes.pipeline import Lowered, LoweringOptions, lower
from tests.core.passes.checking import check, nasty, ops_of
from tests.core.passes.programs import digits_mlp, kernels, lowered_program, reasons

X = np.linspace(-2, 2, 48, dtype=np.float32).reshape(6, 8)


def fused(function: Any, *inputs: Any, backend: str = "c") -> Lowered:
    return check(function, inputs or (X,), ("fuse",), backend=backend)


def body_ops(result: Lowered) -> list[list[str]]:
    nodes = [node for node in result.graph.nodes if node.op == "fused"]
    return [[n.op for n in node.attrs["body"].nodes] for node in nodes]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
def test_chain_is_one_kernel(dtype: str) -> None:
    x = nasty(dtype)
    result = fused(lambda x: np.maximum(np.add(x, x), x) * x + x, x)
    assert kernels(result) == {"elementwise": 1}
    assert len(body_ops(result)[0]) == 4
    assert len(ops_of(result)) == 1


def test_members_keep_ids_and_the_body_is_closed() -> None:
    result = fused(lambda x: np.tanh(x + 1.0) * x)
    (node,) = [n for n in result.graph.nodes if n.op == "fused"]
    body = node.attrs["body"]
    verify(body)
    assert body.inputs == node.inputs
    assert body.outputs == node.outputs
    traced = {n.id: n for n in result.traced.nodes}
    assert all(traced[n.id] == n for n in body.nodes)
    assert result.provenance.origin(node.id) == tuple(n.id for n in body.nodes)


def test_diamond_is_one_kernel_with_each_node_once() -> None:
    def diamond(x: Any) -> Any:
        top = np.exp(x)
        return np.sqrt(top) + np.log(top)

    result = fused(diamond)
    assert body_ops(result) == [["exp", "sqrt", "log", "add"]]


def test_no_cycle_through_a_node_outside() -> None:
    """exp -> matmul -> add, and exp -> add: as one kernel it would wait for itself."""

    def round_about(x: Any) -> Any:
        e = np.exp(x)
        return e + e @ np.ones((8, 8), np.float32)

    result = fused(round_about)
    assert kernels(result) == {}
    assert any("create a cycle" in reason and "matmul" in reason for reason in reasons(result))


def test_no_cycle_between_two_kernels() -> None:
    """Each pair alone would be fine: a -> d and b -> c, with a -> matmul -> c and b -> … -> d."""

    def crossed(x: Any, y: Any) -> Any:
        w = np.ones((8, 8), np.float32)
        a, b = np.exp(x), np.exp(y)
        c = b + (a @ w)
        d = a + (b @ w)
        return c, d

    result = fused(crossed, X, X + 1)
    assert sum(kernels(result).values()) == 1


def test_values_that_are_used_outside_come_out() -> None:
    def several(x: Any) -> Any:
        e = np.exp(x)
        f = e + 1.0
        return e, f * 2.0, e @ np.ones((8, 2), np.float32)

    result = fused(several)
    (node,) = [n for n in result.graph.nodes if n.op == "fused"]
    assert len(node.outputs) == 2
    assert len(node.attrs["body"].nodes) == 3


def test_shapes_that_differ_stay_apart() -> None:
    result = fused(lambda x, y: np.exp(y) + np.exp(x), X, X[:, :1])
    assert body_ops(result) == [["exp", "add"]]
    assert any("shapes differ: (6, 1) and (6, 8)" in reason for reason in reasons(result))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3, 1, 2)])
def test_small_shapes(shape: tuple[int, ...]) -> None:
    result = fused(lambda x: np.exp(x + 1.0) * x, nasty("float32", (30,))[: int(np.prod(shape))]
                  .reshape(shape))  # fmt: skip
    assert kernels(result) == {"elementwise": 1}


def test_nothing_is_done_for_no_elements() -> None:
    result = fused(lambda x: np.exp(x + 1.0) * x, np.zeros((0, 3), np.float32))
    assert kernels(result) == {}
    assert any("has no elements" in reason for reason in reasons(result))


def test_dtypes_without_c_stay_apart() -> None:
    result = fused(lambda x: np.exp(x) * 2.0, X.astype(np.float16))
    assert kernels(result) == {}
    assert any("float16, which has no C" in reason for reason in reasons(result))


def test_ops_without_c_stay_apart() -> None:
    result = fused(lambda x: np.sinc(x) + 1.0)
    assert any("has no C expression" in reason for reason in reasons(result))


def test_sum_of_a_chain() -> None:
    for axis in (0, 1, None, (0, 1), -1):
        result = fused(lambda x, axis=axis: np.sum(np.exp(x) * x, axis=axis))
        assert kernels(result) == {"reduction": 1}, axis
        assert len(ops_of(result)) == 1


def test_middle_axes_stay_apart() -> None:
    result = fused(lambda x: np.sum(np.exp(x), axis=1), X.reshape(2, 4, 6))
    assert kernels(result) == {}
    assert any("neither the first nor the last" in reason for reason in reasons(result))


def test_rows_are_read_twice_in_one_kernel() -> None:
    def centred(x: Any) -> Any:
        c = x - np.mean(x, axis=1, keepdims=True)
        return c / np.sqrt(np.mean(c * c, axis=1, keepdims=True) + 1e-5)

    result = fused(centred)
    assert kernels(result) == {"rows": 1}
    assert len(ops_of(result)) == 1


def test_columns_are_not_read_twice_in_one_kernel() -> None:
    result = fused(lambda x: np.exp(x) - np.sum(np.exp(x), axis=0, keepdims=True))
    assert "rows" not in kernels(result)
    assert any("whole reduction over the first axes" in reason for reason in reasons(result))


def test_a_reduced_value_against_other_axes_stays_apart() -> None:
    """A square matrix: the shape fits, the meaning does not."""
    result = fused(lambda x: x * 2.0 - np.sum(x * 2.0, axis=1), X[:, :6])
    assert "rows" not in kernels(result)
    assert any("reduced from (6, 6)" in reason for reason in reasons(result))


def test_long_rows_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse, "ROW", 4)
    result = fused(lambda x: x - np.max(x, axis=1, keepdims=True))
    assert kernels(result) == {}
    assert any("stay in cache" in reason for reason in reasons(result))


def test_limits() -> None:
    def long(x: Any) -> Any:
        for _ in range(100):
            x = x + 1.0
        return x

    result = fused(long)
    assert sum(kernels(result).values()) == 2
    assert any("65 nodes, at most 64" in reason for reason in reasons(result))
    many = [X + i for i in range(30)]
    result = fused(lambda *item: sum(item[1:], item[0]), *many)
    assert any("25 inputs, at most 24" in reason for reason in reasons(result))


def test_phases_do_not_mix() -> None:
    result = lowered_program(digits_mlp(), ("fuse",), backend="c")
    for node in result.graph.nodes:
        if node.op == "fused":
            assert {n.phase for n in node.attrs["body"].nodes} == {node.phase}
    assert any("phases differ: forward and backward" in reason for reason in reasons(result))


def test_numpy_gets_kernels_only_where_tiles_pay() -> None:
    result = fused(lambda x: np.exp(x) * x + 1.0, backend="numpy")
    assert kernels(result) == {}
    assert any(f"48 elements are fewer than {fuse.TILED:,}" in reason for reason in reasons(result))
    large = np.ones((fuse.TILED,), np.float32)
    result = fused(lambda x: np.sum(np.exp(x) * x + 1.0), large, backend="numpy")
    assert body_ops(result) == [["exp", "multiply", "add"]]
    assert any("a single NumPy call" in reason for reason in reasons(result))


def graph_of(nodes: list[Node], inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Graph:
    spec = TensorSpec((4,), "float32")
    ids = sorted({*inputs, *(value for node in nodes for value in node.outputs)})
    return Graph(1, "static", inputs, outputs, tuple(nodes),
                 tuple(Value(id_, spec, f"v{id_}") for id_ in ids))  # fmt: skip


def test_control_inputs_are_respected() -> None:
    """exp, then something that waits for it, then log that waits for that."""
    nodes = [
        Node(1, "exp", "exp", "elementwise", (1,), outputs=(2,)),
        Node(2, "sum", "cumsum", "reduction", (1,), (1,), (3,), {"axis": 0}),
        Node(3, "log", "log", "elementwise", (2,), (2,), (4,)),
    ]
    result = lower(graph_of(nodes, (1,), (4, 3)), {}, ("fuse",), LoweringOptions(backend="c"))
    assert kernels(result) == {}
    assert any("sum depends on one" in reason for reason in reasons(result))
    nodes[2] = Node(3, "log", "log", "elementwise", (2,), (), (4,))
    result = lower(graph_of(nodes, (1,), (4, 3)), {}, ("fuse",), LoweringOptions(backend="c"))
    assert kernels(result) == {"elementwise": 1}
    (kernel,) = [node for node in result.graph.nodes if node.op == "fused"]
    (waiting,) = [node for node in result.graph.nodes if node.op == "cumsum"]
    assert waiting.control_inputs == (kernel.id,)


def test_what_is_computed_again_stays_apart() -> None:
    nodes = [
        Node(1, "exp", "exp", "elementwise", (1,), outputs=(2,), phase="recompute"),
        Node(2, "log", "log", "elementwise", (2,), outputs=(3,), phase="recompute"),
    ]
    result = lower(graph_of(nodes, (1,), (3,)), {}, ("fuse",), LoweringOptions(backend="c"))
    assert kernels(result) == {}
    assert any("recomputed" in reason for reason in reasons(result))


def test_devices_do_not_mix() -> None:
    nodes = [
        Node(1, "exp", "exp", "elementwise", (1,), outputs=(2,), device="cpu:0"),
        Node(2, "log", "log", "elementwise", (2,), outputs=(3,), device="cpu:1"),
    ]
    result = lower(graph_of(nodes, (1,), (3,)), {}, ("fuse",), LoweringOptions(backend="c"))
    assert reasons(result) == ["devices differ: cpu:0 and cpu:1"]


def test_each_pair_that_stays_apart_is_named() -> None:
    result = fused(lambda x: np.tanh(np.exp(x[:, :1]) + np.exp(x)))
    by_id = {node.id: node for node in result.traced.nodes}
    (stage,) = result.stages
    for item in stage.unfused:
        outputs = set(by_id[item.producer].outputs)
        assert outputs & set(by_id[item.consumer].inputs)
        assert item.reason in str(item)
    assert stage.unfused


def test_random_graphs() -> None:
    """Chains, reductions and broadcasts at random: equal to the bit, no cycle."""
    unary = [np.exp, np.tanh, np.negative, np.sqrt, np.floor]
    binary = [np.add, np.multiply, np.maximum, np.subtract]
    for seed in range(25):
        rng = np.random.default_rng(seed)
        picks = rng.integers(0, 1000, 60)

        def program(x: Any, y: Any, picks: Any = picks) -> Any:
            values = [x, y]
            for i in range(0, 57, 3):
                first = values[picks[i] % len(values)]
                other = values[picks[i + 1] % len(values)]
                kind = picks[i + 2] % 9
                if kind < 3:
                    values.append(unary[picks[i] % 5](first))
                elif kind < 7:
                    values.append(binary[picks[i] % 4](first, other))
                else:
                    values.append(np.sum(first, axis=picks[i] % 2, keepdims=True) * 0.125)
            return tuple(values[-5:])

        fused(program, X, np.abs(X[:, :1]) + 1)


def test_ns_functions_fuse() -> None:
    result = fused(lambda x: ns.relu(ns.sigmoid(x) - 0.5))
    assert body_ops(result) == [["sigmoid", "subtract", "relu"]]
