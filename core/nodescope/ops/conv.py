"""Convolutions and transposed convolutions of sequences and images, with gradients as separate ops.

Layouts and formulas are PyTorch's: inputs (N, C, …), weights (O, C / groups, …), cross-correlation.
The gradients are linear in both inputs, so that each rule is one of these ops again.

Invariant: attributes are normalised: a tuple per spatial dimension, padding as (before, after).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nodescope.errors import ShapeError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import TensorSpec
from nodescope.ops import convolution_arithmetic, register
from nodescope.ops.convolution_arithmetic import ConvolutionPlan
from nodescope.ops.op import Array, Op, Operand, Sample
from nodescope.ops.windows import (
    Sizes,
    flat,
    floating,
    image,
    lift,
    pair,
    pair_padding,
    positions,
    specs_of,
    working,
)


def _plan(shape: Sizes, weight: Sizes, out: Sizes, attrs: dict[str, Any]) -> ConvolutionPlan:
    """The plan for images of ``shape`` (N, C, …) with a weight, both specs already checked."""
    padding = pair_padding(attrs["padding"])
    height, width = pair(shape[2:])
    (top, bottom), (left, right) = padding
    return ConvolutionPlan(
        kernel=pair(weight[2:]),
        stride=pair(attrs["stride"]),
        dilation=pair(attrs["dilation"]),
        padding=padding,
        groups=attrs["groups"],
        outputs=weight[0] // attrs["groups"],
        out=pair(out),
        shape=(shape[1], height + top + bottom, width + left + right),
    )


def _grouped(name: str, channels: int, outputs: int, weight: Sizes, groups: int) -> None:
    """Check that a weight (O, C / groups, …) matches the numbers of channels in and out."""
    if groups < 1 or channels % groups or outputs % groups:
        raise ShapeError(
            f"{name}: {channels} input and {outputs} output channels are not divisible by "
            f"{groups} groups"
        )
    if weight[1] * groups != channels:
        raise ShapeError(
            f"{name}: {channels} input channels, but the weight {weight} takes "
            f"{weight[1] * groups}" + (f" ({weight[1]} in each of {groups} groups)"
                                       if groups > 1 else ""),
            hint="the weight is (output channels, input channels / groups, kernel…)",
        )  # fmt: skip


def _bias(name: str, rest: tuple[Operand, ...], outputs: int) -> None:
    for bias in rest:
        if not isinstance(bias, TensorSpec) or bias.shape != (outputs,):
            shape = bias.shape if isinstance(bias, TensorSpec) else ()
            raise ShapeError(f"{name}: the bias has shape {shape}, expected ({outputs},)")


def _conv_infer(n: int, specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    name = f"conv{n}d"
    x, w = image(name, specs[0], n), image(f"{name} weight", specs[1], n)
    _grouped(name, x.shape[1], w.shape[0], w.shape, attrs["groups"])
    _bias(name, specs[2:], w.shape[0])
    out = positions(
        name, x.shape[2:], w.shape[2:], attrs["stride"], attrs["padding"], attrs["dilation"]
    )
    return TensorSpec((x.shape[0], w.shape[0], *out), floating(name, *specs).name)


def _input_grad_infer(n: int, specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    name = f"conv{n}d_input_grad"
    ct, w = image(name, specs[0], n), image(f"{name} weight", specs[1], n)
    channels = w.shape[1] * attrs["groups"]
    _grouped(name, channels, w.shape[0], w.shape, attrs["groups"])
    if ct.shape[1] != w.shape[0]:
        raise ShapeError(f"{name}: {ct.shape} does not have the weight's {w.shape[0]} channels")
    most = positions(
        name, attrs["size"], w.shape[2:], attrs["stride"], attrs["padding"], attrs["dilation"]
    )
    _covered(name, ct.shape[2:], most)
    return TensorSpec((ct.shape[0], channels, *attrs["size"]), floating(name, ct, w).name)


def _weight_grad_infer(n: int, specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    name = f"conv{n}d_weight_grad"
    x, ct = image(name, specs[0], n), image(name, specs[1], n)
    groups = attrs["groups"]
    weight = (ct.shape[1], x.shape[1] // max(groups, 1), *attrs["kernel"])
    _grouped(name, x.shape[1], ct.shape[1], weight, groups)
    if x.shape[0] != ct.shape[0]:
        raise ShapeError(f"{name}: {x.shape} and {ct.shape} differ in the batch")
    most = positions(
        name, x.shape[2:], attrs["kernel"], attrs["stride"], attrs["padding"], attrs["dilation"]
    )
    _covered(name, ct.shape[2:], most)
    return TensorSpec(weight, floating(name, x, ct).name)


def _covered(name: str, out: Sizes, most: Sizes) -> None:
    if any(a < 1 or a > b for a, b in zip(out, most, strict=True)):
        raise ShapeError(f"{name}: a gradient of size {out} for {most} positions")


def _transpose_infer(n: int, specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    name = f"conv_transpose{n}d"
    x, w = image(name, specs[0], n), image(f"{name} weight", specs[1], n)
    groups = attrs["groups"]
    if groups < 1 or x.shape[1] % groups:
        raise ShapeError(
            f"{name}: {x.shape[1]} input channels are not divisible by {groups} groups"
        )
    if x.shape[1] != w.shape[0]:
        raise ShapeError(
            f"{name}: {x.shape[1]} input channels, but the weight {w.shape} takes {w.shape[0]}",
            hint="the weight is (input channels, output channels / groups, kernel…)",
        )
    outputs = w.shape[1] * groups
    _bias(name, specs[2:], outputs)
    size = _transposed_size(name, x.shape[2:], w.shape[2:], attrs)
    return TensorSpec((x.shape[0], outputs, *size), floating(name, *specs).name)


def _transposed_size(name: str, size: Sizes, kernel: Sizes, attrs: dict[str, Any]) -> Sizes:
    """(L - 1) * stride - padding + dilation * (kernel - 1) + 1 + output padding."""
    lengths = []
    for n, k, s, (low, high), d, more in zip(
        size, kernel, attrs["stride"], attrs["padding"], attrs["dilation"],
        attrs["output_padding"], strict=True,
    ):  # fmt: skip
        if k < 1 or s < 1 or d < 1 or low < 0 or high < 0:
            raise ShapeError(f"{name}: kernel, stride and dilation must be positive: {attrs}")
        if not 0 <= more < max(s, d):
            raise ShapeError(
                f"{name}: output_padding {more} must be less than the stride {s} or dilation {d}"
            )
        length = (n - 1) * s - low - high + d * (k - 1) + 1 + more
        if n < 1 or length < 1:
            raise ShapeError(
                f"{name}: {n} elements would become {length}",
                hint="use less padding or a larger kernel",
            )
        lengths.append(length)
    return tuple(lengths)


# Arithmetic: everything is lifted to two dimensions, half precision to float32.


def _prepared(dtype: str, first: Array, second: Array) -> tuple[Array, Array]:
    work = working(as_dtype(dtype))
    return lift(first).astype(work, copy=False), lift(second).astype(work, copy=False)


def _with_bias(y: Array, rest: tuple[Array, ...]) -> Array:
    if rest:
        np.add(y, rest[0].reshape(1, -1, 1, 1), out=y, casting="same_kind")
    return y


def _conv(n: int, x: Array, w: Array, *rest: Array, **attrs: Any) -> Array:
    spec = _conv_infer(n, specs_of(x, w, *rest), attrs)
    plan = _plan(x.shape, w.shape, spec.shape[2:], attrs)
    inputs, weights = _prepared(spec.dtype, x, w)
    bias = rest[0].reshape(-1, 1, 1).astype(inputs.dtype, copy=False) if rest else None
    y = convolution_arithmetic.forward(inputs, weights, plan, bias)
    return flat(y, n).astype(as_dtype(spec.dtype), copy=False)


def _input_grad(n: int, ct: Array, w: Array, *, size: Sizes, **attrs: Any) -> Array:
    spec = _input_grad_infer(n, specs_of(ct, w), {"size": size, **attrs})
    plan = _plan(spec.shape, w.shape, ct.shape[2:], attrs)
    x = convolution_arithmetic.input_grad(*_prepared(spec.dtype, ct, w), plan)
    return flat(x, n).astype(as_dtype(spec.dtype), copy=False)


def _weight_grad(n: int, x: Array, ct: Array, *, kernel: Sizes, **attrs: Any) -> Array:
    spec = _weight_grad_infer(n, specs_of(x, ct), {"kernel": kernel, **attrs})
    plan = _plan(x.shape, spec.shape, ct.shape[2:], attrs)
    w = convolution_arithmetic.weight_grad(*_prepared(spec.dtype, x, ct), plan)
    return flat(w, n).astype(as_dtype(spec.dtype), copy=False)


def _transpose(
    n: int, x: Array, w: Array, *rest: Array, output_padding: Sizes, **attrs: Any
) -> Array:
    all_attrs = {"output_padding": output_padding, **attrs}
    spec = _transpose_infer(n, specs_of(x, w, *rest), all_attrs)
    plan = _plan(spec.shape, w.shape, x.shape[2:], attrs)
    y = convolution_arithmetic.input_grad(*_prepared(spec.dtype, x, w), plan)
    return flat(_with_bias(y, rest), n).astype(as_dtype(spec.dtype), copy=False)


# Rules


def _cropped(F: Any, y: Any, size: Sizes) -> Any:
    """The array without the positions that the opposite convolution did not read."""
    if y.shape[2:] == size:
        return y
    return F.getitem(y, index=(slice(None), slice(None), *(slice(0, k) for k in size)))


def _bias_rule(F: Any, ct: Any, out: Any, *inputs: Any, **attrs: Any) -> Any:
    return F.sum(ct, axis=(0, *range(2, ct.ndim)), keepdims=False)


def _conv_rules(n: int) -> tuple[Callable[..., Any], ...]:
    def left(F: Any, ct: Any, out: Any, x: Any, w: Any, *rest: Any, **attrs: Any) -> Any:
        return getattr(F, f"conv{n}d_input_grad")(ct, w, size=x.shape[2:], **attrs)

    def right(F: Any, ct: Any, out: Any, x: Any, w: Any, *rest: Any, **attrs: Any) -> Any:
        return getattr(F, f"conv{n}d_weight_grad")(x, ct, kernel=w.shape[2:], **attrs)

    return left, right, _bias_rule


def _input_grad_rules(n: int) -> tuple[Callable[..., Any], ...]:
    def left(F: Any, ct: Any, out: Any, g: Any, w: Any, *, size: Any, **attrs: Any) -> Any:
        return _cropped(F, getattr(F, f"conv{n}d")(ct, w, **attrs), g.shape[2:])

    def right(F: Any, ct: Any, out: Any, g: Any, w: Any, *, size: Any, **attrs: Any) -> Any:
        return getattr(F, f"conv{n}d_weight_grad")(ct, g, kernel=w.shape[2:], **attrs)

    return left, right


def _weight_grad_rules(n: int) -> tuple[Callable[..., Any], ...]:
    def left(F: Any, ct: Any, out: Any, x: Any, g: Any, *, kernel: Any, **attrs: Any) -> Any:
        return getattr(F, f"conv{n}d_input_grad")(g, ct, size=x.shape[2:], **attrs)

    def right(F: Any, ct: Any, out: Any, x: Any, g: Any, *, kernel: Any, **attrs: Any) -> Any:
        return _cropped(F, getattr(F, f"conv{n}d")(x, ct, **attrs), g.shape[2:])

    return left, right


def _transpose_rules(n: int) -> tuple[Callable[..., Any], ...]:
    def left(
        F: Any, ct: Any, out: Any, x: Any, w: Any, *rest: Any, output_padding: Any, **attrs: Any
    ) -> Any:
        return _cropped(F, getattr(F, f"conv{n}d")(ct, w, **attrs), x.shape[2:])

    def right(
        F: Any, ct: Any, out: Any, x: Any, w: Any, *rest: Any, output_padding: Any, **attrs: Any
    ) -> Any:
        return getattr(F, f"conv{n}d_weight_grad")(ct, x, kernel=w.shape[2:], **attrs)

    return left, right, _bias_rule


# Samples: (batch, in, out, size, kernel, stride, padding, dilation, groups), doubled to 2d.
_CASES: list[tuple[int, int, int, int, int, int, tuple[int, int], int, int]] = [
    (2, 3, 4, 5, 3, 1, (0, 0), 1, 1), (2, 4, 6, 6, 3, 2, (1, 1), 1, 2),
    (1, 2, 2, 7, 3, 1, (1, 2), 2, 1), (2, 3, 3, 4, 1, 1, (0, 0), 1, 3),
    (1, 1, 1, 1, 1, 1, (0, 0), 1, 1), (0, 2, 3, 5, 2, 1, (0, 0), 1, 1),
    (2, 2, 3, 6, 2, 3, (0, 1), 1, 1),
]  # fmt: skip


def _samples(n: int, kind: str, rng: np.random.Generator) -> list[Sample]:
    samples = []
    for batch, c, o, size, k, s, pad, d, groups in _CASES:
        attrs: dict[str, Any] = {
            "stride": (s,) * n, "padding": (pad,) * n, "dilation": (d,) * n, "groups": groups
        }  # fmt: skip
        if n == 2 and size > 1:  # the two dimensions differ
            attrs["padding"] = (pad, (pad[1] + 1, pad[0]))
        sizes: Sizes = (size, size + 1)[:n] if size > 1 else (1,) * n
        x = rng.standard_normal((batch, c, *sizes))
        w = rng.standard_normal((o, c // groups, *(k,) * n))
        out = positions("", sizes, (k,) * n, attrs["stride"], attrs["padding"], attrs["dilation"])
        ct = rng.standard_normal((batch, o, *out))
        if kind == "conv":
            samples += [Sample((x, w), attrs), Sample((x, w, rng.standard_normal(o)), attrs)]
        elif kind == "input_grad":
            samples.append(Sample((ct, w), {"size": sizes, **attrs}))
        elif kind == "weight_grad":
            samples.append(Sample((x, ct), {"kernel": (k,) * n, **attrs}))
        else:
            more = {"output_padding": ((s > 1 or d > 1) * 1,) * n}
            bias = rng.standard_normal(w.shape[1] * groups)
            samples += [
                Sample((ct, w), {**attrs, **more}),
                Sample((ct, w, bias), {**attrs, **more}),
            ]
    return samples


def _products(shaped: int, weight: int) -> Callable[..., int]:
    """Two operations for each element on the coarse side times each weight applied to it."""

    def flops(specs: tuple[Operand, ...], out: TensorSpec, attrs: dict[str, Any]) -> int:
        all_specs = (*specs, out)
        coarse, weights = all_specs[shaped], all_specs[weight]
        assert isinstance(coarse, TensorSpec)
        assert isinstance(weights, TensorSpec)
        return 2 * int(np.prod(coarse.shape)) * int(np.prod(weights.shape[1:]))

    return flops


for _n in (1, 2):
    for _what, _infer, _impl, _rules, _ports, _meet in (
        ("conv", _conv_infer, _conv, _conv_rules, ("x", "weight", "bias"), (-1, 1)),
        ("input_grad", _input_grad_infer, _input_grad, _input_grad_rules, ("ct", "weight"), (0, 1)),
        ("weight_grad", _weight_grad_infer, _weight_grad, _weight_grad_rules, ("x", "ct"), (1, -1)),
        (
            "transpose",
            _transpose_infer,
            _transpose,
            _transpose_rules,
            ("x", "weight", "bias"),
            (0, 1),
        ),
    ):
        _name = {"conv": f"conv{_n}d", "transpose": f"conv_transpose{_n}d"}.get(
            _what, f"conv{_n}d_{_what}"
        )
        register(
            Op(
                name=_name,
                family="matmul",
                infer=partial(_infer, _n),
                impl=partial(_impl, _n),
                vjp=_rules(_n),
                ports=_ports,
                samples=partial(_samples, _n, _what),
                flops=_products(*_meet),
            )
        )
