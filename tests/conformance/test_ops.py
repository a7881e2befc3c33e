"""Every registered op: infer against impl, gradients against differences, eager against traced."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nodescope as ns
from nodescope import ops
from nodescope.engine.run import apply
from nodescope.engine.tensor import LEAF, Tensor, make
from nodescope.errors import DtypeError, NodescopeError, ShapeError
from nodescope.ir.dtypes import bfloat16
from nodescope.ops.op import Op, Sample
from tests import depth
from tests.conformance.op_cases import (
    DTYPES,
    converted,
    elementwise,
    infers,
    mixed_dtypes,
    samples,
    specs,
    takes,
)
from tests.depth import examples
from tests.parts import in_parts

ALL = list(ops.all_ops())
PICKY = {"where", "isclose", "round", "nan_to_num"}  # Elementwise, but tested with samples.
ELEMENTWISE = [op for op in ALL if op.elementwise and op.name not in PICKY]
# These ops compute nothing: they order nodes, or are the two ends of a wire.
SIGNALS = {"no_op", "send", "receive"}
SAMPLED = [op for op in ALL if (not op.elementwise or op.name in PICKY) and op.name not in SIGNALS]
SMOOTH_KINDS = "fc"
# The dtypes of these are fixed by the graphs inside, or by the variable that changes.
FIXED = {"control", "update", "kernel"}
ELEMENTWISE_ANY = [op for op in ELEMENTWISE if op.family not in FIXED]
# The complex vectors of these are determined only up to a phase, so differences cannot check them
# alone; tests/core/ops/test_linalg.py checks them in functions that do not depend on the phase.
UP_TO_PHASE = {"svd", "eigh", "eig"}
SAMPLED_ANY = [op for op in SAMPLED if op.family not in FIXED and op.name not in UP_TO_PHASE]
DRAWN = settings(
    max_examples=examples(25),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def name(op: Op) -> str:
    return op.name


def run(op: Op, sample: Sample) -> tuple[Any, ...]:
    """The outputs of the impl."""
    result = op.impl(*sample.inputs, **sample.attrs)
    return tuple(map(np.asarray, result)) if isinstance(result, tuple) else (np.asarray(result),)


def check(op: Op, sample: Sample) -> None:
    """Check all requirements for one call."""
    inputs, attrs = sample
    outs = run(op, sample)
    try:
        inferred = infers(op, inputs, attrs)
    except ShapeError as error:
        assert "depends on" in error.message  # noqa: PT017 (which values, only impl can tell)
    else:
        assert inferred == specs(outs)
        assert op.flops(specs(inputs), inferred[0], dict(attrs)) >= 0
    if op.vjp is None or not any(out.dtype.kind in SMOOTH_KINDS for out in outs):
        return
    rng = np.random.default_rng(11)
    cts = [like(out, rng) if out.dtype.kind in SMOOTH_KINDS else None for out in outs]
    raw = gradients(op, sample, cts, traced=False)
    traced = gradients(op, sample, cts, traced=True)
    for port, (first, other) in enumerate(zip(raw, traced, strict=True)):
        if first is None:
            assert other is None
            continue
        x = inputs[port]
        assert first.shape == x.shape
        assert first.dtype == x.dtype
        assert first.tobytes() == other.tobytes(), "raw and traced rules differ"
        for part in (1.0, 1j)[: 2 if x.dtype.kind == "c" else 1]:
            direction = rng.standard_normal(x.shape) * part
            # `.grad` of a real loss is the direction of steepest ascent: dL = Re(conj(grad) dz).
            result = float(np.sum(np.conj(first) * direction).real)
            expected = slope(op, sample, port, direction, cts)
            assert result == pytest.approx(expected, rel=2e-5, abs=2e-7)


def like(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    result = np.asarray(rng.standard_normal(x.shape))
    return result + 1j * rng.standard_normal(x.shape) if x.dtype.kind == "c" else result


def gradients(op: Op, sample: Sample, cts: list[Any], *, traced: bool) -> list[Any]:
    tensors = []
    for x in sample.inputs:
        if not isinstance(x, np.ndarray):
            tensors.append(x)
        else:  # Use the array itself: a copy would lose its layout.
            tensors.append(make(x, LEAF) if x.dtype.kind in SMOOTH_KINDS else make(x))
    result = apply(op, tuple(tensors), sample.attrs)
    outs = result if isinstance(result, tuple) else (result,)
    parts = [
        np.sum(np.real(out * ct))
        for out, ct in zip(outs, cts, strict=True)
        if ct is not None and out.requires_grad
    ]
    if not parts:
        return [None] * len(tensors)
    sum(parts[1:], parts[0]).backward(create_graph=traced)
    return [t.grad.data if isinstance(t, Tensor) and t.grad is not None else None for t in tensors]


def slope(op: Op, sample: Sample, port: int, direction: Any, cts: list[Any]) -> float:
    """The central difference of ``Re(sum(ct * op(...)))`` along ``direction``."""
    step = 1e-6

    def at(shift: float) -> float:
        inputs = list(sample.inputs)
        inputs[port] = inputs[port] + shift * direction
        outs = run(op, Sample(tuple(inputs), sample.attrs))
        pairs = zip(outs, cts, strict=True)
        return float(sum(np.sum(ct * out).real for out, ct in pairs if ct is not None))

    return (at(step) - at(-step)) / (2 * step)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("op", ELEMENTWISE, ids=name)
@DRAWN
@given(data=st.data())
def test_elementwise_op(op: Op, data: st.DataObject) -> None:
    wanted = (("f", "float64"), ("c", "complex128"))[: 1 if op.family in FIXED else 2]
    kinds = [kind for kind, dtype in wanted if takes(op, dtype)]
    kind = data.draw(st.sampled_from(kinds or ["i"]))
    check(op, data.draw(elementwise(op, kind)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("op", ELEMENTWISE_ANY, ids=name)
@DRAWN
@given(data=st.data())
def test_elementwise_dtypes(op: Op, data: st.DataObject) -> None:
    agrees(op, data.draw(mixed_dtypes(op)))


def agrees(op: Op, sample: Sample) -> None:
    """Check that infer agrees with impl, and refuses the dtypes that impl refuses."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outs = run(op, sample)
    except (TypeError, DtypeError):
        assert infers(op, *sample) is None
        return
    except NodescopeError:
        return  # The values or shapes are invalid: samples are not made for this dtype.
    except (ValueError, OverflowError):
        return
    try:
        assert infers(op, *sample) == specs(outs)
    except ShapeError as error:
        assert "depends on" in error.message  # noqa: PT017


@pytest.mark.one_in(2)
@in_parts(8)
@pytest.mark.parametrize("op", SAMPLED, ids=name)
def test_op(op: Op) -> None:
    result = samples(op)
    assert result, f"{op.name} has no samples, so nothing is known of it"
    for sample in result:
        check(op, sample)


@pytest.mark.one_in(2)
@in_parts(8)
@pytest.mark.parametrize("op", depth.some(SAMPLED_ANY, 3), ids=name)
def test_op_in_complex_numbers(op: Op) -> None:
    for given_sample in samples(op):
        sample = converted(given_sample, "complex128")
        try:
            refused = infers(op, *sample) is None
        except ShapeError:
            refused = False
        if refused:
            with pytest.raises((TypeError, DtypeError)):
                run(op, sample)
        else:
            check(op, sample)


@pytest.mark.one_in(2)
@in_parts(4)
@pytest.mark.parametrize("op", SAMPLED_ANY, ids=name)
def test_op_dtypes(op: Op) -> None:
    for sample in op.samples(np.random.default_rng(5)):
        for dtype in (*DTYPES, bfloat16()):
            agrees(op, converted(sample, dtype))


SMOOTH = [op for op in ALL if op.vjp is not None and op.smooth and not op.is_leaf]


def smooth_ports(op: Op, sample: Sample) -> list[int]:
    return [
        i for i, x in enumerate(sample.inputs)
        if isinstance(x, np.ndarray) and x.dtype.kind == "f" and op.rule(i) is not None
    ]  # fmt: skip


@in_parts(4)
@pytest.mark.parametrize("op", SMOOTH, ids=name)
def test_second_derivative(op: Op) -> None:
    rng = np.random.default_rng(3)
    if op.elementwise and op.name not in PICKY:
        sample = Sample(tuple(rng.uniform(*op.domain, (2, 3)) for _ in op.ports))
        if op.name == "ldexp":
            sample = Sample((sample.inputs[0], rng.integers(0, 3, (2, 3))))
    else:
        sample = next(s for s in op.samples(rng) if smooth_ports(op, s))
    ports = smooth_ports(op, sample)
    direction = {i: rng.standard_normal(sample.inputs[i].shape) for i in ports}

    def loss(*floats: Any) -> Any:
        inputs = list(sample.inputs)
        for i, x in zip(ports, floats, strict=True):
            inputs[i] = x
        inputs = [make(x) if isinstance(x, np.ndarray) else x for x in inputs]
        result = apply(op, tuple(inputs), sample.attrs)
        outs = result if isinstance(result, tuple) else (result,)
        smooth = [np.sum(np.real(out * out)) for out in outs if out.dtype.kind in SMOOTH_KINDS]
        return sum(smooth[1:], smooth[0])

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
        way = rng.standard_normal(sample.inputs[i].shape)
        up, down = list(given_floats), list(given_floats)
        up[position] = up[position] + step * way
        down[position] = down[position] - step * way
        expected = (slope_along(*up).item() - slope_along(*down).item()) / (2 * step)
        actual = float(np.sum(second[position].numpy() * way))
        assert actual == pytest.approx(expected, rel=1e-4, abs=1e-6)
