"""Layout: the same elements in another shape, order, dtype or neighbourhood.

Invariant: outputs may share memory with inputs; neither is ever written to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import DtypeError, ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Sample
from nodescope.ops.rules import unbroadcast
from nodescope.ops.shapes import axes

Shape = tuple[int, ...]


def _spec(operand: Operand) -> TensorSpec:
    assert isinstance(operand, TensorSpec)
    return operand


def as_shape(shape: Any) -> Shape:
    """An int or a sequence of ints as a tuple."""
    if shape.__class__ is tuple:
        for size in shape:
            if size.__class__ is not int:
                return tuple(int(size) for size in shape)
        return shape
    try:
        return (int(shape.__index__()),)
    except AttributeError:
        return tuple(int(size) for size in shape)


# reshape


def _reshape_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x, shape = _spec(specs[0]), attrs["shape"]
    size = int(np.prod(x.shape))
    unknown = [i for i, n in enumerate(shape) if n == -1]
    known = int(np.prod([n for n in shape if n != -1]))
    fits = size == known if not unknown else known > 0 and size % known == 0
    if not fits or len(unknown) > 1 or min(shape, default=0) < -1:
        raise ShapeError(
            f"reshape: {x.shape} has {size} elements and does not fit {shape}",
            hint="the sizes must multiply to that number; one of them may be -1, to be inferred",
        )
    return TensorSpec(tuple(size // known if n == -1 else n for n in shape), x.dtype)


def _bind_reshape(
    a: Any, /, shape: Any, order: str = "C"
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if order != "C":
        raise TypeError("only order='C' is traced")
    return (a,), {"shape": as_shape(shape)}


register(
    Op(
        name="reshape",
        family="layout",
        infer=_reshape_infer,
        impl=lambda x, shape: x.reshape(shape),
        vjp=(lambda F, ct, out, x, shape: F.reshape(ct, shape=x.shape),),
        numpy=(np.reshape,),
        bind=_bind_reshape,
        samples=lambda rng: [
            Sample((rng.standard_normal(old),), {"shape": new})
            for old, new in [((3, 4), (12,)), ((3, 4), (2, -1)), ((), (1, 1)), ((0, 3), (3, 0))]
        ],
    )
)

# transpose


def _transpose_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x, order = _spec(specs[0]), attrs["axes"]
    if order is None:
        return TensorSpec(x.shape[::-1], x.dtype)
    order_axes = axes("transpose", order, len(x.shape))
    if len(order_axes) != len(x.shape):
        raise ShapeError(f"transpose: axes {order} do not name all {len(x.shape)} dimensions")
    return TensorSpec(tuple(x.shape[i] for i in order_axes), x.dtype)


def _transpose_vjp(F: Any, ct: Any, out: Any, x: Any, axes: Shape | None) -> Any:
    if axes is None:
        return F.transpose(ct, axes=None)
    back = [0] * x.ndim
    for position, axis in enumerate(axes):
        back[axis] = position
    return F.transpose(ct, axes=tuple(back))


register(
    Op(
        name="transpose",
        family="layout",
        infer=_transpose_infer,
        impl=lambda x, axes: x.transpose(axes),
        vjp=(_transpose_vjp,),
        numpy=(np.transpose,),
        bind=lambda a, axes=None: ((a,), {"axes": None if axes is None else as_shape(axes)}),
        samples=lambda rng: [
            Sample((rng.standard_normal((2, 3, 4)),), {"axes": order})
            for order in (None, (1, 2, 0), (-1, 0, 1))
        ],
    )
)

# broadcast_to, squeeze, expand_dims


def _broadcast_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x, shape = _spec(specs[0]), attrs["shape"]
    lead = len(shape) - len(x.shape)
    if lead < 0 or any(n not in (1, m) for n, m in zip(x.shape, shape[lead:], strict=True)):
        raise ShapeError(f"broadcast_to: {x.shape} does not broadcast to {shape}")
    return TensorSpec(shape, x.dtype)


def _broadcast_to(x: Any, shape: Shape) -> Any:
    """A faster `numpy.broadcast_to`: NumPy's takes several times as long as a small sum."""
    x = np.asarray(x)  # a sum may be a NumPy scalar
    if x.dtype.kind not in "fiubc" or not x.flags.c_contiguous:
        return np.broadcast_to(x, shape)
    lead = len(shape) - x.ndim
    if lead < 0:
        return np.broadcast_to(x, shape)
    strides: Any = (0,) * lead
    if lead < len(shape):
        for size, target, stride in zip(x.shape, shape[lead:], x.strides):  # noqa: B905 (as many)
            if size == target:
                strides += (stride,)
            elif size == 1 and target >= 0:
                strides += (0,)
            else:
                return np.broadcast_to(x, shape)
    view: Array = np.ndarray(shape, x.dtype, x, 0, strides)
    view.setflags(write=False)
    return view


register(
    Op(
        name="broadcast_to",
        family="layout",
        infer=_broadcast_infer,
        impl=_broadcast_to,
        vjp=(lambda F, ct, out, x, shape: unbroadcast(F, ct, x),),
        numpy=(np.broadcast_to,),
        bind=lambda array, shape, subok=False: ((array,), {"shape": as_shape(shape)}),
        samples=lambda rng: [
            Sample((rng.standard_normal(old),), {"shape": new})
            for old, new in [((3, 1), (3, 4)), ((4,), (2, 3, 4)), ((), (2,)), ((1,), (0,))]
        ],
    )
)


def _squeeze_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x, axis = _spec(specs[0]), attrs["axis"]
    if axis is None:
        return TensorSpec(tuple(n for n in x.shape if n != 1), x.dtype)
    removed_axes = axes("squeeze", axis, len(x.shape))
    if any(x.shape[i] != 1 for i in removed_axes):
        raise ShapeError(
            f"squeeze: axis {axis} of {x.shape} is not of size 1",
            hint="only axes of size 1 can be removed; index to select one of several elements",
        )
    return TensorSpec(tuple(n for i, n in enumerate(x.shape) if i not in removed_axes), x.dtype)


register(
    Op(
        name="squeeze",
        family="layout",
        infer=_squeeze_infer,
        impl=lambda x, axis: np.squeeze(x, axis=axis),
        vjp=(lambda F, ct, out, x, axis: F.reshape(ct, shape=x.shape),),
        numpy=(np.squeeze,),
        bind=lambda a, axis=None: (
            (a,),
            {"axis": axis if axis is None or isinstance(axis, int) else as_shape(axis)},
        ),
        samples=lambda rng: [
            Sample((rng.standard_normal((3, 1, 4, 1)),), {"axis": axis})
            for axis in (None, 1, (1, -1))
        ],
    )
)


def _expand_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x, axis = _spec(specs[0]), attrs["axis"]
    new_axes = axis if isinstance(axis, tuple) else (axis,)
    ndim = len(x.shape) + len(new_axes)
    new = axes("expand_dims", new_axes, ndim)
    sizes = iter(x.shape)
    return TensorSpec(tuple(1 if i in new else next(sizes) for i in range(ndim)), x.dtype)


register(
    Op(
        name="expand_dims",
        family="layout",
        infer=_expand_infer,
        impl=lambda x, axis: np.expand_dims(x, axis),
        vjp=(lambda F, ct, out, x, axis: F.reshape(ct, shape=x.shape),),
        numpy=(np.expand_dims,),
        bind=lambda a, axis: (
            (a,),
            {"axis": axis if isinstance(axis, int) else as_shape(axis)},
        ),
        samples=lambda rng: [
            Sample((rng.standard_normal((3, 4)),), {"axis": axis}) for axis in (0, -1, (0, 3))
        ],
    )
)

# flip


def _flip_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x = _spec(specs[0])
    axes("flip", attrs["axis"], len(x.shape))
    return x


register(
    Op(
        name="flip",
        family="layout",
        infer=_flip_infer,
        impl=lambda x, axis: np.flip(x, axis),
        vjp=(lambda F, ct, out, x, axis: F.flip(ct, axis=axis),),
        numpy=(np.flip,),
        bind=lambda m, axis=None: ((m,), {"axis": axis}),
        samples=lambda rng: [
            Sample((rng.standard_normal((3, 4)),), {"axis": axis}) for axis in (None, 0, (0, 1))
        ],
    )
)

# concatenate, stack


def _parts(specs: tuple[Operand, ...], name: str) -> list[TensorSpec]:
    if not specs:
        raise ShapeError(f"{name}: needs at least one array")
    return [_spec(spec) for spec in specs]


def _common(parts: list[TensorSpec]) -> str:
    return np.result_type(*(np.dtype(part.dtype) for part in parts)).name


def _concatenate_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    parts = _parts(specs, "concatenate")
    lead = parts[0].shape
    (axis,) = axes("concatenate", (attrs["axis"],), len(lead))
    for part in parts[1:]:
        pairs = zip(part.shape, lead, strict=False)
        if len(part.shape) != len(lead) or any(
            n != m for i, (n, m) in enumerate(pairs) if i != axis
        ):
            raise ShapeError(
                f"concatenate: {part.shape} does not fit {lead} along axis {axis}",
                hint="all dimensions but that axis must agree",
            )
    total = sum(part.shape[axis] for part in parts)
    return TensorSpec((*lead[:axis], total, *lead[axis + 1 :]), _common(parts))


def _concatenate_vjp(F: Any, ct: Any, out: Any, *parts: Any, axis: int, port: int) -> Any:
    along = axis % ct.ndim
    start = sum(part.shape[along] for part in parts[:port])
    stop = start + parts[port].shape[along]
    return F.getitem(ct, index=(slice(None),) * along + (slice(start, stop),))


register(
    Op(
        name="concatenate",
        family="layout",
        infer=_concatenate_infer,
        impl=lambda *parts, axis: np.concatenate(parts, axis=axis),
        vjp=(_concatenate_vjp,),
        numpy=(np.concatenate,),
        bind=lambda arrays, axis=0: (tuple(arrays), {"axis": int(axis)}),
        variadic=True,
        samples=lambda rng: [
            Sample((rng.standard_normal((2, 3)), rng.standard_normal((4, 3))), {"axis": 0}),
            Sample((rng.standard_normal((2, 3)), rng.standard_normal((2, 0))), {"axis": -1}),
            Sample((rng.standard_normal(3),), {"axis": 0}),
        ],
    )
)


def _stack_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    parts = _parts(specs, "stack")
    lead = parts[0].shape
    for part in parts[1:]:
        if part.shape != lead:
            raise ShapeError(
                f"stack: shapes differ: {lead} and {part.shape}",
                hint="np.concatenate joins along an existing dimension",
            )
    (axis,) = axes("stack", (attrs["axis"],), len(lead) + 1)
    return TensorSpec((*lead[:axis], len(parts), *lead[axis:]), _common(parts))


def _stack_vjp(F: Any, ct: Any, out: Any, *parts: Any, axis: int, port: int) -> Any:
    return F.getitem(ct, index=(slice(None),) * (axis % ct.ndim) + (port,))


register(
    Op(
        name="stack",
        family="layout",
        infer=_stack_infer,
        impl=lambda *parts, axis: np.stack(parts, axis=axis),
        vjp=(_stack_vjp,),
        numpy=(np.stack,),
        bind=lambda arrays, axis=0: (tuple(arrays), {"axis": int(axis)}),
        variadic=True,
        samples=lambda rng: [
            Sample((rng.standard_normal((2, 3)), rng.standard_normal((2, 3))), {"axis": axis})
            for axis in (0, 1, -1)
        ],
    )
)

# astype, copy


def _astype_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    try:
        dtype = np.dtype(attrs["dtype"])
    except TypeError:
        raise DtypeError(f"astype: {attrs['dtype']!r} is not a dtype") from None
    x = _spec(specs[0])
    _check_imaginary(np.dtype(x.dtype), dtype)
    return TensorSpec(x.shape, dtype.name)


def _check_imaginary(old: np.dtype[Any], new: np.dtype[Any]) -> None:
    if old.kind == "c" and new.kind not in "cb":
        raise DtypeError(
            f"astype: {old.name} to {new.name} would drop the imaginary part", hint="take .real"
        )


def _astype(x: Array, dtype: str) -> Array:
    if x.dtype.kind == "c":
        _check_imaginary(x.dtype, np.dtype(dtype))
    return x.astype(dtype)


def _astype_vjp(F: Any, ct: Any, out: Any, x: Any, dtype: str) -> Any:
    if ct.dtype.kind == "c" and x.dtype.kind != "c":
        ct = F.real(ct)
    return F.astype(ct, dtype=x.dtype.name)


register(
    Op(
        name="astype",
        family="layout",
        infer=_astype_infer,
        impl=_astype,
        vjp=(_astype_vjp,),
        numpy=(np.astype,) if hasattr(np, "astype") else (),
        bind=lambda x, dtype: ((x,), {"dtype": np.dtype(dtype).name}),
        samples=lambda rng: [
            Sample((rng.standard_normal((3, 2)),), {"dtype": "float64"}),
            Sample((np.arange(3),), {"dtype": "float32"}),
            Sample((rng.standard_normal((2, 1)),), {"dtype": "complex128"}),
        ],
        c="{0}",
    )
)
register(
    Op(
        name="copy",
        family="layout",
        infer=lambda specs, attrs: _spec(specs[0]),
        impl=lambda x: x.copy(),
        vjp=(lambda F, ct, out, x: ct,),
        numpy=(np.copy,),
        bind=lambda a, order="K", subok=False: ((a,), {}),
        elementwise=True,
        c="{0}",
    )
)
