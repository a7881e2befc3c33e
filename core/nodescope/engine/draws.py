"""Random draws with explicit keys: the functions of `nodescope.random`.

Draws are ops and functions of their key: they repeat in every run, and in eager and static graphs.
No gradient flows into a key. Location and scale are ordinary arithmetic on a draw, so gradients
flow into those.

Invariant: nothing here keeps state.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine.autodiff.grad import constant
from nodescope.engine.run import apply
from nodescope.engine.source import where
from nodescope.engine.tensor import NO_ATTRS, Tensor, make, operand
from nodescope.errors import ShapeError, UsageError
from nodescope.ir.dtypes import as_dtype

Shape = int | tuple[int, ...] | list[int]


def key(seed: int) -> Tensor:
    """A key: uint64 of shape (2,), made from any non-negative integer.

    Similar seeds give unrelated keys (by `numpy.random.SeedSequence`).

    Raises:
        UsageError: ``seed`` is not a non-negative integer.
    """
    return constant(words_of(seed))


def words_of(seed: Any) -> Any:
    """The key of a seed, as an array. Raises `UsageError`."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(
            f"random: {seed!r} is not a seed",
            source=where(),
            hint="use an integer from 0; a tensor is folded in with fold_in(key(0), tensor)",
        )
    return np.random.SeedSequence(int(seed)).generate_state(2, np.uint64)


def split(key: Any, n: int = 2) -> Tensor:
    """``n`` new keys, of shape (n, 2), to be unpacked; independent of draws from ``key`` itself."""
    return draw("split", key, n=int(n))


def fold_in(key: Any, data: Any) -> Tensor:
    """A new key for every integer ``data``, such as the number of a step; may be a tensor."""
    return draw("fold_in", key, _parameter(data))


# Continuous distributions


def uniform(
    key: Any, shape: Shape = (), dtype: Any = np.float64, *, low: Any = 0.0, high: Any = 1.0
) -> Tensor:
    """Numbers from ``low`` (included) to ``high`` (excluded, except for rounding)."""
    draws = draw("uniform", key, shape=_shape(shape), dtype=_name(dtype))
    if type(low) is float and type(high) is float and low == 0.0 and high == 1.0:
        return draws
    low, high = _parameter(low), _parameter(high)
    return draws * (high - low) + low  # type: ignore[no-any-return]


def normal(
    key: Any, shape: Shape = (), dtype: Any = np.float64, *, mean: Any = 0.0, std: Any = 1.0
) -> Tensor:
    """Normally distributed numbers. ``mean`` and ``std`` may be tensors that require a gradient."""
    draws = draw("normal", key, shape=_shape(shape), dtype=_name(dtype))
    return placed(draws, mean, std)


def truncated_normal(
    key: Any,
    lower: float = -2.0,
    upper: float = 2.0,
    shape: Shape = (),
    dtype: Any = np.float64,
    *,
    mean: Any = 0.0,
    std: Any = 1.0,
) -> Tensor:
    """Normally distributed numbers between ``lower`` and ``upper``, scaled by ``std`` and shifted
    by ``mean``: the bounds are in standard deviations, as in `jax.random.truncated_normal`."""
    draws = draw(
        "truncated_normal", key, lower=float(lower), upper=float(upper), shape=_shape(shape),
        dtype=_name(dtype),
    )  # fmt: skip
    return placed(draws, mean, std)


def exponential(
    key: Any, shape: Shape = (), dtype: Any = np.float64, *, scale: Any = 1.0
) -> Tensor:
    """Exponentially distributed numbers with mean ``scale``."""
    draws = draw("exponential", key, shape=_shape(shape), dtype=_name(dtype))
    return placed(draws, 0.0, scale)


def gumbel(key: Any, shape: Shape = (), dtype: Any = np.float64) -> Tensor:
    """Standard Gumbel: the maximum of logits plus these is distributed as `categorical`."""
    return draw("gumbel", key, shape=_shape(shape), dtype=_name(dtype))


def gamma(
    key: Any, alpha: Any, shape: Shape | None = None, dtype: Any = np.float64, *, scale: Any = 1.0
) -> Tensor:
    """Gamma-distributed numbers of shape parameter ``alpha``.

    Raises:
        GradientError: In a backward pass, if ``alpha`` requires a gradient: it has no rule.
    """
    alpha = _parameter(alpha)
    draws = draw("gamma", key, alpha, shape=shape_like(shape, alpha), dtype=_name(dtype))
    return placed(draws, 0.0, scale)


def placed(draws: Tensor, mean: Any, std: Any) -> Tensor:
    """``draws * std + mean``, leaving out operations without effect."""
    if not (type(std) is float and std == 1.0):
        draws = draws * _parameter(std)
    if not (type(mean) is float and mean == 0.0):
        draws = draws + _parameter(mean)
    return draws


# Discrete distributions and choices


def integers(
    key: Any,
    low: Any,
    high: Any = None,
    shape: Shape | None = None,
    dtype: Any = np.int64,
    *,
    endpoint: bool = False,
) -> Tensor:
    """Integers from ``low`` to ``high``, which is excluded unless ``endpoint``; from 0 to ``low``
    if ``high`` is None. Each may be an array. Every value is equally likely.

    Raises:
        DomainError: The range is empty.
    """
    if high is None:
        low, high = 0, low
    low, high = _parameter(low), _parameter(high)
    if endpoint:
        high = high + 1
    return draw("integers", key, low, high, shape=shape_like(shape, low, high), dtype=_name(dtype))


def bernoulli(key: Any, p: Any = 0.5, shape: Shape | None = None) -> Tensor:
    """True with probability ``p``. No gradient flows into ``p``."""
    p = _parameter(p)
    return draw("bernoulli", key, p, shape=shape_like(shape, p))


def categorical(key: Any, logits: Any, axis: int = -1, shape: Shape | None = None) -> Tensor:
    """Class numbers (int64), with probabilities softmax(``logits``) along ``axis``.

    Args:
        key: A key.
        logits: Unnormalised logarithms of probabilities; -inf excludes a class.
        axis: The axis of the classes.
        shape: Shape of the result, to which the other dimensions of ``logits`` broadcast; their
            shape if None.

    Raises:
        DomainError: Logits are NaN or +inf, or exclude every class.
    """
    logits = _tensor(logits)
    if not -logits.ndim <= axis < logits.ndim:
        raise ShapeError(f"categorical: logits {logits.shape} have no axis {axis}", source=where())
    at = axis % logits.ndim
    if shape is None:
        shape = logits.shape[:at] + logits.shape[at + 1 :]
    return draw("categorical", key, logits, axis=at, shape=_shape(shape))


def permutation(key: Any, x: Any, axis: int = 0) -> Tensor:
    """The numbers below the integer ``x`` in random order, or an array's slices along ``axis``."""
    if isinstance(x, int | np.integer):
        return draw("permutation", key, n=int(x))
    x = _tensor(x)
    if not -x.ndim <= axis < x.ndim:
        raise ShapeError(f"permutation: shape {x.shape} has no axis {axis}", source=where())
    at = axis % x.ndim
    return _taken(x, draw("permutation", key, n=x.shape[at]), at)


def choice(
    key: Any, a: Any, shape: Shape = (), replace: bool = True, p: Any = None, axis: int = 0
) -> Tensor:
    """Numbers below the integer ``a``, or slices of an array along ``axis``.

    Args:
        key: A key.
        a: The population.
        shape: Shape of the result.
        replace: Whether an element may be chosen more than once.
        p: Probabilities, (n,); uniform if None.
        axis: The axis of ``a``, if that is an array.

    Raises:
        ShapeError: There are not enough elements.
        DomainError: ``p`` is negative or does not sum to 1.
    """
    whole = isinstance(a, int | np.integer)
    a = int(a) if whole else _tensor(a)
    if not whole and not -a.ndim <= axis < a.ndim:
        raise ShapeError(f"choice: shape {a.shape} has no axis {axis}", source=where())
    at = 0 if whole else axis % a.ndim
    n, many = a if whole else a.shape[at], _shape(shape)
    if p is not None:
        p = _tensor(p)
        if p.shape != (n,):
            raise ShapeError(f"choice: p has shape {p.shape}, not ({n},)", source=where())
        picked = draw("weighted_choice", key, p, shape=many, replace=bool(replace))
    elif replace:
        picked = draw("integers", key, 0, n, shape=many, dtype="int64")
    else:
        picked = draw("choice", key, n=n, shape=many)
    return picked if whole else _taken(a, picked, at)


# Arguments


def draw(name: str, key: Any, *inputs: Any, **attrs: Any) -> Tensor:
    """Run the op ``random_<name>``."""
    return apply(ops.get(f"random_{name}"), (_tensor(key), *inputs), attrs or NO_ATTRS)


def _parameter(value: Any) -> Any:
    """A parameter of a distribution as an op takes it: a tensor or a Python scalar."""
    parameter = operand(value)
    if parameter is None:
        raise UsageError(f"random: cannot take a {type(value).__name__}", source=where())
    return parameter


def _tensor(value: Any) -> Tensor:
    parameter = _parameter(value)
    return (
        parameter if isinstance(parameter, Tensor) else make(np.asarray(parameter), kind="constant")
    )


@functools.lru_cache(64)
def _name(dtype: Any) -> str:
    # NumPy takes longer to name a dtype than to draw a few numbers.
    return as_dtype(dtype).name


def _shape(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, int | np.integer):
        shape = (shape,)
    sizes = tuple(int(size) for size in shape)
    if any(size < 0 for size in sizes):
        raise ShapeError(f"random: shape {sizes} has a negative size", source=where())
    return sizes


def size_of(size: Any) -> tuple[int, ...]:
    """NumPy's ``size``: None is one number."""
    return () if size is None else _shape(size)


def shape_like(shape: Any, *parameters: Any) -> tuple[int, ...]:
    """``shape``, or the broadcast shape of the parameters if it is None."""
    if shape is not None:
        return _shape(shape)
    shapes = [getattr(parameter, "shape", None) for parameter in parameters]
    known = [np.shape(parameter) if s is None else s
             for parameter, s in zip(parameters, shapes, strict=True)]  # fmt: skip
    try:
        return np.broadcast_shapes(*known)
    except ValueError:
        listed = " and ".join(map(str, known))
        raise ShapeError(f"random: shapes {listed} do not broadcast", source=where()) from None


def _taken(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    return x[(*(slice(None),) * axis, indices)]
