"""Pooling of sequences and images: maxima and means of windows, sliding or adaptive.

The gradient of a maximum goes to the first largest element of its window, as PyTorch's does; it is
a separate op, linear in the cotangent, and its transpose (``_pick``) reads from the same places.

Invariant: attributes are normalised: a tuple per spatial dimension, padding as (before, after).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from nodescope.errors import DtypeError, ShapeError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.masking import kept
from nodescope.ops.op import Array, Op, Operand, Rule, Sample, one_per_input
from nodescope.ops.windows import (
    Padding,
    Sizes,
    flat,
    floating,
    image,
    inner,
    lift,
    padded,
    pair,
    pair_padding,
    positions,
    specs_of,
    working,
)


def _real(name: str, x: TensorSpec) -> None:
    if floating(name, x).kind == "c":
        raise DtypeError(f"{name}: complex numbers have no order", hint="pool np.abs of them")


def _layout(name: str, size: Sizes, attrs: dict[str, Any]) -> tuple[Sizes, Padding]:
    """Positions, and the padding needed by the last ones if ``ceil_mode`` adds some."""
    kernel, stride, padding = attrs["kernel"], attrs["stride"], attrs["padding"]
    dilation = attrs.get("dilation", (1,) * len(kernel))
    for k, d, (low, high) in zip(kernel, dilation, padding, strict=True):
        if 2 * max(low, high) > d * (k - 1) + 1:
            raise ShapeError(
                f"{name}: padding {padding} is more than half of the window {kernel}",
                hint="some windows would contain only padding",
            )
    out = positions(name, size, kernel, stride, padding, dilation)
    if not attrs["ceil_mode"]:
        return out, padding
    counts, more = [], []
    for n, k, s, (low, high), d in zip(size, kernel, stride, padding, dilation, strict=True):
        reach = d * (k - 1) + 1
        count = -((n + low + high - reach) // -s) + 1
        if (count - 1) * s >= n + low:  # the last window has to start inside
            count -= 1
        counts.append(count)
        more.append((low, max(high, (count - 1) * s + reach - n - low)))
    return tuple(counts), tuple(more)


def _sliding_infer(n: int, kind: str, specs: tuple[Operand, ...], attrs: Any) -> TensorSpec:
    name = f"{kind}_pool{n}d"
    x = image(name, specs[0], n)
    _real(name, x)
    out, _ = _layout(name, x.shape[2:], attrs)
    return TensorSpec((*x.shape[:2], *out), x.dtype)


def _tap(x: Array, at: tuple[int, int], out: Sizes, attrs: dict[str, Any]) -> Array:
    """The element at one position (tap) of every window."""
    (s, t), (d, e) = pair(attrs["stride"]), pair(attrs.get("dilation", (1, 1)))
    top, left = at[0] * d, at[1] * e
    return x[
        :, :, top : top + s * (out[0] - 1) + 1 : s, left : left + t * (out[1] - 1) + 1 : t
    ]  # fmt: skip


def _taps(attrs: dict[str, Any]) -> Iterator[tuple[int, int]]:
    kernel = pair(attrs["kernel"])
    return ((i, j) for i in range(kernel[0]) for j in range(kernel[1]))


def _combined(f: np.ufunc, x: Array, out: Sizes, attrs: dict[str, Any]) -> Array:
    """``f`` over each window, rows first: kh + kw passes instead of kh * kw."""
    (kh, kw), (dh, dw) = pair(attrs["kernel"]), pair(attrs.get("dilation", (1, 1)))
    s, t = pair(attrs["stride"])
    rows = x[:, :, : s * (out[0] - 1) + 1 : s]
    for i in range(1, kh):
        rows = f(rows, x[:, :, i * dh : i * dh + s * (out[0] - 1) + 1 : s])
    combined = rows[..., : t * (out[1] - 1) + 1 : t]
    for j in range(1, kw):
        combined = f(combined, rows[..., j * dw : j * dw + t * (out[1] - 1) + 1 : t])
    return combined.copy() if kh == kw == 1 else combined


def _max(n: int, x: Array, **attrs: Any) -> Array:
    _sliding_infer(n, "max", specs_of(x), attrs)
    out, padding = _layout("", x.shape[2:], attrs)
    x = padded(lift(x), pair_padding(padding), -np.inf)
    return flat(_combined(np.maximum, x, pair(out), attrs), n)


def _first_hits(x: Array, largest: Array, attrs: dict[str, Any]) -> Iterator[tuple[Any, Array]]:
    """For each tap, where it is the first maximum of its window."""
    out = largest.shape[2:]
    kernel = pair(attrs["kernel"])
    claimed = np.zeros(largest.shape, bool)
    for at in _taps(attrs):
        if at == (kernel[0] - 1, kernel[1] - 1):
            # No earlier tap was the maximum; in a window with a NaN, no tap equals the maximum.
            yield at, np.logical_not(claimed)
            return
        same = np.equal(_tap(x, at, out, attrs), largest)
        yield at, np.greater(same, claimed)
        np.logical_or(claimed, same, out=claimed)


def _max_grad(n: int, ct: Array, x: Array, largest: Array, **attrs: Any) -> Array:
    _pooled_infer(n, "grad", specs_of(ct, x, largest), attrs)
    padding = pair_padding(_layout("", x.shape[2:], attrs)[1])
    wide = padded(lift(x), padding, -np.inf)
    ct, largest = lift(ct), lift(largest)
    total = np.zeros(wide.shape, ct.dtype)
    disjoint = all(d == 1 for d in attrs["dilation"]) and all(
        s >= k for s, k in zip(attrs["stride"], attrs["kernel"], strict=True)
    )
    for at, hit in _first_hits(wide, largest, attrs):
        target = _tap(total, at, largest.shape[2:], attrs)
        if disjoint:  # no element belongs to two windows
            kept(ct, hit, out=target)
        else:
            np.add(target, kept(ct, hit), out=target)
    return flat(np.ascontiguousarray(inner(total, padding)), n)


def _max_pick(n: int, v: Array, x: Array, largest: Array, **attrs: Any) -> Array:
    _pooled_infer(n, "pick", specs_of(v, x, largest), attrs)
    padding = pair_padding(_layout("", x.shape[2:], attrs)[1])
    wide, values = padded(lift(x), padding, -np.inf), padded(lift(v), padding)
    largest = lift(largest)
    total = np.zeros(largest.shape, v.dtype)
    for at, hit in _first_hits(wide, largest, attrs):
        np.copyto(total, _tap(values, at, largest.shape[2:], attrs), where=hit)
    return flat(total, n)


# Means


def _divisors(size: Sizes, out: Sizes, attrs: dict[str, Any], dtype: np.dtype[Any]) -> Array:
    """The number of elements counted in each window: (H', W')."""
    counts = []
    for n, k, s, (low, high), m in zip(
        size, attrs["kernel"], attrs["stride"], attrs["padding"], out, strict=True
    ):
        start = np.arange(m) * s - low
        if attrs["count_include_pad"]:
            counts.append(np.minimum(start + k, n + high) - start)
        else:
            counts.append(np.minimum(start + k, n) - np.maximum(start, 0))
    grid = counts[0] if len(counts) == 1 else np.multiply.outer(*counts)
    return np.atleast_2d(grid).astype(dtype)


def _avg(n: int, x: Array, **attrs: Any) -> Array:
    spec = _sliding_infer(n, "avg", specs_of(x), attrs)
    out, padding = _layout("", x.shape[2:], attrs)
    work = working(x.dtype)
    wide = padded(lift(x.astype(work, copy=False)), pair_padding(padding))
    total = _combined(np.add, wide, pair(out), attrs)
    mean = np.divide(total, _divisors(x.shape[2:], out, attrs, work))
    return flat(mean, n).astype(as_dtype(spec.dtype), copy=False)


def _avg_grad_infer(n: int, specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    name = f"avg_pool{n}d_grad"
    ct = image(name, specs[0], n)
    _real(name, ct)
    rest = {key: value for key, value in attrs.items() if key != "size"}
    if _layout(name, attrs["size"], rest)[0] != ct.shape[2:]:
        raise ShapeError(f"{name}: a gradient of shape {ct.shape} for inputs {attrs['size']}")
    return TensorSpec((*ct.shape[:2], *attrs["size"]), ct.dtype)


def _avg_grad(n: int, ct: Array, *, size: Sizes, **attrs: Any) -> Array:
    spec = _avg_grad_infer(n, specs_of(ct), {"size": size, **attrs})
    out, padding = _layout("", size, attrs)
    padding = pair_padding(padding)
    work = working(ct.dtype)
    share = np.divide(lift(ct), _divisors(size, out, attrs, work))
    (top, bottom), (left, right) = padding
    h, w = pair(size)
    (kh, kw), (s, t), (oh, ow) = pair(attrs["kernel"]), pair(attrs["stride"]), pair(out)
    # Columns first, then rows: the transpose of what `_combined` does.
    rows = np.zeros((*ct.shape[:2], oh, left + w + right), work)
    for j in range(kw):
        rows[..., j : j + t * (ow - 1) + 1 : t] += share
    total = np.zeros((*ct.shape[:2], top + h + bottom, left + w + right), work)
    for i in range(kh):
        total[:, :, i : i + s * (oh - 1) + 1 : s] += rows
    gradient = np.ascontiguousarray(inner(total, padding))
    return flat(gradient, n).astype(as_dtype(spec.dtype), copy=False)


# Rules


def _max_rule(n: int) -> Rule:
    return lambda F, ct, out, x, **attrs: getattr(F, f"max_pool{n}d_grad")(ct, x, out, **attrs)


def _max_grad_rule(n: int) -> Rule:
    return lambda F, ct, out, g, x, m, **attrs: getattr(F, f"max_pool{n}d_pick")(ct, x, m, **attrs)


def _max_pick_rule(n: int) -> Rule:
    return lambda F, ct, out, v, x, m, **attrs: getattr(F, f"max_pool{n}d_grad")(ct, x, m, **attrs)


def _avg_rule(n: int) -> Rule:
    return lambda F, ct, out, x, **attrs: getattr(F, f"avg_pool{n}d_grad")(
        ct, size=x.shape[2:], **attrs
    )


def _avg_grad_rule(n: int) -> Rule:
    return lambda F, ct, out, g, size, **attrs: getattr(F, f"avg_pool{n}d")(ct, **attrs)


def _pooled_infer(n: int, way: str, specs: tuple[Operand, ...], attrs: Any) -> TensorSpec:
    """Gradients have the shape of the input, picked values that of the maxima."""
    name = f"max_pool{n}d_{way}"
    moved, x, largest = (image(name, spec, n) for spec in specs)
    _real(name, x)
    _real(name, moved)
    out, _ = _layout(name, x.shape[2:], attrs)
    moved_shape, result = (largest, x) if way == "grad" else (x, largest)
    if largest.shape != (*x.shape[:2], *out) or moved.shape != moved_shape.shape:
        raise ShapeError(f"{name}: {moved.shape}, {x.shape} and {largest.shape} do not fit")
    return TensorSpec(result.shape, moved.dtype)


# Samples: (shape, kernel, stride, padding, ceil_mode), the last dimension alone for sequences.
_CASES: list[tuple[tuple[int, ...], int, int, tuple[int, int], bool]] = [
    ((2, 3, 6, 4), 2, 2, (0, 0), False), ((2, 1, 5, 7), 3, 2, (1, 1), False),
    ((1, 2, 6, 5), 3, 2, (1, 0), True), ((1, 1, 1, 1), 1, 1, (0, 0), False),
    ((0, 2, 4, 4), 2, 1, (0, 1), False), ((2, 2, 5, 5), 2, 3, (1, 1), True),
]  # fmt: skip


def _samples(n: int, kind: str, rng: np.random.Generator) -> list[Sample]:
    samples = []
    for shape, k, s, pad, ceil in _CASES:
        attrs: dict[str, Any] = {
            "kernel": (k,) * n, "stride": (s,) * n, "padding": (pad,) * n, "ceil_mode": ceil
        }  # fmt: skip
        x = rng.standard_normal(shape if n == 2 else (*shape[:2], shape[3]))
        if kind.startswith("avg"):
            attrs["count_include_pad"] = s < 3
            out = _avg(n, x, **attrs)
        else:
            attrs["dilation"] = (1 + (s == 1 and k == 2),) * n
            out = _max(n, x, **attrs)
        ct = rng.standard_normal(out.shape)
        samples.append({
            "max": Sample((x,), attrs),
            "avg": Sample((x,), attrs),
            "max_grad": Sample((ct, x, out), attrs),
            "max_pick": Sample((rng.standard_normal(x.shape), x, out), attrs),
            "avg_grad": Sample((ct,), {"size": x.shape[2:], **attrs}),
        }[kind])  # fmt: skip
    return samples


for _n in (1, 2):
    for _what, _infer, _impl, _rules, _ports in (
        ("max", partial(_sliding_infer, _n, "max"), _max, (_max_rule(_n),), ("x",)),
        ("max_grad", partial(_pooled_infer, _n, "grad"), _max_grad,
         (_max_grad_rule(_n), None, None), ("ct", "x", "largest")),
        ("max_pick", partial(_pooled_infer, _n, "pick"), _max_pick,
         (_max_pick_rule(_n), None, None), ("values", "x", "largest")),
        ("avg", partial(_sliding_infer, _n, "avg"), _avg, (_avg_rule(_n),), ("x",)),
        ("avg_grad", partial(_avg_grad_infer, _n), _avg_grad, (_avg_grad_rule(_n),), ("ct",)),
    ):  # fmt: skip
        _kind, _, _way = _what.partition("_")
        register(
            Op(
                name=f"{_kind}_pool{_n}d" + (f"_{_way}" if _way else ""),
                family="reduction",
                infer=_infer,
                impl=partial(_impl, _n),
                vjp=_rules,
                ports=_ports,
                samples=partial(_samples, _n, _what),
                smooth=_kind == "avg" or bool(_way),
                flops=one_per_input,
            )
        )
