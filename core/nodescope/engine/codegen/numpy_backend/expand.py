"""Expansions: ops as the NumPy calls that their impls make, so that each can get planned memory.

An op without an expansion runs by its impl, in newly allocated memory.

Invariant: the same calls on the same operands as in the impl, so that results are bit-equal,
including their layout; where an impl depends on dtypes or layouts, so does the expansion.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.engine.codegen.numpy_backend.steps import Box, ProgramArray, disjoint
from nodescope.ops import get
from nodescope.ops.activation import GELU, GELU_CUBIC
from nodescope.ops.masking import WORDS
from nodescope.ops.op import Op

Expansion = Callable[..., Any]
"""``expansion(recorder, *args, **attrs)`` returns a value, or None to run the impl."""


def expansion(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Expansion | None:
    """The expansion of an op for these operands; None if it has none."""
    impl = op.impl
    if isinstance(impl, np.ufunc):
        if impl.nout != 1 or not any(argument.__class__ is ProgramArray for argument in args):
            return None
        if impl is np.add and _boxes_apart(args):
            return _add_boxes
        return lambda rec, *args: rec.into(impl, *args, elementwise=impl.signature is None)
    expansion_ = _TABLE.get(op.name)
    if expansion_ is None:
        return None
    fits, expand = expansion_
    return expand if fits(args, attrs) else None


# Conditions


def _values(args: tuple[Any, ...]) -> bool:
    return all(
        argument.__class__ is ProgramArray and argument.dtype.kind in "biufc" for argument in args
    )


def _floats(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    return all(
        argument.__class__ is ProgramArray and argument.dtype.kind == "f" for argument in args
    )


def _any(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    return _values(args)


def _basic(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    return len(args) == 1 and _values(args)


def _alike(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    first = args[0]
    return _values(args) and all(argument.dtype == first.dtype for argument in args)


def _contiguous(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    return (
        _floats(args, attrs)
        and _alike(args, attrs)
        and all(argument.contiguous for argument in args)
    )


# Layout


def _reshape(rec: Any, x: ProgramArray, shape: tuple[int, ...]) -> ProgramArray:
    return rec.view(lambda a: a.reshape(shape), x, f"{{0}}.reshape({shape!r})")  # type: ignore[no-any-return]


def _transpose(rec: Any, x: ProgramArray, axes: tuple[int, ...] | None) -> ProgramArray:
    text = "{0}.T" if axes is None else f"{{0}}.transpose({axes!r})"
    return rec.view(lambda a: a.transpose(axes), x, text)  # type: ignore[no-any-return]


def _broadcast(rec: Any, x: ProgramArray, shape: tuple[int, ...]) -> ProgramArray:
    return rec.view(lambda a: np.broadcast_to(a, shape), x, f"np.broadcast_to({{0}}, {shape!r})")  # type: ignore[no-any-return]


def _squeeze(rec: Any, x: ProgramArray, axis: Any) -> ProgramArray:
    return rec.view(lambda a: np.squeeze(a, axis=axis), x, f"np.squeeze({{0}}, axis={axis!r})")  # type: ignore[no-any-return]


def _expand_dims(rec: Any, x: ProgramArray, axis: Any) -> ProgramArray:
    return rec.view(lambda a: np.expand_dims(a, axis), x, f"np.expand_dims({{0}}, {axis!r})")  # type: ignore[no-any-return]


def _flip(rec: Any, x: ProgramArray, axis: Any) -> ProgramArray:
    return rec.view(lambda a: np.flip(a, axis), x, f"np.flip({{0}}, {axis!r})")  # type: ignore[no-any-return]


def _getitem(rec: Any, x: ProgramArray, index: tuple[Any, ...]) -> ProgramArray:
    inside = "".join(f"{_index(item)}, " for item in index) or "()"
    return rec.view(lambda a: a[index], x, f"{{0}}[{inside.rstrip()}]")  # type: ignore[no-any-return]


def _index(item: Any) -> str:
    if isinstance(item, slice):
        parts = ["" if p is None else repr(int(p)) for p in (item.start, item.stop, item.step)]
        return ":".join(parts if parts[2] else parts[:2])
    return "..." if item is Ellipsis else "None" if item is None else repr(int(item))


def _is_basic_index(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    kinds = (int, np.integer, slice, type(None), type(Ellipsis))
    return _basic(args, attrs) and all(
        isinstance(item, kinds) and item.__class__ is not bool for item in attrs["index"]
    )


def _itself(rec: Any, x: ProgramArray) -> ProgramArray:
    return rec.view(lambda a: a, x, "{0}", True)  # type: ignore[no-any-return]


def _assign(rec: Any, old: ProgramArray, new: ProgramArray) -> ProgramArray:
    return new if old.dtype == new.dtype else rec.copy(new, old.dtype)


def _castable(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    if not _values(args) or attrs["dtype"] not in np.sctypeDict:
        return False
    new = np.dtype(attrs["dtype"])
    return new.kind in "biufc" and (args[0].dtype.kind != "c" or new.kind in "cb")


def concatenate(*parts: Any, axis: int, out: Any = None) -> Any:
    """`numpy.concatenate`, with the parts as separate arguments."""
    return np.concatenate(parts, axis=axis, out=out)


def stack(*parts: Any, axis: int, out: Any = None) -> Any:
    """`numpy.stack`, with the parts as separate arguments."""
    return np.stack(parts, axis=axis, out=out)


# Arrays of zeros with parts: the gradients of slices


def _index_add(
    rec: Any, x: ProgramArray, index: tuple[Any, ...], shape: tuple[int, ...]
) -> ProgramArray:
    result: ProgramArray = rec.put(
        get("index_add").impl, (x,), ((_box(index, shape), x),),
        plus=False, index=index, shape=shape,
    )  # fmt: skip
    return result


def _box(index: tuple[Any, ...], shape: tuple[int, ...]) -> Box:
    whole = (slice(None),) * (len(shape) - len(index))
    return tuple(
        slice(*item.indices(n)[:2]) for item, n in zip((*index, *whole), shape, strict=True)
    )


def _is_box(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    return (
        _basic(args, attrs) and args[0].dtype.kind in "fiu" and bool(attrs["shape"])
        and all(isinstance(i, slice) and i.step in (None, 1) for i in attrs["index"])
    )  # fmt: skip


def _boxes_apart(args: tuple[Any, ...]) -> bool:
    """Whether the sum of these consists of disjoint boxes."""
    if not all(
        argument.__class__ is ProgramArray and argument.boxes is not None for argument in args
    ):
        return False
    first, other = args
    return (
        first.dtype == other.dtype and first.shape == other.shape
        and disjoint([box for box, _ in (*first.boxes, *other.boxes)])
    )  # fmt: skip


def _add_boxes(rec: Any, first: ProgramArray, other: ProgramArray) -> ProgramArray:
    result: ProgramArray = rec.put(
        np.add, (first, other), (*(first.boxes or ()), *(other.boxes or ())), plus=True
    )
    return result


# Products


def _matmul(rec: Any, a: ProgramArray, b: ProgramArray) -> ProgramArray:
    if len(a.shape) > 2 and len(b.shape) == 2 and a.array.flags.c_contiguous and a.array.size:
        flat = _reshape(rec, a, (-1, a.shape[-1]))
        product = _product(rec, flat, b)
        return _reshape(rec, product, (*a.shape[:-1], product.shape[-1]))
    return _product(rec, a, b)


def _product(rec: Any, a: ProgramArray, b: ProgramArray) -> ProgramArray:
    # np.dot reaches the same gemm in half the time. The two functions handle single rows or
    # columns, and gaps, differently.
    plain = a.dtype == b.dtype and a.dtype.char in "fd" and len(a.shape) == len(b.shape) == 2
    if plain and min(*a.shape, *b.shape) > 1 and _gemm_ready(a) and _gemm_ready(b):
        return rec.into(np.dot, a, b, text="np.dot", elementwise=False)  # type: ignore[no-any-return]
    return rec.into(np.matmul, a, b, text="np.matmul", elementwise=False)  # type: ignore[no-any-return]


def _gemm_ready(x: ProgramArray) -> bool:
    flags = x.array.flags
    return bool(flags.aligned and (flags.c_contiguous or flags.f_contiguous))


def _multiplies(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    return _floats(args, attrs)


# Reductions


def _sums(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    return _values(args) and args[0].dtype.char in "fdFDlL"


def _means(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    # Below these counts, dividing in float64 and rounding equals dividing in the dtype.
    x = args[0]
    most = {"f": 1 << 24, "d": 1 << 53}
    return _values(args) and 0 < x.array.size <= most.get(x.dtype.char, 0)


def _reducing(ufunc: np.ufunc) -> Expansion:
    name, reduce = f"np.{ufunc.__name__}.reduce", ufunc.reduce

    def expand(rec: Any, x: ProgramArray, axis: Any, keepdims: bool) -> ProgramArray:
        return rec.into(  # type: ignore[no-any-return]
            reduce, x, text=name, elementwise=False, axis=axis, keepdims=keepdims
        )

    return expand


_sum, _max, _min = map(_reducing, (np.add, np.maximum, np.minimum))


def _mean(rec: Any, x: ProgramArray, axis: Any, keepdims: bool) -> ProgramArray:
    total = _sum(rec, x, axis, keepdims)
    size = x.array.size // max(total.array.size, 1)
    return rec.over(np.divide, total, x.dtype.type(size))  # type: ignore[no-any-return]


def _logical(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    return _values(args) and args[0].dtype == bool


# Activations


def _relu(rec: Any, x: ProgramArray) -> ProgramArray:
    return rec.into(np.maximum, x, 0)  # type: ignore[no-any-return]


def _sigmoid(rec: Any, x: ProgramArray) -> ProgramArray:
    half = _then(rec, np.tanh, rec.into(np.multiply, x, 0.5))
    return _then(rec, np.add, _then(rec, np.multiply, half, 0.5), 0.5)


def _silu(rec: Any, x: ProgramArray) -> ProgramArray:
    return rec.into(np.multiply, x, _sigmoid(rec, x))  # type: ignore[no-any-return]


def _clip(rec: Any, x: ProgramArray, low: Any, high: Any) -> ProgramArray:
    return rec.into(np.clip, x, low, high, text="np.clip")  # type: ignore[no-any-return]


def _leaky(rec: Any, x: ProgramArray, slope: float = 0.01) -> ProgramArray:
    return _choose(rec, rec.into(np.greater, x, 0), x, rec.into(np.multiply, x, slope))


def _choose(rec: Any, condition: Any, x: Any, y: Any) -> ProgramArray:
    return rec.call(np.where, (condition, x, y), {}, text="np.where", elementwise=True)[0]  # type: ignore[no-any-return]


def _keep(rec: Any, x: ProgramArray, condition: ProgramArray) -> ProgramArray:
    word = WORDS[x.dtype.itemsize]
    bits = rec.into(np.negative, rec.copy(condition, word))
    bits_view = rec.view(lambda a: a.view(word), x, f"{{0}}.view(np.{word.__name__})", True)
    masked = rec.into(np.bitwise_and, bits_view, bits)
    kind = x.dtype
    return rec.view(lambda a: a.view(kind), masked, f"{{0}}.view(np.{kind.name})", True)  # type: ignore[no-any-return]


def _keeps(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    if not _values(args):
        return False
    x, condition = args
    return (
        condition.dtype == bool and x.shape == condition.shape and bool(x.shape)
        and x.dtype.char in "efd" and x.contiguous and condition.contiguous
    )  # fmt: skip


def _then(rec: Any, ufunc: np.ufunc, x: ProgramArray, *operands: Any) -> ProgramArray:
    """A ufunc on a value that nothing else reads."""
    result: ProgramArray = rec.into(ufunc, x, *operands)
    rec.free(x)
    return result


def _gelu(rec: Any, x: ProgramArray, approximate: str) -> ProgramArray:
    inner = rec.into(np.multiply, x, x)
    for how, by in ((np.multiply, GELU * GELU_CUBIC), (np.add, GELU), (np.multiply, x)):
        inner = _then(rec, how, inner, by)
    inner = _then(rec, np.add, _then(rec, np.tanh, inner), 1.0)
    return _then(rec, np.multiply, _then(rec, np.multiply, inner, x), 0.5)


def _gelu_grad(rec: Any, ct: ProgramArray, x: ProgramArray, approximate: str) -> ProgramArray:
    into, then, times, plus = rec.into, functools.partial(_then, rec), np.multiply, np.add
    square = into(times, x, x)
    t = then(plus, into(times, square, GELU * GELU_CUBIC), GELU)
    t = then(np.tanh, then(times, t, x))
    slope = then(plus, then(times, square, 1.5 * GELU * GELU_CUBIC), 0.5 * GELU)
    slope = then(times, slope, x)
    squared = into(times, t, t)
    bend = into(np.subtract, 1.0, squared)
    rec.free(squared)
    bend = then(times, bend, slope)
    rec.free(slope)
    half = then(plus, then(times, t, 0.5), 0.5)
    bend = then(plus, bend, half)
    rec.free(half)
    return then(times, bend, ct)


def _tanh_form(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    return attrs.get("approximate") == "tanh" and _contiguous(args, attrs)


def _dropout(rec: Any, x: ProgramArray, mask: ProgramArray, p: float) -> ProgramArray:
    return _choose(rec, mask, rec.into(np.multiply, x, 1.0 / (1.0 - p)), x.dtype.type(0))


def _drops(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    return _values(args) and args[0].dtype.kind == "f" and args[1].dtype == bool


# Norms


def _softmax(rec: Any, x: ProgramArray, axis: int) -> ProgramArray:
    raised = _then(rec, np.exp, rec.into(np.subtract, x, _max(rec, x, axis, True)))
    return _then(rec, np.divide, raised, _sum(rec, raised, axis, True))


def _log_softmax(rec: Any, x: ProgramArray, axis: int) -> ProgramArray:
    shifted = rec.into(np.subtract, x, _max(rec, x, axis, True))
    raised = rec.into(np.exp, shifted)
    total = _sum(rec, raised, axis, True)
    rec.free(raised)
    return _then(rec, np.subtract, shifted, rec.into(np.log, total))


def _normed(centred: bool) -> Expansion:
    def expand(
        rec: Any, x: ProgramArray, *params: ProgramArray, eps: float, dims: int
    ) -> ProgramArray:
        axes = tuple(range(len(x.shape) - dims, len(x.shape)))
        if centred:
            x = rec.into(np.subtract, x, _mean(rec, x, axes, True))
        squares = rec.into(np.square, x)
        variance = _mean(rec, squares, axes, True)
        rec.free(squares)
        inverse = rec.into(np.divide, 1.0, rec.into(np.sqrt, rec.into(np.add, variance, eps)))
        result: ProgramArray = rec.into(np.multiply, x, inverse)
        if centred:
            rec.free(x)
        for how, param in zip((np.multiply, np.add), params, strict=False):
            result = _then(rec, how, result, param)
        return result

    return expand


def _norms(args: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    x = args[0]
    return _alike(args, attrs) and _means(args[:1], attrs) and all(
        argument.shape == x.shape[len(x.shape) - attrs["dims"]:] for argument in args[1:]
    ) and 1 <= attrs["dims"] <= len(x.shape)  # fmt: skip


_TABLE: dict[str, tuple[Callable[[tuple[Any, ...], dict[str, Any]], bool], Expansion]] = {
    "reshape": (_basic, _reshape),
    "transpose": (_basic, _transpose),
    "broadcast_to": (_basic, _broadcast),
    "squeeze": (_basic, _squeeze),
    "expand_dims": (_basic, _expand_dims),
    "flip": (_basic, _flip),
    "getitem": (_is_basic_index, _getitem),
    "read": (_basic, _itself),
    "assign": (_any, _assign),
    "assign_add": (_alike, lambda rec, old, by: rec.into(np.add, old, by)),
    "assign_sub": (_alike, lambda rec, old, by: rec.into(np.subtract, old, by)),
    "index_add": (_is_box, _index_add),
    "astype": (_castable, lambda rec, x, dtype: rec.copy(x, np.dtype(dtype))),
    "copy": (_basic, lambda rec, x: rec.copy(x)),
    "concatenate": (
        _alike,
        lambda rec, *parts, axis: rec.into(concatenate, *parts, elementwise=False, axis=axis),
    ),
    "stack": (
        _alike,
        lambda rec, *parts, axis: rec.into(stack, *parts, elementwise=False, axis=axis),
    ),
    "matmul": (_multiplies, _matmul),
    "sum": (_sums, _sum),
    "max": (_basic, _max),
    "min": (_basic, _min),
    "mean": (_means, _mean),
    "any": (_logical, _reducing(np.logical_or)),
    "all": (_logical, _reducing(np.logical_and)),
    "tanh": (_floats, lambda rec, x: rec.into(np.tanh, x)),
    "relu": (_floats, _relu),
    "sigmoid": (_floats, _sigmoid),
    "silu": (_floats, _silu),
    "softplus": (_floats, lambda rec, x: rec.into(np.logaddexp, x, 0.0)),
    "clip": (_floats, _clip),
    "relu6": (_floats, lambda rec, x: _clip(rec, x, 0.0, 6.0)),
    "hardtanh": (_floats, lambda rec, x, low=-1.0, high=1.0: _clip(rec, x, low, high)),
    "leaky_relu": (_floats, _leaky),
    "gelu": (_tanh_form, _gelu),
    "gelu_grad": (_tanh_form, _gelu_grad),
    "where": (lambda args, attrs: True, _choose),
    "keep": (_keeps, _keep),
    "dropout": (_drops, _dropout),
    "softmax": (_floats, _softmax),
    "log_softmax": (_floats, _log_softmax),
    "layer_norm": (_norms, _normed(centred=True)),
    "rms_norm": (_norms, _normed(centred=False)),
}  # fmt: skip
