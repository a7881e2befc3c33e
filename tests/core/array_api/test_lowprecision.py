"""bfloat16 and float16: every op, gradients, training, recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nodescope as ns
from nodescope import ops
from nodescope.engine.run import apply
from nodescope.engine.tensor import LEAF, Tensor, make
from nodescope.errors import DtypeError, NodescopeError
from nodescope.ir.dtypes import as_dtype, bfloat16
from nodescope.ir.graph import TensorSpec
from nodescope.ops.lowprecision import promote
from nodescope.ops.op import Op, Sample
from nodescope.record.recording import Recording
from tests.conformance.op_cases import samples
from tests.parts import in_parts

BF = bfloat16()
# One rounding to 8 or 11 significant bits, and the effect of a few roundings inside an op.
NEAR = {"bfloat16": 2.0**-6, "float16": 2.0**-8, "float32": 1e-4}
# Results of these depend on more than the values, or jump where inputs are rounded.
UNSTABLE = {"spacing", "nextafter", "floor_divide", "remainder", "fmod", "divmod", "frexp"}


def spec(x: Any) -> Any:
    return TensorSpec(x.shape, x.dtype.name) if isinstance(x, np.ndarray) else x


def cases(op: Op) -> list[Sample]:
    """The op's calls, with real floats rounded to bfloat16's precision."""
    rng = np.random.default_rng(2)
    result = samples(op)
    if op.elementwise and not result:
        low, high = op.domain
        result = [Sample(tuple(rng.uniform(low, high, (2, 3)) for _ in op.ports))]
    return [Sample(tuple(map(_rounded, node.inputs)), node.attrs) for node in result[:40]]


def _rounded(x: Any) -> Any:
    real = isinstance(x, np.ndarray) and x.dtype.kind == "f"
    return x.astype(BF).astype(np.float64) if real else x


def cast(x: Any, dtype: Any) -> Any:
    return x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


def outputs(op: Op, sample: Sample, dtype: Any) -> Any:
    """An op's outputs for inputs of a dtype, or its error; `infer` must agree."""
    inputs = tuple(cast(value, dtype) for value in sample.inputs)
    expected_outputs: Any
    try:
        expected_outputs = op.infer(tuple(map(spec, inputs)), sample.attrs)
    except NodescopeError as error:
        expected_outputs = error
    result: Any
    try:
        with np.errstate(all="ignore"):
            result = op.impl(*inputs, **sample.attrs)
    except Exception as error:
        result = error
    if isinstance(result, Exception):
        assert isinstance(expected_outputs, Exception), (
            f"infer says {expected_outputs}, impl raises {result!r}"
        )
        return expected_outputs
    arrays = tuple(map(np.asarray, result)) if isinstance(result, tuple) else (np.asarray(result),)
    if "depends on values" in str(expected_outputs):
        return arrays
    specs = expected_outputs if isinstance(expected_outputs, tuple) else (expected_outputs,)
    assert specs == tuple(map(spec, arrays)), f"{op.name} {sample.attrs} {dtype}"
    return arrays


# Control flow accepts only the dtypes that its branches were traced with.
ALL = [op for op in ops.all_ops() if op.family not in ("control", "kernel", "leaf", "random")]


@pytest.mark.one_in(2)
@in_parts(6)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("op", ALL, ids=lambda op: op.name)
def test_op(op: Op, dtype: str) -> None:
    for sample in cases(op):
        if not any(isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in sample.inputs):
            continue
        result, exact = outputs(op, sample, as_dtype(dtype)), outputs(op, sample, np.float64)
        if isinstance(result, Exception):
            assert isinstance(result, DtypeError), result
            return
        for first, other in zip(result, exact, strict=True):
            assert first.dtype.name != "object"
            if op.name not in UNSTABLE and other.dtype.kind == "f" and other.size:
                scale = max(float(np.nanmax(np.abs(np.where(np.isinf(other), 0, other)))), 1.0)
                ours = first.astype(np.float64)
                np.testing.assert_allclose(ours, other, atol=4 * NEAR[dtype] * scale, rtol=0)


CALLS: dict[str, Any] = {
    "arithmetic": lambda x, w: (x * 2.0 + 0.5 - x / 3.0) ** 2.0,
    "scalar first": lambda x, w: 1.0 / (1.5 + x * x) - 2.0,
    "matmul": lambda x, w: x @ w,
    "batched": lambda x, w: (x[None] @ w[None]).sum(axis=0),
    "reductions": lambda x, w: x.mean(axis=0) + x.var(axis=0) * x.sum() + x.max() - x.min(),
    "softmax": lambda x, w: ns.softmax(x) * ns.log_softmax(x) + ns.logsumexp(x),
    "activations": lambda x, w: ns.gelu(x) + ns.silu(x) + ns.sigmoid(x) + ns.softplus(x),
    "where": lambda x, w: np.where(x > 0.1, x, 0.0) + np.clip(x, -0.5, 0.5),
    "ufuncs": lambda x, w: np.exp(x) + np.tanh(x) * np.sqrt(x * x + 1.0) + np.maximum(x, 0.25),
    "layout": lambda x, w: np.concatenate([x, w.T]).reshape(-1)[::2],
    "indexing": lambda x, w: x[np.array([0, 0, 2])] * 3.0,
    "cumsum": lambda x, w: np.cumsum(x, axis=1),
    "loss": lambda x, w: ns.mse(x, w.T) + ns.cross_entropy(x, np.array([0, 1, 2])),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("name", CALLS)
def test_gradients_have_the_dtype_of_their_inputs(name: str, dtype: str) -> None:
    rng = np.random.default_rng(4)
    data = [_rounded(rng.uniform(-1, 1, shape)) for shape in ((3, 4), (4, 3))]
    results = {}
    for wanted in (dtype, "float64"):
        x, w = (ns.tensor(datum, wanted, requires_grad=True) for datum in data)
        y = CALLS[name](x, w)
        assert y.dtype == as_dtype(wanted)
        y.sum().backward()
        results[wanted] = [(g.grad, g.dtype) for g in (x, w)]
        traced = [ns.tensor(datum, wanted, requires_grad=True) for datum in data]
        CALLS[name](*traced).sum().backward(create_graph=True)
        for first, (other, _) in zip(traced, results[wanted], strict=True):
            assert (first.grad is None) == (other is None)
            if other is not None:
                assert first.grad.numpy().tobytes() == other.numpy().tobytes()
    for (low, kind), (high, _) in zip(results[dtype], results["float64"], strict=True):
        assert (low is None) == (high is None)
        if low is None or high is None:
            continue
        assert low.dtype == kind
        scale = max(float(np.abs(high.numpy()).max()), 1.0)
        off = np.abs(low.numpy().astype(np.float64) - high.numpy())
        assert off.max() <= 4 * NEAR[dtype] * scale


def test_promotion_is_what_the_ufuncs_do() -> None:
    x = ns.tensor([1.0, 2.0], "bfloat16")
    dtypes = ["bool", "int8", "uint8", "int16", "int32", "int64", "uint64", "float16", "float32",
              "float64", "complex64", "complex128"]  # fmt: skip
    for other in dtypes:
        expected = (np.ones(2, BF) + np.ones(2, other)).dtype
        y = ns.tensor([1, 0], other)
        assert (x + y).dtype == expected, other
        assert ns.result_type(x, y) == ns.result_type(y, ns.bfloat16) == expected, other
        assert np.concatenate([x, y]).dtype == expected, other
        assert np.where(y != 0, x, y).dtype == expected, other
    for scalar in (True, 2, 2.5):
        for y in (
            x * scalar,
            scalar * x,
            x > scalar,
            np.add(x, scalar),
            np.where(x > 0, x, scalar),
        ):
            assert y.dtype in (BF, bool), scalar
        assert ns.result_type(x, scalar) == BF
    assert (x * 1j).dtype == ns.result_type(x, 1j) == np.complex64
    assert promote(np.dtype("int8"), 1.0) == np.float64


def test_sums_are_rounded_once() -> None:
    ones = ns.tensor(np.ones(4096), "bfloat16")
    assert ones.sum().item() == 4096.0  # adding in bfloat16 would stop at 256
    assert ones.mean().item() == 1.0
    row = ns.tensor(np.full((1, 1000), 1.0), "bfloat16")
    assert (row @ row.T).item() == 1000.0
    twice = ns.tensor(np.ones(3), "bfloat16", requires_grad=True)
    twice[np.zeros(1000, int)].sum().backward()
    assert twice.grad is not None
    assert twice.grad.tolist() == [1000.0, 0.0, 0.0]


def test_the_dtype_is_known_by_name_and_printed() -> None:
    x = ns.tensor([1.0, 2.5, -0.0], dtype="bfloat16")
    assert x.dtype == ns.bfloat16 == ns.asarray([1.0], dtype="bfloat16").dtype
    assert x.astype("float32").astype(ns.bfloat16).dtype == x.astype("bfloat16").dtype == BF
    assert repr(x) == "tensor([ 1. ,  2.5, -0. ], dtype=bfloat16)"
    assert ns.zeros((2,), dtype=ns.bfloat16).tolist() == [0.0, 0.0]
    assert ns.isdtype(ns.bfloat16, "real floating")
    limits = ns.finfo(ns.bfloat16)
    assert (limits.bits, limits.eps, limits.dtype) == (16, 2.0**-7, BF)
    assert ns.can_cast(ns.bfloat16, ns.float32)
    assert np.isnan(ns.tensor([np.nan], "bfloat16").item())


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "int4", "float4_e2m1fn"])
def test_smaller_types_are_refused(name: str) -> None:
    data = np.zeros(2, getattr(ml_dtypes, name))
    for make_tensor in (
        lambda: ns.tensor(data),
        lambda: ns.tensor([1.0]).astype(data.dtype),
        lambda: ns.zeros(2, dtype=data.dtype),
        lambda: ns.tensor([1.0]) + data,
    ):
        with pytest.raises(DtypeError, match=f"not {name}.*bfloat16 or wider"):
            make_tensor()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("optimizer", [ns.optim.SGD, ns.optim.Adam, ns.optim.AdamW])
def test_a_small_network_trains_in_halves(optimizer: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (128, 2))
    labels = ns.tensor((points[:, 0] * points[:, 1] > 0).astype(np.int64))
    x = ns.tensor(points, dtype)
    shapes = {"w1": (2, 32), "b1": (32,), "w2": (32, 2)}
    w1, b1, w2 = (
        ns.parameter(rng.standard_normal(shape), dtype, name=name) for name, shape in shapes.items()
    )
    steps = optimizer([w1, b1, w2], lr=0.5 if optimizer is ns.optim.SGD else 0.05)
    for _ in range(120):
        logits = np.tanh(x @ w1 + b1) @ w2
        loss = ns.cross_entropy(logits, labels)
        steps.zero_grad()
        loss.backward()
        steps.step()
    assert loss.dtype == w1.dtype == as_dtype(dtype)
    assert (logits.argmax(axis=1) == labels).mean().item() > 0.9


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_recorded(dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "halves.nscope"

    def program() -> Tensor:
        w = ns.parameter([[1.5, -2.0], [np.nan, 3.0]], dtype, name="w")
        loss = np.sum(np.where(np.isnan(w), 0.0, w * 2.0))
        loss.backward()
        assert w.grad is not None
        return w.grad

    plain = program().numpy().tobytes()
    with ns.record(path, level="values"):
        assert program().numpy().tobytes() == plain
    with Recording.open(path) as recording:
        seen = {row.value.name: row.value for row in recording.values()}
        at = recording.latest_at(seen["w"].id, None)
        assert at is not None
        assert at.summary.spec == TensorSpec((2, 2), dtype)
        assert (at.summary.nan_count, at.summary.min, at.summary.max) == (1, -2.0, 3.0)
        assert at.summary.preview[:2] == (1.5, -2.0)
        array = recording.array(seen["w"].id, at.seq)
        assert array is not None
        assert array.dtype == as_dtype(dtype)
        window = recording.array_slice(seen["w"].id, at.seq, (), 0, 0, 2, 2)
        assert window is not None
        np.testing.assert_array_equal(window[0], [[1.5, -2.0], [np.nan, 3.0]])
        assert {row.value.spec.dtype for row in recording.values()} >= {dtype, "bool"}


def test_leaves_of_halves_have_gradients() -> None:
    leaf = make(np.ones((2,), BF), LEAF)
    y = apply(ops.get("multiply"), (leaf, leaf), {})
    y.backward(np.ones(2))
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [2.0, 2.0]
