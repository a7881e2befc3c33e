"""Selecting and adjusting elements: where, clip, round, and constants in the shape of an array.

Invariant: dtypes are NumPy's, including weak Python scalars; no rule depends on values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import DomainError, DtypeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Sample, one_per_output
from nodescope.ops.rules import zeros
from nodescope.ops.shapes import broadcast, promoted, tensor_spec


def _where_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    return TensorSpec(broadcast("where", specs), promoted(specs[1:]).name)


def _where_left(F: Any, ct: Any, out: Any, condition: Any, a: Any, b: Any) -> Any:
    return F.where(condition, ct, 0.0)


def _where_right(F: Any, ct: Any, out: Any, condition: Any, a: Any, b: Any) -> Any:
    return F.where(condition, 0.0, ct)


def _where_samples(rng: np.random.Generator) -> list[Sample]:
    def condition(*shape: int) -> Any:
        return rng.random(shape) > 0.5

    return [
        Sample((condition(3, 4), rng.standard_normal((3, 4)), rng.standard_normal(4))),
        Sample((condition(3, 1), rng.standard_normal((1, 4)), 0.0)),
        Sample((condition(4), 1.0, rng.standard_normal((2, 4)))),
        Sample((condition(0), rng.standard_normal(0), rng.standard_normal(1))),
    ]


register(
    Op(
        name="where",
        family="elementwise",
        infer=_where_infer,
        impl=np.where,
        vjp=(None, _where_left, _where_right),
        numpy=(np.where,),
        bind=lambda condition, x, y: ((condition, x, y), {}),
        ports=("condition", "x", "y"),
        samples=_where_samples,
        elementwise=True,
        flops=one_per_output,
        c="ns_where_{T}({0}, {1}, {2})",
    )
)


def _choose_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    kind = np.dtype(tensor_spec(specs[0]).dtype).kind
    if kind not in "iub":
        raise DtypeError(
            f"choose: the selecting array must be of integers, not {tensor_spec(specs[0]).dtype}"
        )
    return TensorSpec(broadcast("choose", specs), promoted(specs[1:]).name)


def _choose(index: Array, *choices: Array) -> Array:
    if index.size and not 0 <= index.min() <= index.max() < len(choices):
        raise DomainError(
            f"choose: an index is out of range for {len(choices)} choices",
            hint="use mode='wrap' or mode='clip'",
        )
    shape = np.broadcast_shapes(index.shape, *(choice.shape for choice in choices))
    dtype = np.result_type(*choices)
    chosen = np.zeros(shape, dtype)
    for number, choice in enumerate(choices):  # not np.choose, which limits their number
        np.copyto(chosen, choice, where=index == number)
    return chosen


def _choose_vjp(F: Any, ct: Any, out: Any, index: Any, *choices: Any, port: int) -> Any:
    return F.where(F.equal(index, port - 1), ct, 0.0) if port else None


register(
    Op(
        name="choose",
        family="elementwise",
        infer=_choose_infer,
        impl=_choose,
        vjp=(_choose_vjp,),
        variadic=True,
        ports=("index",),
        samples=lambda rng: [
            Sample((rng.integers(0, 2, a), rng.standard_normal(b), rng.standard_normal(c)))
            for a, b, c in [((3, 4), (3, 4), (4,)), ((2,), (3, 1), ()), ((0,), (1,), (1,))]
        ],
        flops=one_per_output,
    )
)


def _clip_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    bounds = [bound for bound in (attrs["low"], attrs["high"]) if bound is not None]
    x = tensor_spec(specs[0])
    return TensorSpec(x.shape, promoted((x, *bounds)).name)


def _clip_vjp(F: Any, ct: Any, out: Any, x: Any, low: Any, high: Any) -> Any:
    if low is not None:
        ct = F.where(F.less(x, low), 0.0, ct)
    return ct if high is None else F.where(F.greater(x, high), 0.0, ct)


register(
    Op(
        name="clip",
        family="elementwise",
        infer=_clip_infer,
        impl=lambda x, low, high: np.clip(x, low, high),
        vjp=(_clip_vjp,),
        samples=lambda rng: [
            Sample((rng.standard_normal((3, 4)),), {"low": low, "high": high})
            for low, high in [(-0.5, 0.5), (None, 0.3), (0.0, None)]
        ],
        smooth=False,
        flops=one_per_output,
        c="ns_clip_{T}({0}, {low}, {high})",
    )
)


def _round_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    x = tensor_spec(specs[0])
    if x.dtype == "bool" and attrs["decimals"]:
        raise DtypeError("round: bool has no decimals", hint="convert with .astype")
    return TensorSpec(x.shape, "float16" if x.dtype == "bool" else x.dtype)


register(
    Op(
        name="round",
        family="elementwise",
        infer=_round_infer,
        impl=lambda x, decimals: np.round(x, decimals),
        vjp=(lambda F, ct, out, x, decimals: F.zeros_like(x),),
        numpy=(np.round, np.around),
        bind=lambda a, decimals=0: ((a,), {"decimals": int(decimals)}),
        samples=lambda rng: [
            Sample((np.array([0.1, 1.7, -2.3]),), {"decimals": 0}),
            Sample((np.array([[0.122], [1.777]]),), {"decimals": 1}),
            Sample((np.array([11, 22]),), {"decimals": -1}),
            Sample((np.zeros((0, 2)),), {"decimals": 2}),
        ],
        smooth=False,
        flops=one_per_output,
    )
)


def _nan_to_num_vjp(F: Any, ct: Any, out: Any, x: Any, **attrs: Any) -> Any:
    if x.dtype.kind != "c":
        return F.where(F.isfinite(x), ct, 0.0)
    # Each part was replaced separately.
    real = F.where(F.isfinite(F.real(x)), F.real(ct), 0.0)
    imaginary = F.where(F.isfinite(F.imag(x)), F.imag(ct), 0.0)
    return F.add(real, F.multiply(imaginary, 1j))


register(
    Op(
        name="nan_to_num",
        family="elementwise",
        infer=lambda specs, attrs: tensor_spec(specs[0]),
        impl=lambda x, **attrs: np.asarray(np.nan_to_num(x, **attrs)),
        vjp=(_nan_to_num_vjp,),
        numpy=(np.nan_to_num,),
        bind=lambda x, copy=True, nan=0.0, posinf=None, neginf=None: (
            (x,),
            {"nan": nan, "posinf": posinf, "neginf": neginf},
        ),
        samples=lambda rng: [
            Sample((rng.standard_normal(shape),), {"nan": 0.0, "posinf": None, "neginf": None})
            for shape in [(3, 4), (), (0,)]
        ],
        flops=one_per_output,
    )
)


def _isclose_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    return TensorSpec(broadcast("isclose", specs), "bool")


register(
    Op(
        name="isclose",
        family="elementwise",
        infer=_isclose_infer,
        impl=lambda a, b, **attrs: np.isclose(a, b, **attrs),
        numpy=(np.isclose,),
        bind=lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: (
            (a, b),
            {"rtol": float(rtol), "atol": float(atol), "equal_nan": bool(equal_nan)},
        ),
        ports=("a", "b"),
        samples=lambda rng: [
            Sample((rng.standard_normal(a), rng.standard_normal(b)),
                   {"rtol": 1e-5, "atol": 0.1, "equal_nan": False})
            for a, b in [((3, 4), (4,)), ((), (2,)), ((0, 1), (3,))]
        ],
        flops=one_per_output,
    )
)  # fmt: skip


def _filled(name: str, function: Any) -> None:
    register(
        Op(
            name=name,
            family="elementwise",
            infer=lambda specs, attrs: specs[0],  # type: ignore[arg-type, return-value]
            impl=function,
            vjp=(zeros,),
            numpy=(function,),
            bind=lambda a: ((a,), {}),
            elementwise=True,
        )
    )


_filled("zeros_like", np.zeros_like)
_filled("ones_like", np.ones_like)
