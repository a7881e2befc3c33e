"""Normalisation to mean 0 and variance 1: by layer, batch, group and instance; and by root mean
square.

Formulas: Ba et al. 2016, Ioffe and Szegedy 2015, Wu and He 2018, Ulyanov et al. 2016, Zhang and
Sennrich 2019. The variance is computed from centred values, so that a large mean costs no
precision; half precisions are computed in float32.

Invariant: optional inputs come as ``(x)``, ``(x, weight)`` or ``(x, weight, bias)``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from nodescope.errors import ShapeError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import TensorSpec
from nodescope.ops import RAW, register
from nodescope.ops.op import Array, Op, Operand, Sample
from nodescope.ops.rules import unbroadcast
from nodescope.ops.windows import floating, specs_of, working

Sizes = tuple[int, ...]


class Form(NamedTuple):
    """How one input is normalised.

    Attributes:
        work: The working shape.
        axes: The axes of the averages, in that shape.
        param: The shape of weight and bias.
        spread: The same shape in a form that broadcasts to ``work``.
    """

    work: Sizes
    axes: Sizes
    param: Sizes
    spread: Sizes


def _form(kind: str, shape: Sizes, attrs: dict[str, Any]) -> Form:
    rank = len(shape)
    if kind in ("layer_norm", "rms_norm"):
        dims = attrs["dims"]
        if not 1 <= dims <= rank:
            raise ShapeError(f"{kind}: {dims} dimensions to normalise in shape {shape}")
        last = shape[rank - dims :]
        return _filled(kind, Form(shape, tuple(range(rank - dims, rank)), last, last), shape)
    least = 2 if kind == "batch_norm" else 3
    if rank < least:
        raise ShapeError(
            f"{kind}: expected (N, C{', …' if least == 2 else ', L, …'}), got shape {shape}"
        )
    channels, ones = shape[1], (1,) * (rank - 2)
    if kind == "batch_norm":
        form = Form(shape, (0, *range(2, rank)), (channels,), (channels, *ones))
    elif kind == "instance_norm":
        form = Form(shape, tuple(range(2, rank)), (channels,), (channels, *ones))
    else:
        groups = attrs["groups"]
        if groups < 1 or channels % groups:
            raise ShapeError(
                f"group_norm: {channels} channels are not divisible by {groups} groups"
            )
        work = (shape[0], groups, channels // groups, *shape[2:])
        form = Form(work, tuple(range(2, rank + 1)), (channels,), (*work[1:3], *ones))
    return _filled(kind, form, shape)


def _filled(kind: str, form: Form, shape: Sizes) -> Form:
    count = _count(form)
    if count < 1 or (kind == "batch_norm" and count < 2):
        raise ShapeError(
            f"{kind}: {count} values to average over in shape {shape}",
            hint="train with more than one value per channel, or call .eval() first"
            if kind == "batch_norm"
            else "",
        )
    return form


def _count(form: Form) -> int:
    return int(np.prod([form.work[i] for i in form.axes], dtype=np.int64))


def _parameters(kind: str, specs: tuple[Operand, ...], expected: Sizes) -> None:
    for name, spec in zip(("weight", "bias"), specs, strict=False):
        shape = spec.shape if isinstance(spec, TensorSpec) else ()
        if shape != expected:
            raise ShapeError(f"{kind}: the {name} has shape {shape}, expected {expected}")


def _infer(kind: str, specs: tuple[Operand, ...], attrs: dict[str, Any]) -> Any:
    x = specs[0]
    assert isinstance(x, TensorSpec)
    dtype = floating(kind, *specs).name
    form = _form(kind, x.shape, attrs)
    _parameters(kind, specs[1:], form.param)
    out = TensorSpec(x.shape, dtype)
    if kind != "batch_norm":
        return out
    statistic = TensorSpec(form.param, working(as_dtype(x.dtype)).name)
    return out, statistic, statistic


def _statistics(F: Any, x: Any, form: Form, kind: str) -> tuple[Any, Any, Any]:
    """Mean, centred values and variance; for rms_norm, which does not centre, the mean square."""
    if kind == "rms_norm":
        return None, x, F.mean(F.square(x), axis=form.axes, keepdims=True)
    mean = F.mean(x, axis=form.axes, keepdims=True)
    centred = F.subtract(x, mean)
    return mean, centred, F.mean(F.square(centred), axis=form.axes, keepdims=True)


def _inverse(F: Any, variance: Any, eps: float) -> Any:
    return F.divide(1.0, F.sqrt(F.add(variance, eps)))


def _impl(kind: str, x: Array, *params: Array, eps: float, **attrs: Any) -> Any:
    spec = _infer(kind, specs_of(x, *params), attrs)
    form = _form(kind, x.shape, attrs)
    work = np.asarray(x, working(x.dtype)).reshape(form.work)
    mean, centred, variance = _statistics(RAW, work, form, kind)
    normalised = np.multiply(centred, _inverse(RAW, variance, eps))
    for f, param in zip((np.multiply, np.add), params, strict=False):
        normalised = f(normalised, param.reshape(form.spread))
    out = spec[0] if kind == "batch_norm" else spec
    normalised = normalised.reshape(x.shape).astype(as_dtype(out.dtype), copy=False)
    if kind != "batch_norm":
        return normalised
    return normalised, mean.reshape(form.param), variance.reshape(form.param)


# Rules


def _widened(F: Any, x: Any, form: Form) -> Any:
    """``x`` in the working shape, and in float32 for half precision."""
    work = working(x.dtype)
    if work != x.dtype:
        x = F.astype(x, dtype=work.name)
    return x if x.shape == form.work else F.reshape(x, shape=form.work)


def _rule(
    kind: str, F: Any, ct: Any, out: Any, x: Any, *params: Any, eps: float, **attrs: Any
) -> tuple[Any, ...]:
    """The cotangents of input, weight and bias, which share the normalised input."""
    form = _form(kind, x.shape, attrs)
    _, centred, variance = _statistics(F, _widened(F, x, form), form, kind)
    inverse = _inverse(F, variance, eps)
    normal = F.multiply(centred, inverse)
    shares: list[Any] = []
    if kind == "batch_norm":
        ct, *shares = ct
    pulled = _widened(F, ct, form)
    gradients = (_gathered(F, F.multiply(pulled, normal), form), _gathered(F, pulled, form))
    if params:
        pulled = F.multiply(pulled, F.reshape(params[0], shape=form.spread))
    along = F.mean(F.multiply(pulled, normal), axis=form.axes, keepdims=True)
    left = F.subtract(pulled, F.multiply(normal, along))
    if kind != "rms_norm":
        left = F.subtract(left, F.mean(pulled, axis=form.axes, keepdims=True))
    left = F.multiply(left, inverse)
    if shares:
        # Mean and variance are outputs as well: d mean = 1/n, d variance = 2 (x - mean) / n.
        by_mean, by_variance = (F.reshape(share, shape=form.spread) for share in shares)
        bend = F.multiply(centred, F.multiply(by_variance, 2.0))
        left = F.add(left, F.multiply(F.add(bend, by_mean), 1.0 / _count(form)))
    return (F.reshape(left, shape=x.shape), *gradients[: len(params)])


def _gathered(F: Any, pulled: Any, form: Form) -> Any:
    return F.reshape(unbroadcast(F, pulled, _Like(form.spread)), shape=form.param)


class _Like(NamedTuple):
    """An object with a shape, for `unbroadcast`."""

    shape: Sizes


def _samples(kind: str, rng: np.random.Generator) -> list[Sample]:
    cases: dict[str, list[tuple[Sizes, dict[str, Any]]]] = {
        "layer_norm": [
            ((3, 4), {"dims": 1}), ((2, 3, 4), {"dims": 2}), ((0, 3), {"dims": 1}),
            ((2, 1), {"dims": 1}),
        ],
        "batch_norm": [((3, 2), {}), ((2, 3, 2, 2), {}), ((1, 2, 3), {}), ((4, 0), {})],
        "group_norm": [
            ((2, 4, 3), {"groups": 2}), ((1, 2, 2, 2), {"groups": 1}), ((0, 2, 3), {"groups": 2}),
        ],
        "instance_norm": [((2, 3, 4), {}), ((1, 1, 2, 3), {}), ((0, 2, 3), {})],
    }  # fmt: skip
    samples = []
    for shape, attrs in cases["layer_norm" if kind == "rms_norm" else kind]:
        # A size of 1 has no variance of its own: eps keeps its slope measurable.
        eps = 1e-5 if shape[-1] != 1 else 0.5
        all_attrs = {"eps": eps, **attrs}
        x = rng.standard_normal(shape)
        param = _form(kind, shape, attrs).param
        w, b = rng.standard_normal(param), rng.standard_normal(param)
        samples += [
            Sample((x, w, b), all_attrs),
            Sample((x, w), all_attrs),
            Sample((x,), all_attrs),
        ]
    return samples


def _flops(specs: tuple[Operand, ...], out: Any, attrs: dict[str, Any]) -> int:
    spec = out[0] if isinstance(out, tuple) else out
    return 8 * int(np.prod(spec.shape))


for _kind in ("layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm"):
    register(
        Op(
            name=_kind,
            family="norm",
            infer=partial(_infer, _kind),
            impl=partial(_impl, _kind),
            vjp=(partial(_rule, _kind),),
            variadic=True,
            joint=True,
            ports=("x", "weight", "bias"),
            outputs=3 if _kind == "batch_norm" else 1,
            samples=partial(_samples, _kind),
            flops=_flops,
        )
    )


# With given statistics: batch_norm outside of training.


def _given_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x = specs[0]
    assert isinstance(x, TensorSpec)
    if len(x.shape) < 2:
        raise ShapeError(f"batch_norm_eval: expected (N, C, …), got shape {x.shape}")
    for name, spec in zip(("mean", "variance", "weight", "bias"), specs[1:], strict=False):
        shape = spec.shape if isinstance(spec, TensorSpec) else ()
        if shape != x.shape[1:2]:
            raise ShapeError(
                f"batch_norm_eval: the {name} has shape {shape}, expected {x.shape[1:2]}"
            )
    return TensorSpec(x.shape, floating("batch_norm_eval", *specs).name)


def _given(F: Any, x: Any, mean: Any, variance: Any, eps: float) -> tuple[Any, Any]:
    column = (mean.shape[0],) + (1,) * (len(x.shape) - 2)
    inverse = _inverse(F, F.reshape(variance, shape=column), eps)
    return F.subtract(x, F.reshape(mean, shape=column)), inverse


def _given_impl(x: Array, mean: Array, variance: Array, *params: Array, eps: float) -> Array:
    spec = _given_infer(specs_of(x, mean, variance, *params), {})
    centred, inverse = _given(RAW, np.asarray(x, working(x.dtype)), mean, variance, eps)
    if params:
        inverse = np.multiply(inverse, params[0].reshape(inverse.shape))
    normalised = np.multiply(centred, inverse)
    if len(params) > 1:
        normalised = np.add(normalised, params[1].reshape(inverse.shape))
    result: Array = normalised.astype(as_dtype(spec.dtype), copy=False)
    return result


def _given_rule(port: int) -> Callable[..., Any]:
    def rule(F: Any, ct: Any, out: Any, x: Any, mean: Any, var: Any, *params: Any, eps: Any) -> Any:
        centred, inverse = _given(F, x, mean, var, eps)
        across = (0, *range(2, len(x.shape)))
        if port == 4:
            return F.sum(ct, axis=across, keepdims=False)
        if port == 3:
            scaled = F.multiply(F.multiply(ct, centred), inverse)
            return F.sum(scaled, axis=across, keepdims=False)
        scale = inverse
        if params:
            scale = F.multiply(scale, F.reshape(params[0], shape=inverse.shape))
        if port == 0:
            return F.multiply(ct, scale)
        if port == 1:
            return F.sum(F.negative(F.multiply(ct, scale)), axis=across, keepdims=False)
        bend = F.multiply(F.multiply(scale, F.square(inverse)), -0.5)
        return F.sum(F.multiply(F.multiply(ct, centred), bend), axis=across, keepdims=False)

    return rule


def _given_samples(rng: np.random.Generator) -> list[Sample]:
    samples = []
    for shape in ((3, 2), (2, 3, 2, 2), (1, 1, 3), (0, 2)):
        c = shape[1]
        operands = (rng.standard_normal(shape), rng.standard_normal(c), rng.uniform(0.5, 2.0, c),
                 rng.standard_normal(c), rng.standard_normal(c))  # fmt: skip
        samples += [Sample(operands[:k], {"eps": 1e-5}) for k in (5, 4, 3)]
    return samples


register(
    Op(
        name="batch_norm_eval",
        family="norm",
        infer=_given_infer,
        impl=_given_impl,
        vjp=tuple(_given_rule(port) for port in range(5)),
        ports=("x", "mean", "variance", "weight", "bias"),
        samples=_given_samples,
        flops=_flops,
    )
)
