"""Adaptive pooling: a given number of windows, whatever the size of the input.

Window i of m over n elements runs from floor(i n / m) to ceil((i + 1) n / m), as PyTorch's does, so
neighbours overlap where m does not divide n.

Invariant: ``output`` is a tuple of positive sizes, one per spatial dimension.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from nodescope.errors import DtypeError, ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Rule, Sample, one_per_input
from nodescope.ops.windows import Sizes, flat, floating, image, lift, pair, specs_of, working


def _bounds(n: int, m: int) -> list[tuple[int, int]]:
    return [(i * n // m, -((i + 1) * n // -m)) for i in range(m)]


def _checked(name: str, size: Sizes, output: Sizes) -> None:
    if any(m < 1 for m in output) or any(n < 1 for n in size):
        raise ShapeError(f"{name}: from {size} to {output}: sizes must be positive")


def _real(name: str, x: TensorSpec) -> None:
    if floating(name, x).kind == "c":
        raise DtypeError(f"{name}: complex numbers have no order", hint="pool np.abs of them")


def _infer(n: int, kind: str, specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    name = f"adaptive_{kind}_pool{n}d"
    x = image(name, specs[0], n)
    _real(name, x)
    _checked(name, x.shape[2:], attrs["output"])
    return TensorSpec((*x.shape[:2], *attrs["output"]), x.dtype)


def _grad_infer(n: int, specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    name = f"adaptive_avg_pool{n}d_grad"
    ct = image(name, specs[0], n)
    _real(name, ct)
    _checked(name, attrs["size"], ct.shape[2:])
    return TensorSpec((*ct.shape[:2], *attrs["size"]), ct.dtype)


def _avg(n: int, x: Array, output: Sizes) -> Array:
    _infer(n, "avg", specs_of(x), {"output": output})
    work, wide = working(x.dtype), lift(x)
    h, w = wide.shape[2:]
    oh, ow = pair(output)
    # A mean of a rectangle is a mean of means.
    rows = np.empty((*x.shape[:2], oh, w), work)
    for i, (start, stop) in enumerate(_bounds(h, oh)):
        np.mean(wide[:, :, start:stop], axis=2, out=rows[:, :, i])
    means = np.empty((*x.shape[:2], oh, ow), work)
    for j, (start, stop) in enumerate(_bounds(w, ow)):
        np.mean(rows[..., start:stop], axis=3, out=means[..., j])
    return flat(means, n).astype(x.dtype, copy=False)


def _avg_grad(n: int, ct: Array, size: Sizes) -> Array:
    _grad_infer(n, specs_of(ct), {"size": size})
    work, cotangent = working(ct.dtype), lift(ct)
    oh, ow = cotangent.shape[2:]
    h, w = pair(size)
    rows = np.zeros((*ct.shape[:2], oh, w), work)
    for j, (start, stop) in enumerate(_bounds(w, ow)):
        rows[..., start:stop] += cotangent[..., j : j + 1] / work.type(stop - start)
    total = np.zeros((*ct.shape[:2], h, w), work)
    for i, (start, stop) in enumerate(_bounds(h, oh)):
        total[:, :, start:stop] += rows[:, :, i : i + 1] / work.type(stop - start)
    return flat(total, n).astype(ct.dtype, copy=False)


def _cells(size: Sizes, out: Sizes) -> Iterator[tuple[int, int, tuple[slice, slice]]]:
    for i, (top, bottom) in enumerate(_bounds(size[0], out[0])):
        for j, (left, right) in enumerate(_bounds(size[1], out[1])):
            yield i, j, (slice(top, bottom), slice(left, right))


def _largest(x: Array, at: tuple[slice, slice]) -> tuple[Array, Array]:
    """A window's elements in one dimension, and the position of its first maximum."""
    window = x[:, :, at[0], at[1]]
    window = window.reshape(*x.shape[:2], -1) if x.size else window[..., 0]
    return window, np.argmax(window, axis=2, keepdims=True)


def _max(n: int, x: Array, output: Sizes) -> Array:
    _infer(n, "max", specs_of(x), {"output": output})
    wide = lift(x)
    maxima = np.empty((*x.shape[:2], *pair(output)), x.dtype)
    for i, j, at in _cells(wide.shape[2:], pair(output)):
        maxima[:, :, i, j] = np.max(wide[:, :, at[0], at[1]], axis=(2, 3))
    return flat(maxima, n)


def _max_grad(n: int, ct: Array, x: Array) -> Array:
    _moved_infer(n, "grad", specs_of(ct, x), {})
    wide, cotangent = lift(x), lift(ct)
    total = np.zeros(wide.shape, ct.dtype)
    for i, j, at in _cells(wide.shape[2:], cotangent.shape[2:]):
        window, where = _largest(wide, at)
        share = np.zeros(window.shape, ct.dtype)
        np.put_along_axis(share, where, cotangent[:, :, i, j, None], axis=2)
        target = total[:, :, at[0], at[1]]
        target += share.reshape(target.shape)
    return flat(total, n)


def _max_pick(n: int, v: Array, x: Array, output: Sizes) -> Array:
    _moved_infer(n, "pick", specs_of(v, x), {"output": output})
    wide, values = lift(x), lift(v)
    picked = np.empty((*x.shape[:2], *pair(output)), v.dtype)
    for i, j, at in _cells(wide.shape[2:], pair(output)):
        window, where = _largest(wide, at)
        source = values[:, :, at[0], at[1]].reshape(window.shape)
        picked[:, :, i, j] = np.take_along_axis(source, where, axis=2)[..., 0]
    return flat(picked, n)


def _moved_infer(n: int, way: str, specs: tuple[Operand, ...], attrs: Any) -> TensorSpec:
    """Gradients have the shape of the input, picked values the requested size."""
    name = f"adaptive_max_pool{n}d_{way}"
    moved, x = image(name, specs[0], n), image(name, specs[1], n)
    _real(name, moved)
    _real(name, x)
    output = attrs["output"] if way == "pick" else moved.shape[2:]
    _checked(name, x.shape[2:], output)
    if moved.shape != (x.shape if way == "pick" else (*x.shape[:2], *output)):
        raise ShapeError(f"{name}: {moved.shape} and {x.shape} do not fit")
    return TensorSpec((*x.shape[:2], *output) if way == "pick" else x.shape, moved.dtype)


def _rules(n: int) -> dict[str, tuple[Rule | None, ...]]:
    prefix = f"adaptive_{{}}_pool{n}d{{}}"

    def call(F: Any, kind: str, way: str) -> Any:
        return getattr(F, prefix.format(kind, way))

    return {
        "avg": (lambda F, ct, out, x, output: call(F, "avg", "_grad")(ct, size=x.shape[2:]),),
        "avg_grad": (lambda F, ct, out, g, size: call(F, "avg", "")(ct, output=g.shape[2:]),),
        "max": (lambda F, ct, out, x, output: call(F, "max", "_grad")(ct, x),),
        "max_grad": (
            lambda F, ct, out, g, x: call(F, "max", "_pick")(ct, x, output=g.shape[2:]),
            None,
        ),
        "max_pick": (lambda F, ct, out, v, x, output: call(F, "max", "_grad")(ct, x), None),
    }


def _samples(n: int, kind: str, rng: np.random.Generator) -> list[Sample]:
    samples = []
    for shape, output in (
        ((2, 3, 5, 4), (3, 2)), ((1, 2, 4, 6), (1, 1)), ((2, 1, 3, 3), (3, 5)),
        ((0, 2, 3, 2), (2, 2)),
    ):  # fmt: skip
        x = rng.standard_normal(shape if n == 2 else (*shape[:2], shape[3]))
        sizes: Sizes = output[2 - n :]
        ct = rng.standard_normal((*shape[:2], *sizes))
        samples.append({
            "avg": Sample((x,), {"output": sizes}),
            "max": Sample((x,), {"output": sizes}),
            "avg_grad": Sample((ct,), {"size": x.shape[2:]}),
            "max_grad": Sample((ct, x), {}),
            "max_pick": Sample((rng.standard_normal(x.shape), x), {"output": sizes}),
        }[kind])  # fmt: skip
    return samples


for _n in (1, 2):
    for _what, _shapes, _impl, _ports in (
        ("avg", partial(_infer, _n, "avg"), _avg, ("x",)),
        ("avg_grad", partial(_grad_infer, _n), _avg_grad, ("ct",)),
        ("max", partial(_infer, _n, "max"), _max, ("x",)),
        ("max_grad", partial(_moved_infer, _n, "grad"), _max_grad, ("ct", "x")),
        ("max_pick", partial(_moved_infer, _n, "pick"), _max_pick, ("values", "x")),
    ):
        _kind, _, _way = _what.partition("_")
        register(
            Op(
                name=f"adaptive_{_kind}_pool{_n}d" + (f"_{_way}" if _way else ""),
                family="reduction",
                infer=_shapes,
                impl=partial(_impl, _n),
                vjp=_rules(_n)[_what],
                ports=_ports,
                samples=partial(_samples, _n, _what),
                smooth=_kind == "avg" or bool(_way),
                flops=one_per_input,
            )
        )
