"""Layers: modules whose attributes name their parameters and the scopes they run in.

Invariant: a module holds parameters and other modules; what it computes is ordinary tensor code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nodescope.engine.functions import (
    cross_entropy,
    gelu,
    log_softmax,
    mse,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
)
from nodescope.engine.grad import parameter
from nodescope.engine.scopes import name_scope
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import ShapeError, UsageError
from nodescope.ir.scopes import join

__all__ = [
    "Dense", "Linear", "Module", "Sequential", "cross_entropy", "gelu", "glorot", "he",
    "log_softmax", "mse", "relu", "sigmoid", "silu", "softmax", "softplus", "tanh",
]  # fmt: skip

Init = Callable[[np.random.Generator, int, int], np.ndarray[Any, Any]]


def tanh(x: Any) -> Tensor:
    """Hyperbolic tangent, element by element."""
    return np.tanh(x)  # type: ignore[no-any-return]


def he(rng: np.random.Generator, inputs: int, outputs: int) -> np.ndarray[Any, Any]:
    """Normal weights of variance 2 / inputs, for layers before relu. Shape (inputs, outputs)."""
    return rng.standard_normal((inputs, outputs)) * math.sqrt(2.0 / max(inputs, 1))


def glorot(rng: np.random.Generator, inputs: int, outputs: int) -> np.ndarray[Any, Any]:
    """Uniform weights of variance 2 / (inputs + outputs). Shape (inputs, outputs)."""
    limit = math.sqrt(6.0 / max(inputs + outputs, 1))
    return rng.uniform(-limit, limit, (inputs, outputs))


class Module:
    """A part of a network: assign parameters and modules to attributes, and define ``forward``.

    Calling a module runs ``forward`` in a name scope: the attribute under which its owner holds it.
    A parameter's name is its path: ``encoder/layer_0/weight``. The outermost module opens no scope.
    """

    _path: str = ""
    _scope: str = ""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses define it."""
        raise UsageError(f"{type(self).__name__} defines no forward", source=where())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` in the module's scope."""
        if not self._scope:
            return self.forward(*args, **kwargs)
        with name_scope(self._scope):
            return self.forward(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        _adopt(self, name, value)

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Paths and parameters, in order of definition; a shared one comes once."""
        seen: set[int] = set()
        for path, each in self._walk(""):
            if id(each) not in seen:
                seen.add(id(each))
                yield path, each

    def parameters(self) -> list[Tensor]:
        """The parameters of this module and of those inside."""
        return [each for _, each in self.named_parameters()]

    def _children(self) -> Iterator[tuple[str, Any]]:
        for name, value in vars(self).items():
            if isinstance(value, list | tuple):
                yield from ((f"{name}_{i}", each) for i, each in enumerate(value))
            else:
                yield name, value

    def _walk(self, path: str) -> Iterator[tuple[str, Tensor]]:
        for name, value in self._children():
            if isinstance(value, Tensor) and getattr(value, "_kind", "") == "parameter":
                yield join(path, name), value
            elif isinstance(value, Module):
                yield from value._walk(join(path, name))


def _adopt(owner: Module, name: str, value: Any) -> None:
    path = join(owner._path, name)
    if isinstance(value, Tensor):
        if getattr(value, "_kind", "") == "parameter":
            value._name = path
    elif isinstance(value, Module):
        object.__setattr__(value, "_scope", name)
        object.__setattr__(value, "_path", path)
        for inner, each in list(value._children()):
            _adopt(value, inner, each)
    elif isinstance(value, list | tuple):
        for i, each in enumerate(value):
            if isinstance(each, Tensor | Module):
                _adopt(owner, f"{name}_{i}", each)


class Linear(Module):
    """``x @ weight + bias``.

    Args:
        inputs: Size of the last dimension of ``x``.
        outputs: Size of the last dimension of the result.
        rng: Where initial weights come from.
        init: `he` or `glorot`, or a function like them.
        bias: Whether there is one; it starts at 0.
        dtype: Floating-point dtype of the parameters.
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        rng: np.random.Generator,
        init: Init = he,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        if inputs < 1 or outputs < 1:
            raise ShapeError(f"Linear: sizes {inputs} and {outputs} must be positive")
        self.weight = parameter(init(rng, inputs, outputs), dtype, name="weight")
        self.bias = parameter(np.zeros(outputs), dtype, name="bias") if bias else None

    def forward(self, x: Any) -> Tensor:
        """(..., inputs) to (..., outputs)."""
        product: Tensor = x @ self.weight
        return product if self.bias is None else product + self.bias


Dense = Linear


class Sequential(Module):
    """Modules and functions, one after the other; modules run in scopes ``layer_0``, …"""

    def __init__(self, *layers: Callable[..., Any]) -> None:
        self.layer = list(layers)

    def forward(self, x: Any) -> Any:
        """The last layer's result."""
        for each in self.layer:
            x = each(x)
        return x
