"""Cost: flops and bytes of nodes and kernels, and the roofline."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import nodescope as ns
from nodescope import ops
from nodescope.ir.graph import TensorSpec
from nodescope.passes import cost
from nodescope.passes.cost import Machine, Work, graph_work, node_work, roof
from tests.core.passes.checking import lowered

X = np.ones((6, 8), np.float32)
FAST = Machine(flops=1e9, bandwidth=1e8)


def work_of(function: object, *inputs: object) -> Work:
    graph = ns.compile(function).graph(*inputs).graph  # type: ignore[arg-type]
    specs = {value.id: value.spec for value in graph.values}
    results = [node_work(node, specs) for node in graph.nodes if not node.is_leaf]
    return results[-1]


def test_nodes() -> None:
    # An operand that is used twice is read once.
    assert work_of(lambda x: x + x, X) == Work(48, 192, 192)
    assert work_of(lambda x, y: x @ y, X, X.T.copy()) == Work(2 * 6 * 8 * 6, 384, 144)
    assert work_of(lambda x: np.sum(x, axis=1), X) == Work(48, 192, 24)
    assert work_of(lambda x: np.transpose(x), X) == Work(0, 0, 0)
    assert work_of(lambda x: x > 0, X).written == 48


def test_a_kernel_moves_what_goes_in_and_out() -> None:
    result = lowered(lambda x: np.tanh(x * 2.0) + x, (X,), ("fuse",), backend="c")
    specs = {value.id: value.spec for value in result.graph.values}
    (node,) = [n for n in result.graph.nodes if n.op == "fused"]
    kernel, apart = node_work(node, specs), graph_work(result.traced)
    assert kernel == Work(3 * 48, 192, 192)
    assert apart.flops == kernel.flops
    assert apart.moved == 192 * 7


@pytest.mark.parametrize(
    ("subscripts", "shapes", "flops"),
    [
        ("ij,jk->ik", [(20, 30), (30, 40)], 2 * 20 * 30 * 40),
        ("ij->i", [(20, 30)], 20 * 30),
        ("ij->ji", [(20, 30)], 0),
        ("ii->i", [(30, 30)], 0),
        # Operands are multiplied in pairs, beginning with the pair that has the smallest result.
        ("ij,jk,kl->il", [(2, 50), (50, 3), (3, 40)], 2 * 2 * 50 * 3 + 2 * 2 * 3 * 40),
        # NumPy multiplies all three at once, since axes broadcast.
        ("ij,ij,ij->j", [(1, 5), (4, 5), (4, 5)], 3 * 4 * 5),
    ],
)
def test_an_einsum_counts_its_products(
    subscripts: str, shapes: list[tuple[int, ...]], flops: int
) -> None:
    specs = tuple(TensorSpec(shape, "float32") for shape in shapes)
    op, attrs = ops.get("einsum"), {"subscripts": subscripts}
    assert op.flops(specs, op.infer(specs, attrs), attrs) == flops  # type: ignore[arg-type]


def test_a_loop_counts_its_length() -> None:
    def loop(x: object) -> object:
        return ns.scan(lambda c, row: (c + row, None), ns.zeros((8,), dtype=np.float32), x)[0]

    assert work_of(loop, np.ones((10, 8), np.float32)).flops == 80


@pytest.mark.parametrize(
    "name",
    ["matmul", "conv2d", "max_pool2d", "softmax", "layer_norm", "sum", "tanh", "gelu", "exp",
     "cross_entropy", "index_add", "add_along_axis", "embedding_grad", "where"],
)  # fmt: skip
def test_ops_that_compute_have_flops(name: str) -> None:
    op = ops.get(name)
    for sample in op.samples(np.random.default_rng(0)):
        specs = tuple(
            TensorSpec(value.shape, value.dtype.name) if isinstance(value, np.ndarray) else value
            for value in sample.inputs
        )
        out = op.infer(specs, dict(sample.attrs))
        first = out[0] if isinstance(out, tuple) else out
        if math.prod(first.shape) and all(math.prod(np.shape(value)) for value in sample.inputs):
            assert op.flops(specs, first, dict(sample.attrs)) > 0


def test_roof() -> None:
    few, many = Work(100, 800, 200), Work(100_000, 800, 200)
    assert few.intensity == 0.1
    low, high = roof(few, FAST), roof(many, FAST)
    assert (low.bound, high.bound) == ("memory", "compute")
    assert low.attainable == pytest.approx(0.1 * 1e8)
    assert high.attainable == 1e9
    assert low.least_s == pytest.approx(1000 / 1e8)
    assert FAST.ridge == 10


def test_nothing_to_do() -> None:
    nothing = roof(Work(0, 0, 0), FAST)
    assert nothing.least_s == 0
    assert Work(0, 0, 0).intensity == 0
    assert Work(8, 0, 0).intensity == math.inf


def test_speeds_are_measured_by_a_clock() -> None:
    ticks = itertools.count()
    result = cost.measured(lambda: float(next(ticks)))  # Each trial takes one second of this clock.
    assert result == Machine(2.0 * cost._PRODUCT**3, 2.0 * cost._COPIED)


def test_this_machine_is_measured_once() -> None:
    first = cost.this_machine()
    assert first is cost.this_machine()
    assert first.flops > 1e7
    assert first.bandwidth > 1e7


def test_dtypes_that_numpy_does_not_know() -> None:
    assert cost.nbytes(TensorSpec((3, 2), "bfloat16")) == 12
    assert cost.nbytes(TensorSpec((), "float64")) == 8
