"""Every registered op: infer against impl, gradients against differences, raw against traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nodescope as ns
from nodescope import ops
from nodescope.engine.run import apply
from nodescope.engine.tensor import Tensor, make
from nodescope.ops.op import Op, Sample
from tests.conformance.op_cases import elementwise, samples, specs

ALL = list(ops.all_ops())
ELEMENTWISE = [op for op in ALL if op.elementwise and op.name != "where"]
SAMPLED = [op for op in ALL if not op.elementwise or op.name == "where"]
DRAWN = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def name(op: Op) -> str:
    return op.name


def check(op: Op, sample: Sample) -> None:
    """Everything that must hold for one call."""
    inputs, attrs = sample
    out = np.asarray(op.impl(*inputs, **attrs))
    assert op.infer(specs(inputs), attrs) == specs((out,))[0]
    assert op.flops(specs(inputs), specs((out,))[0]) >= 0
    if op.vjp is None or out.dtype.kind != "f":
        return
    rng = np.random.default_rng(11)
    ct = rng.standard_normal(out.shape)
    raw = gradients(op, sample, ct, traced=False)
    traced = gradients(op, sample, ct, traced=True)
    for port, (one, other) in enumerate(zip(raw, traced, strict=True)):
        if one is None:
            assert other is None
            continue
        x = inputs[port]
        assert one.shape == x.shape
        assert one.dtype == x.dtype
        assert one.tobytes() == other.tobytes(), "raw and traced rules differ"
        direction = rng.standard_normal(x.shape)
        found = float(np.sum(one * direction))
        expected = slope(op, sample, port, direction, ct)
        assert found == pytest.approx(expected, rel=2e-5, abs=2e-7)


def gradients(op: Op, sample: Sample, ct: np.ndarray, *, traced: bool) -> list[Any]:
    tensors = []
    for x in sample.inputs:
        if not isinstance(x, np.ndarray):
            tensors.append(x)
        elif x.dtype.kind == "f":
            tensors.append(leaf(x))
        else:
            tensors.append(make(x))
    out = apply(op, tuple(tensors), sample.attrs)
    if not out.requires_grad:
        return [None] * len(tensors)
    out.backward(ct, create_graph=traced)
    return [t.grad.data if grad_of(t) else None for t in tensors]


def grad_of(t: Any) -> bool:
    return isinstance(t, Tensor) and t.grad is not None


def leaf(x: np.ndarray) -> Tensor:
    """A leaf around this very array, whose layout a copy would lose."""
    from nodescope.engine.tensor import LEAF

    return make(x, LEAF)


def slope(op: Op, sample: Sample, port: int, direction: np.ndarray, ct: np.ndarray) -> float:
    """The central difference of ``sum(ct * op(...))`` along ``direction``."""
    step = 1e-6

    def at(shift: float) -> float:
        inputs = list(sample.inputs)
        inputs[port] = inputs[port] + shift * direction
        return float(np.sum(ct * op.impl(*inputs, **sample.attrs)))

    return (at(step) - at(-step)) / (2 * step)


@pytest.mark.parametrize("op", ELEMENTWISE, ids=name)
@DRAWN
@given(data=st.data())
def test_elementwise_op(op: Op, data: st.DataObject) -> None:
    check(op, data.draw(elementwise(op)))


@pytest.mark.parametrize("op", SAMPLED, ids=name)
def test_op(op: Op) -> None:
    found = samples(op)
    assert found, f"{op.name} has no samples, so nothing is known of it"
    for sample in found:
        check(op, sample)


SMOOTH = [op for op in ALL if op.vjp is not None and op.smooth and op.family != "leaf"]


@pytest.mark.parametrize("op", SMOOTH, ids=name)
def test_second_derivative(op: Op) -> None:
    rng = np.random.default_rng(3)
    if op.elementwise and op.name != "where":
        sample = Sample(tuple(rng.uniform(*op.domain, (2, 3)) for _ in op.ports))
    else:
        sample = next(iter(op.samples(rng)))
    ports = [
        i for i, x in enumerate(sample.inputs)
        if isinstance(x, np.ndarray) and x.dtype.kind == "f" and op.rule(i) is not None
    ]  # fmt: skip
    direction = {i: rng.standard_normal(sample.inputs[i].shape) for i in ports}

    def loss(*floats: Any) -> Any:
        inputs = list(sample.inputs)
        for i, x in zip(ports, floats, strict=True):
            inputs[i] = x
        inputs = [make(x) if isinstance(x, np.ndarray) else x for x in inputs]
        out = apply(op, tuple(inputs), sample.attrs)
        return np.sum(out * out)

    def slope_along(*floats: Any) -> Any:
        grads = ns.grad(loss, tuple(range(len(ports))))(*floats)
        total: Any = 0.0
        for i, g in zip(ports, grads, strict=True):
            total = total + np.sum(g * direction[i])
        return total

    given_floats = [sample.inputs[i] for i in ports]
    second = ns.grad(slope_along, tuple(range(len(ports))))(*given_floats)
    step = 1e-6
    for position, i in enumerate(ports):
        for way in (rng.standard_normal(sample.inputs[i].shape),):
            up, down = list(given_floats), list(given_floats)
            up[position] = up[position] + step * way
            down[position] = down[position] - step * way
            expected = (slope_along(*up).item() - slope_along(*down).item()) / (2 * step)
            found = float(np.sum(second[position].numpy() * way))
            assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
