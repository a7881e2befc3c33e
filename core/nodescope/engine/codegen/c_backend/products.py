"""Matrix products through NumPy's own BLAS.

Operands with contiguous rows or columns are passed as they are; others are copied first. A sum of a
value and a product with no other reader becomes one product accumulated onto that value, and so
does a step of gradient descent, ``p - rate * (a @ b)``.

Invariant: the same shapes and strides always lead to the same BLAS call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nodescope.engine.codegen.c_backend.expressions import CTYPES
from nodescope.engine.codegen.c_backend.unit import (
    Arg,
    FunctionCall,
    Gemm,
    Map,
    NoKernel,
    Place,
    Sizes,
    Unit,
    Val,
    compact,
    reshaped,
)
from nodescope.ir.graph import TensorSpec

Lower = Callable[[Unit, tuple[Any, ...], dict[str, Any], tuple[TensorSpec, ...]], Sequence[Val]]

HEAD = """
typedef void (*ns_sgemm_t)(int, int, int, i64, i64, i64, f32, const f32 *, i64, const f32 *, i64,
                           f32, f32 *, i64);
typedef void (*ns_dgemm_t)(int, int, int, i64, i64, i64, f64, const f64 *, i64, const f64 *, i64,
                           f64, f64 *, i64);
static ns_sgemm_t ns_sgemm;
static ns_dgemm_t ns_dgemm;
NS_EXPORT void ns_bind(void *s, void *d) { ns_sgemm = (ns_sgemm_t)s; ns_dgemm = (ns_dgemm_t)d; }
"""
_NAMES = {"float32": "ns_sgemm", "float64": "ns_dgemm"}


def _matmul(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
    a, b = args
    dtype = outs[0].dtype
    if dtype not in _NAMES:
        raise NoKernel(f"matmul of {dtype}")
    a, b = unit.cast(a, dtype), unit.cast(b, dtype)
    shape = tuple(outs[0].shape)
    full: Sizes = shape
    if len(a.shape) == 1:
        a = unit.reshape(a, (1, a.shape[0]))
        full = (*full[:-1], 1, full[-1]) if len(b.shape) > 1 else (*full, 1)
    if len(b.shape) == 1:
        b = unit.reshape(b, (b.shape[0], 1))
        full = (*full, 1)
    out = product(unit, a, b, full, dtype)
    return (unit.reshape(out, shape),)


def product(unit: Unit, a: Val, b: Val, full: Sizes, dtype: str) -> Val:
    """``a @ b`` of at least two dimensions each."""
    out = unit.fresh(full, dtype)
    lead = full[:-2]
    if len(b.shape) == 2 and len(a.shape) > 2:
        rows = (math.prod(a.shape[:-1]), a.shape[-1])
        strides = reshaped(a.shape, a.strides, rows)
        if strides is not None:
            flat = unit.view(out, (rows[0], full[-1]), compact((rows[0], full[-1])))
            unit.prims.append(Gemm(flat, ready(unit, unit.view(a, rows, strides)), ready(unit, b)))
            return out
    a = unit.broadcast(ready(unit, a), (*lead, *a.shape[-2:]))
    b = unit.broadcast(ready(unit, b), (*lead, *b.shape[-2:]))
    unit.prims.append(Gemm(out, a, b))
    return out


def ready(unit: Unit, v: Val) -> Val:
    """A matrix, or a stack of matrices, in a layout that BLAS accepts."""
    return v if leading(v) is not None else unit.map("copy", v)


def leading(v: Val) -> tuple[bool, int] | None:
    """Whether a matrix is stored by columns, and the distance between rows (columns); None if BLAS
    cannot read it.
    """
    (m, n), (down, right) = v.shape[-2:], v.strides[-2:]
    if n == 1 and m == 1:
        return False, 1
    if n == 1:
        return (False, down) if down >= 1 else None
    if m == 1:
        return (False, n) if right == 1 else (True, right) if right >= 1 else None
    if right == 1 and down >= n:
        return False, down
    if down == 1 and right >= m:
        return True, right
    return None


def text(prim: Gemm, pointer: Callable[[Val], str]) -> list[str]:
    """The text of the calls."""
    out, a, b = prim.out, prim.a, prim.b
    lead = out.shape[:-2]
    (m, n), k = out.shape[-2:], a.shape[-1]
    if 0 in out.shape:
        return []
    left, right, to = leading(a), leading(b), leading(out)
    assert left is not None
    assert right is not None
    assert to is not None
    assert not to[0]
    kind = CTYPES[out.dtype]
    lines, close = [], 0
    offsets = {"a": str(a.offset), "b": str(b.offset), "c": str(out.offset)}
    for d, size in enumerate(lead):
        if size == 1:
            continue
        lines.append(f"for (i64 g{d} = 0; g{d} < {size}; g{d}++) {{")
        close += 1
        for key, v in (("a", a), ("b", b), ("c", out)):
            step = v.strides[d]
            if step:
                offsets[key] += f" + g{d} * {step}"
    alpha = prim.alpha
    factor = f"({kind}){alpha!r}" if alpha != 1.0 or prim.scale is None else ""
    if prim.scale is not None:
        number = f"({kind}){pointer(prim.scale.base)}[{prim.scale.offset}]"
        factor = f"{factor} * {number}" if factor else number
    lines.append(
        f"{_NAMES[out.dtype]}(101, {112 if left[0] else 111}, {112 if right[0] else 111}, "
        f"{m}, {n}, {k}, {factor}, {pointer(a.base)} + {offsets['a']}, {max(left[1], 1)}, "
        f"{pointer(b.base)} + {offsets['b']}, {max(right[1], 1)}, {int(prim.add)}, "
        f"{pointer(out.base)} + {offsets['c']}, {max(to[1], 1)});"
    )
    return lines + ["}"] * close


# Sums with products


def fold(unit: Unit) -> None:
    """Accumulate products onto their addends, if nothing else reads them."""
    users: dict[Val, int] = {}
    for prim in unit.prims:
        for v in prim.reads:
            users[v.base] = users.get(v.base, 0) + 1
    for v in unit.outputs:
        users[v.base] = users.get(v.base, 0) + 1
    looped = {
        v.base
        for prim in unit.prims
        if not isinstance(prim, (Gemm, FunctionCall))
        for v in prim.reads
    }
    gemms = {prim.out.base: prim for prim in unit.prims if isinstance(prim, Gemm)}
    scaled: dict[Val, Map] = {}
    for prim in unit.prims:
        if not isinstance(prim, Map):
            continue
        if prim.how.text == "{0} * {1}" and _product(prim.args[0], gemms, users) is not None:
            scaled[prim.out] = prim
        elif prim.how.text in ("{0} + {1}", "{0} - {1}"):
            if prim.out.base in looped:
                continue  # the loop that reads the sum adds it up itself
            _folded(unit, prim, gemms, scaled, users)


def _folded(
    unit: Unit, prim: Map, gemms: dict[Val, Gemm], scaled: dict[Val, Map], users: dict[Val, int]
) -> None:
    minus = prim.how.text == "{0} - {1}"
    for gemm_at in (1,) if minus else (1, 0):
        part, rest = prim.args[gemm_at], prim.args[1 - gemm_at]
        factor: Arg = 1.0
        times: Map | None = None
        if isinstance(part, Val) and part in scaled and users.get(part.base, 0) == 1:
            times = scaled[part]
            part, factor = times.args
        gemm = _product(part, gemms, users)
        if gemm is None or not isinstance(rest, Val) or not _number(factor):
            continue
        assert isinstance(part, Val)
        if part.shape != prim.out.shape or part.dtype != prim.out.dtype != "bool":
            continue
        if gemm.out.dtype != prim.out.dtype or (rest.base in gemms and rest.base is gemm.out.base):
            continue
        at = unit.prims.index(gemm)
        if not _before(unit, rest, at) or not _before(unit, factor, at):
            continue
        out = prim.out
        target = Val(
            gemm.out.id, gemm.out.shape, gemm.out.dtype, base=out,
            strides=gemm.out.strides, offset=gemm.out.offset,
        )  # fmt: skip
        unit.prims.remove(prim)
        if times is not None:
            unit.prims.remove(times)
        wide = unit.broadcast(rest, out.shape)
        sign = -1.0 if minus else 1.0
        alpha = sign * (float(factor) if not isinstance(factor, Val) else 1.0)
        unit.prims[at : at + 1] = [
            Place(unit.view(out, out.shape, out.strides), wide),
            Gemm(target, gemm.a, gemm.b, alpha, factor if isinstance(factor, Val) else None, True),
        ]
        return


def _product(v: Arg, gemms: dict[Val, Gemm], users: dict[Val, int]) -> Gemm | None:
    """The product with this result, if it is the whole result and has no other reader."""
    if not isinstance(v, Val) or v.base not in gemms or users.get(v.base, 0) != 1:
        return None
    gemm = gemms[v.base]
    whole = v.size == gemm.out.size == v.base.size and v.compact and not gemm.add
    return gemm if whole else None


def _number(factor: Arg) -> bool:
    return not isinstance(factor, Val) or (factor.size == 1 and np.dtype(factor.dtype).kind == "f")


def _before(unit: Unit, v: Arg, at: int) -> bool:
    """Whether a value exists before the primitive at this position."""
    if not isinstance(v, Val):
        return True
    return all(v.base is not out.base for prim in unit.prims[at:] for out in prim.writes)


TABLE: dict[str, Lower] = {"matmul": _matmul}
