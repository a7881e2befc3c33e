"""Random draws as pure functions of a key.

A key is a uint64 array of shape (2,): the key of the counter-based generator Philox-4x64-10 (Salmon
et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), of which NumPy has a fast and tested
implementation that its `Generator` draws from. Its counter has 256 bits; the highest 64 identify
the purpose of the stream (`_DRAW`, `_SPLIT`, ...), so that a key's numbers and the keys made from
it share no block. Two draws of different shapes from one key begin with the same numbers: use a key
once.

Invariant: the same key gives the same numbers, on every thread and in every process. How a
distribution turns a stream into numbers is up to NumPy, which seldom changes it (NEP 19).
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from nodescope.errors import DomainError, DtypeError, GradientError, ShapeError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Infer, Op, Operand, Sample, one_per_output
from nodescope.ops.shapes import shape_of

_DRAW, _SPLIT, _FOLD, _NEXT = range(4)
_HINT = "make keys with nodescope.random.key, split or fold_in"
_WORD = np.dtype(np.uint64)
_BITS = {"float16": 11, "bfloat16": 8}
"""Significant bits of the dtypes for which NumPy has no draws."""
_FLOAT_TYPES = ("float64", "float32", *_BITS)


class _Stream(threading.local):
    """One generator per thread, reset to another key for every draw: ten times faster than a new
    one.

    Its state is a function of the key alone, so which thread draws does not matter.
    """

    def __init__(self) -> None:
        self.bits = np.random.Philox(key=0)
        self.draw = np.random.Generator(self.bits)
        self.state: Any = self.bits.state


_local = _Stream()


def _stream(key: Array, purpose: int, word: int = 0) -> _Stream:
    """The generator at the start of one of the key's streams."""
    if key.shape != (2,) or key.dtype != _WORD:
        _key(TensorSpec(key.shape, key.dtype.name))
    state = _local.state
    state["state"]["key"] = key
    state["state"]["counter"] = np.array((0, 0, word, purpose), _WORD)
    _local.bits.state = state
    return _local


def _key(spec: Operand) -> None:
    if not isinstance(spec, TensorSpec):
        raise DtypeError(f"random: {spec!r} is not a key", hint=_HINT)
    if spec.shape != (2,):
        raise ShapeError(f"random: a key has shape (2,), not {spec.shape}", hint=_HINT)
    if spec.dtype != "uint64":
        raise DtypeError(f"random: a key is uint64, not {spec.dtype}", hint=_HINT)


# Keys


def _split(key: Array, n: int) -> Array:
    return _stream(key, _SPLIT).bits.random_raw(2 * n).reshape(n, 2)


def _fold_in(key: Array, data: Any) -> Array:
    if type(data) is not int:
        _number(_spec(np.asarray(data)))
    return _stream(key, _FOLD, int(data) % 2**64).bits.random_raw(2)


def _next(key: Array) -> Array:
    return _stream(key, _NEXT).bits.random_raw(2)


def _split_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    _key(specs[0])
    return TensorSpec((attrs["n"], 2), "uint64")


def _one_key(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    _key(specs[0])
    if len(specs) > 1:
        _number(specs[1])
    return TensorSpec((2,), "uint64")


def _number(spec: Operand) -> None:
    if shape_of(spec) != ():
        raise ShapeError(f"fold_in: expected one number, not shape {shape_of(spec)}")
    if as_dtype(spec.dtype if isinstance(spec, TensorSpec) else type(spec)).kind not in "iu":
        raise DtypeError("fold_in: expected an integer", hint="such as the step or a rank")


# Draws


def _of_shape(*kinds: str) -> Infer:
    """Infer for draws of shape ``shape`` and type ``dtype``, whose other inputs broadcast to it."""

    def infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
        _key(specs[0])
        shape, name = attrs["shape"], attrs.get("dtype", "bool")
        for spec in specs[1:]:
            _fits(spec, shape)
        if ("f" if name in _FLOAT_TYPES else np.dtype(name).kind) not in kinds:
            raise _no_draws(name)
        return TensorSpec(shape, name)

    return infer


def _no_draws(name: str) -> DtypeError:
    return DtypeError(
        f"random: this distribution does not support {name}", hint="use another dtype"
    )


def _as(values: Any, name: str) -> Any:
    """Draws converted to another floating-point dtype."""
    if name not in _FLOAT_TYPES:
        raise _no_draws(name)
    return np.asarray(values).astype(as_dtype(name), copy=False)


def _fits(parameter: Any, shape: tuple[int, ...]) -> None:
    """Refuse a parameter (spec, array or number) that is complex or of another shape."""
    parameter_shape = getattr(parameter, "shape", ())
    if as_dtype(getattr(parameter, "dtype", type(parameter))).kind == "c":
        raise DtypeError("random: parameters must be real, not complex")
    try:
        fits = np.broadcast_shapes(parameter_shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"random: parameters of shape {parameter_shape} do not broadcast to {shape}"
        )


def _uniform(key: Array, shape: tuple[int, ...], dtype: str) -> Any:
    draw = _stream(key, _DRAW).draw
    if dtype == "float64" or dtype == "float32":
        return draw.random(shape, np.dtype(dtype))
    # Rounding a more precise number could give 1, which is outside the interval.
    bits = _BITS.get(dtype, 0)
    integers = draw.integers(0, 1 << bits, shape, np.uint16).astype(np.float32)
    return _as(integers * np.float32(2.0**-bits), dtype)


def _normal(key: Array, shape: tuple[int, ...], dtype: str) -> Any:
    draw = _stream(key, _DRAW).draw
    if dtype == "float64" or dtype == "float32":
        return draw.standard_normal(shape, np.dtype(dtype))
    return _as(draw.standard_normal(shape, np.float32), dtype)


def _exponential(key: Array, shape: tuple[int, ...], dtype: str) -> Any:
    draw = _stream(key, _DRAW).draw
    if dtype == "float64" or dtype == "float32":
        return draw.standard_exponential(shape, np.dtype(dtype))
    return _as(draw.standard_exponential(shape, np.float32), dtype)


def _gumbel(key: Array, shape: tuple[int, ...], dtype: str) -> Any:
    return _as(_stream(key, _DRAW).draw.gumbel(size=shape), dtype)


def _gamma(key: Array, alpha: Any, shape: tuple[int, ...], dtype: str) -> Any:
    _fits(alpha, shape)
    if not np.all(np.asarray(alpha) >= 0):
        raise DomainError("gamma: the shape parameter is negative")
    draws = _stream(key, _DRAW).draw.standard_gamma(np.asarray(alpha, np.float64), shape)
    return _as(draws, dtype)


def _gamma_rule(F: Any, ct: Any, out: Any, key: Any, alpha: Any, **attrs: Any) -> Any:
    raise GradientError(
        "gamma: draws have no gradient with respect to the shape parameter",
        hint="use stop_gradient(alpha), and a score-function estimate",
    )


def _bernoulli(key: Array, p: Any, shape: tuple[int, ...]) -> Any:
    _fits(p, shape)
    if not (0 <= p <= 1 if isinstance(p, float | int) else np.all((p >= 0) & (p <= 1))):
        raise DomainError("bernoulli: probabilities must be between 0 and 1")
    return _stream(key, _DRAW).draw.random(shape) < p


def _integers(key: Array, low: Any, high: Any, shape: tuple[int, ...], dtype: str) -> Any:
    _fits(low, shape)
    _fits(high, shape)
    try:
        return _stream(key, _DRAW).draw.integers(low, high, shape, np.dtype(dtype).type)
    except ValueError as error:
        raise DomainError(f"integers: {error}", hint="low is included, high is not") from None


def _truncated_normal(
    key: Array, lower: float, upper: float, shape: tuple[int, ...], dtype: str
) -> Any:
    if not lower < upper:
        raise DomainError(f"truncated_normal: there is nothing between {lower} and {upper}")
    draw = _stream(key, _DRAW).draw
    draws = np.empty(math.prod(shape))
    todo = np.arange(draws.size)
    while todo.size:
        drawn, accepted = _proposal(draw, lower, upper, todo.size)
        draws[todo[accepted]] = drawn[accepted]
        todo = todo[~accepted]
    # In a narrower dtype, rounding may carry a number past a bound, but never past the rounded
    # bound.
    return _as(draws.reshape(shape), dtype)


def _proposal(draw: np.random.Generator, lower: float, upper: float, n: int) -> tuple[Array, Array]:
    """Candidates and which of them to keep; Robert, "Simulation of truncated normals", 1995."""
    if lower < 0 < upper and upper - lower > 1.5:
        drawn = draw.standard_normal(n)
        return drawn, (drawn >= lower) & (drawn <= upper)
    near = max(lower, -upper, 0.0)  # the distance of the interval from 0
    if near * (upper - lower) < 2 and upper - lower < 8:
        drawn = draw.uniform(lower, upper, n)
        return drawn, draw.random(n) <= np.exp(0.5 * (near**2 - drawn**2))
    rate = 0.5 * (near + math.sqrt(near**2 + 4))
    beyond = near + draw.standard_exponential(n) / rate
    kept = draw.random(n) <= np.exp(-0.5 * (beyond - rate) ** 2)
    drawn = beyond if lower >= 0 else -beyond
    return drawn, kept & (drawn >= lower) & (drawn <= upper)


# Choices


def _permutation(key: Array, n: int) -> Array:
    return _stream(key, _DRAW).draw.permutation(n).astype(np.int64, copy=False)


def _choice(key: Array, n: int, shape: tuple[int, ...]) -> Any:
    if math.prod(shape) > n:
        raise _too_many(shape, n)
    return _stream(key, _DRAW).draw.choice(n, shape, replace=False)


def _choice_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    _key(specs[0])
    if math.prod(attrs["shape"]) > attrs["n"]:
        raise _too_many(attrs["shape"], attrs["n"])
    return TensorSpec(attrs["shape"], "int64")


def _too_many(shape: tuple[int, ...], n: int) -> ShapeError:
    return ShapeError(
        f"choice: {math.prod(shape)} of {n} without putting any back", hint="say replace=True"
    )


def _weighted_choice(key: Array, p: Array, shape: tuple[int, ...], replace: bool) -> Any:
    try:
        return _stream(key, _DRAW).draw.choice(p.shape[0], shape, replace=replace, p=p)
    except (ValueError, TypeError) as error:
        _weighted_infer((_spec(key), _spec(p)), {"shape": shape, "replace": replace})
        raise DomainError(f"choice: {error}") from None


def _weighted_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    _key(specs[0])
    p = shape_of(specs[1])
    if len(p) != 1:
        raise ShapeError(f"choice: p must have one dimension, not shape {p}")
    _fits(TensorSpec((), _dtype(specs[1])), ())
    size = math.prod(attrs["shape"])
    if (not attrs["replace"] and size > p[0]) or (size and not p[0]):
        raise _too_many(attrs["shape"], p[0])
    return TensorSpec(attrs["shape"], "int64")


def _categorical(key: Array, logits: Array, axis: int, shape: tuple[int, ...]) -> Any:
    _categorical_infer((_spec(key), _spec(logits)), {"axis": axis, "shape": shape})
    scores = np.moveaxis(logits, axis, -1).astype(np.float64, copy=False)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    if np.isnan(weights).any():
        raise DomainError("categorical: logits with NaN, +inf, or -inf in every class")
    below = np.cumsum(weights, axis=-1)
    below /= below[..., -1:]
    at = _stream(key, _DRAW).draw.random(shape)
    if below.ndim == 1:
        return np.searchsorted(below, at, side="right")
    return np.sum(below <= at[..., None], axis=-1)


def _categorical_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    _key(specs[0])
    logits_shape, axis, shape = shape_of(specs[1]), attrs["axis"], attrs["shape"]
    if not -len(logits_shape) <= axis < len(logits_shape) or not logits_shape[axis]:
        raise ShapeError(f"categorical: no classes along axis {axis} of logits {logits_shape}")
    batch = tuple(size for i, size in enumerate(logits_shape) if i != axis % len(logits_shape))
    _fits(TensorSpec(batch, _dtype(specs[1])), shape)
    return TensorSpec(shape, "int64")


def _dtype(spec: Operand) -> str:
    return spec.dtype if isinstance(spec, TensorSpec) else np.dtype(type(spec)).name


def _spec(x: Array) -> TensorSpec:
    return TensorSpec(x.shape, x.dtype.name)


def _any_key(rng: np.random.Generator) -> Array:
    return rng.integers(0, 2**64, 2, np.uint64)


def _random(
    name: str,
    infer: Infer,
    impl: Any,
    attrs: list[dict[str, Any]],
    *inputs: Any,
    ports: tuple[str, ...] = (),
    vjp: tuple[Any, ...] | None = None,
) -> None:
    """Register one op; samples combine each of ``attrs`` with the same further inputs."""
    register(
        Op(
            name=f"random_{name}",
            family="random",
            infer=infer,
            impl=impl,
            vjp=vjp,
            ports=("key", *ports),
            samples=lambda rng: [
                Sample((_any_key(rng), *inputs), attrs_of_sample) for attrs_of_sample in attrs
            ],
            smooth=False,
            flops=one_per_output,
        )
    )


_FLOATS: list[dict[str, Any]] = [
    {"shape": (2, 3), "dtype": "float64"}, {"shape": (3,), "dtype": "float32"},
    {"shape": (0, 2), "dtype": "float64"}, {"shape": (1,), "dtype": "float16"},
    {"shape": (), "dtype": "float64"}, {"shape": (), "dtype": "float16"},
]  # fmt: skip
_THREE = np.array([0.25, 0.5, 0.25])

_random("split", _split_infer, _split, [{"n": 2}, {"n": 1}, {"n": 0}, {"n": 5}])
_random("fold_in", _one_key, _fold_in, [{}], 7, ports=("data",))
_random("next", _one_key, _next, [{}])
for _name, _impl in (("uniform", _uniform), ("normal", _normal), ("exponential", _exponential),
                     ("gumbel", _gumbel)):  # fmt: skip
    _random(_name, _of_shape("f"), _impl, _FLOATS)
_random("truncated_normal", _of_shape("f"), _truncated_normal,
        [{"lower": -2.0, "upper": 2.0, **range_} for range_ in _FLOATS])  # fmt: skip
_random("gamma", _of_shape("f"), _gamma, _FLOATS, 2.5, ports=("alpha",), vjp=(None, _gamma_rule))
_random("bernoulli", _of_shape("b"), _bernoulli,
        [{"shape": (4, 3)}, {"shape": (0, 3)}, {"shape": (3,)}], _THREE, ports=("p",))  # fmt: skip
_random("integers", _of_shape("i", "u", "b"), _integers,
        [{"shape": (2, 3), "dtype": "int64"}, {"shape": (0, 3), "dtype": "uint8"}],
        0, np.array([1, 5, 100]), ports=("low", "high"))  # fmt: skip
_random("permutation", lambda specs, attrs: _one_key(specs, attrs) and TensorSpec((attrs["n"],),
        "int64"), _permutation, [{"n": 5}, {"n": 1}, {"n": 0}])  # fmt: skip
_random("choice", _choice_infer, _choice, [{"n": 5, "shape": (2, 2)}, {"n": 0, "shape": (0,)}])
_random("weighted_choice", _weighted_infer, _weighted_choice,
        [{"shape": (4,), "replace": True}, {"shape": (0,), "replace": False}, {"shape": (2,),
          "replace": False}], _THREE, ports=("p",))  # fmt: skip
_random("categorical", _categorical_infer, _categorical,
        [{"axis": -1, "shape": ()}, {"axis": 0, "shape": (4, 2)}], np.log(_THREE),
        ports=("logits",))  # fmt: skip
