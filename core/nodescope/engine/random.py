"""`nodescope.random`: random numbers with explicit keys, and a generator that keeps its key.

    key = ns.random.key(0)
    noise, init = ns.random.split(key)
    w = ns.random.normal(init, (64, 10)) * 0.1

    rng = ns.random.Generator(0)
    w = rng.normal(0, 0.1, (64, 10))

Invariant: the only state is `Generator.state`, one tensor.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.grad import assign
from nodescope.engine.draws import (
    bernoulli,
    categorical,
    choice,
    draw,
    exponential,
    fold_in,
    gamma,
    gumbel,
    integers,
    key,
    normal,
    permutation,
    placed,
    shape_like,
    size_of,
    split,
    truncated_normal,
    uniform,
    words_of,
)
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor, make
from nodescope.errors import UsageError

__all__ = [
    "Generator", "bernoulli", "categorical", "choice", "default_rng", "exponential", "fold_in",
    "gamma", "gumbel", "integers", "key", "normal", "permutation", "split", "truncated_normal",
    "uniform",
]  # fmt: skip


class Generator:
    """A random generator with NumPy's interface, which draws each time from a new key.

    Its key is a tensor that every draw replaces by an ``assign``, so a static graph sees it as
    state that is updated. It is not a parameter of a model and has no gradient. Methods take the
    arguments of `numpy.random.Generator`'s, but draw different numbers.

    Args:
        seed: A non-negative integer, or a key.
        name: The name of its state in the graph.

    Attributes:
        state: The key of the next draw; uint64 of shape (2,).
    """

    def __init__(self, seed: Any = 0, *, name: str = "generator") -> None:
        seed_words = seed.data if isinstance(seed, Tensor) else seed
        words = seed_words.copy() if isinstance(seed_words, np.ndarray) else words_of(seed_words)
        if words.shape != (2,) or words.dtype != np.uint64:
            raise UsageError(
                f"Generator: a seed is an integer or a key, not {words.dtype} of {words.shape}",
                source=where(),
            )
        self.state = make(words, kind="parameter", name=name)
        builder = dispatch_mode.builder()
        if builder is not None:
            builder.new_state(self.state)
        self._lock = threading.RLock()

    def __reduce__(self) -> Any:
        # A lock cannot be copied or pickled; the key is the whole state.
        return functools.partial(Generator, name=self.state.name), (self.state.numpy().copy(),)

    def __repr__(self) -> str:
        return f"Generator({self.state.data.tolist()})"

    def _next(self, drawn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            draws = drawn(self.state, *args, **kwargs)
            assign(self.state, draw("next", self.state))
        return draws

    def spawn(self, n: int) -> list[Generator]:
        """``n`` generators that share nothing with this one."""
        return [Generator(child_key) for child_key in self._next(split, n)]

    def random(self, size: Any = None, dtype: Any = np.float64) -> Tensor:
        """Uniform over [0, 1)."""
        return self._next(uniform, size_of(size), dtype)  # type: ignore[no-any-return]

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Tensor:
        """Uniform over [low, high)."""
        shape = shape_like(size, low, high)
        return self._next(uniform, shape, low=low, high=high)  # type: ignore[no-any-return]

    def standard_normal(self, size: Any = None, dtype: Any = np.float64) -> Tensor:
        """Normal with mean 0 and standard deviation 1."""
        return self._next(normal, size_of(size), dtype)  # type: ignore[no-any-return]

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Tensor:
        """Normal with mean ``loc`` and standard deviation ``scale``."""
        shape = shape_like(size, loc, scale)
        return self._next(normal, shape, mean=loc, std=scale)  # type: ignore[no-any-return]

    def truncated_normal(
        self, lower: float = -2.0, upper: float = 2.0, size: Any = None, dtype: Any = np.float64
    ) -> Tensor:
        """Standard normal between two bounds."""
        return self._next(truncated_normal, lower, upper, size_of(size), dtype)  # type: ignore[no-any-return]

    def standard_exponential(self, size: Any = None, dtype: Any = np.float64) -> Tensor:
        """Exponential with mean 1."""
        return self._next(exponential, size_of(size), dtype)  # type: ignore[no-any-return]

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Tensor:
        """Exponential with mean ``scale``."""
        return self._next(exponential, shape_like(size, scale), scale=scale)  # type: ignore[no-any-return]

    def standard_gamma(self, shape: Any, size: Any = None, dtype: Any = np.float64) -> Tensor:
        """Gamma with scale 1."""
        return self._next(gamma, shape, shape_like(size, shape), dtype)  # type: ignore[no-any-return]

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Tensor:
        """Gamma with shape parameter ``shape``."""
        shape_of_draws = shape_like(size, shape, scale)
        return self._next(gamma, shape, shape_of_draws, scale=scale)  # type: ignore[no-any-return]

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Tensor:
        """Gumbel."""
        return placed(self._next(gumbel, shape_like(size, loc, scale)), loc, scale)

    def integers(
        self,
        low: Any,
        high: Any = None,
        size: Any = None,
        dtype: Any = np.int64,
        endpoint: bool = False,
    ) -> Tensor:
        """Integers from ``low`` to ``high``, which is excluded unless ``endpoint``."""
        return self._next(integers, low, high, size, dtype, endpoint=endpoint)  # type: ignore[no-any-return]

    def bernoulli(self, p: Any = 0.5, size: Any = None) -> Tensor:
        """True with probability ``p``; `numpy.random.Generator` has no such method."""
        return self._next(bernoulli, p, size)  # type: ignore[no-any-return]

    def categorical(self, logits: Any, axis: int = -1, size: Any = None) -> Tensor:
        """Class numbers, see `categorical`; `numpy.random.Generator` has no such method."""
        return self._next(categorical, logits, axis, size)  # type: ignore[no-any-return]

    def permutation(self, x: Any, axis: int = 0) -> Tensor:
        """The numbers below ``x``, or an array's slices, in random order."""
        return self._next(permutation, x, axis)  # type: ignore[no-any-return]

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0
    ) -> Tensor:
        """Numbers below ``a``, or slices of an array."""
        return self._next(choice, a, size_of(size), replace, p, axis)  # type: ignore[no-any-return]


def default_rng(seed: Any = 0) -> Generator:
    """A `Generator`; unlike NumPy's function of this name, seed 0 unless one is given."""
    return Generator(seed)
