"""Optimizers: each update is a few nodes of phase ``optimizer`` under ``optimizer/<parameter>``.

Invariant: parameters and state get new arrays; the arithmetic is the same observed or not.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine import modes
from nodescope.engine.nn import Module
from nodescope.engine.run import apply
from nodescope.engine.source import where
from nodescope.engine.tape import TRACED
from nodescope.engine.tensor import Tensor, make
from nodescope.errors import UsageError
from nodescope.ir.scopes import join

_ASSIGN = ops.get("assign")


class Optimizer:
    """Base of the optimizers: parameters, learning rate, and state per parameter.

    Args:
        parameters: A module, or parameters.
        lr: Learning rate. May be changed between steps.
    """

    slots: tuple[str, ...] = ()

    def __init__(self, parameters: Module | Iterable[Tensor], lr: float) -> None:
        found = parameters.parameters() if isinstance(parameters, Module) else list(parameters)
        for each in found:
            if not isinstance(each, Tensor) or getattr(each, "_kind", "") != "parameter":
                raise UsageError(
                    f"{type(self).__name__}: {type(each).__name__} is not a parameter",
                    source=where(),
                    hint="make it with nodescope.parameter, or pass the module",
                )
        if not lr >= 0:
            raise UsageError(f"{type(self).__name__}: lr must not be negative, got {lr}",
                             source=where())  # fmt: skip
        self.parameters = found
        self.lr = lr
        self.steps = 0
        self._paths = [each.name or f"parameter_{i}" for i, each in enumerate(found)]
        self._state = [self._fresh(p, path) for p, path in zip(found, self._paths, strict=True)]

    def _fresh(self, parameter: Tensor, path: str) -> list[Tensor]:
        return [
            make(np.zeros_like(parameter.data), kind="parameter",
                 name=join(join("optimizer", path), slot))
            for slot in self.slots
        ]  # fmt: skip

    def update(self, F: Any, value: Any, gradient: Any, state: list[Any]) -> tuple[Any, ...]:
        """The new value and the new state, in ops of ``F``; subclasses define it."""
        raise UsageError(f"{type(self).__name__} defines no update", source=where())

    def zero_grad(self) -> None:
        """Forget the gradients that `Tensor.backward` has added up."""
        for each in self.parameters:
            each._grad = None

    def step(self) -> None:
        """Change every parameter that has a gradient."""
        self.steps += 1
        tracer = modes.observer()
        with modes.recording(False) if tracer is not None else contextlib.nullcontext():
            for value, state, path in zip(self.parameters, self._state, self._paths, strict=True):
                gradient = value.grad
                if gradient is None:
                    continue
                if tracer is None:
                    new = self.update(ops.RAW, value.data, gradient.data, [s.data for s in state])
                    for target, array in zip((value, *state), new, strict=True):
                        target.data = _ASSIGN.impl(target.data, np.asarray(array))
                else:
                    with tracer.optimizer(path):
                        new = self.update(TRACED, value, gradient, state)
                        for target, tensor in zip((value, *state), new, strict=True):
                            assigned = apply(_ASSIGN, (target, tensor), {})
                            target.data, target._vid = assigned.data, assigned._vid


class SGD(Optimizer):
    """Gradient descent, with momentum if asked.

    Args:
        parameters: A module, or parameters.
        lr: Learning rate.
        momentum: Share of the last step that is repeated, from 0 to 1.
        weight_decay: Added to the gradient, times the parameter.
    """

    def __init__(
        self,
        parameters: Module | Iterable[Tensor],
        lr: float = 0.1,
        *,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.slots = ("velocity",) if momentum else ()
        super().__init__(parameters, lr)

    def update(self, F: Any, value: Any, gradient: Any, state: list[Any]) -> tuple[Any, ...]:
        """See `Optimizer.update`."""
        if self.weight_decay:
            gradient = F.add(gradient, F.multiply(value, self.weight_decay))
        if not state:
            return (F.subtract(value, F.multiply(gradient, self.lr)),)
        velocity = F.add(F.multiply(state[0], self.momentum), gradient)
        return F.subtract(value, F.multiply(velocity, self.lr)), velocity


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015).

    Args:
        parameters: A module, or parameters.
        lr: Learning rate.
        betas: Decay of the means of the gradient and of its square.
        eps: Keeps the denominator from 0.
    """

    slots = ("moment_1", "moment_2")

    def __init__(
        self,
        parameters: Module | Iterable[Tensor],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.betas = betas
        self.eps = eps
        super().__init__(parameters, lr)

    def update(self, F: Any, value: Any, gradient: Any, state: list[Any]) -> tuple[Any, ...]:
        """See `Optimizer.update`."""
        one, two = self.betas
        mean = F.add(F.multiply(state[0], one), F.multiply(gradient, 1.0 - one))
        square = F.add(F.multiply(state[1], two), F.multiply(F.square(gradient), 1.0 - two))
        rate = self.lr / (1.0 - one**self.steps)
        root = F.multiply(F.sqrt(square), 1.0 / math.sqrt(1.0 - two**self.steps))
        change = F.divide(F.multiply(mean, rate), F.add(root, self.eps))
        return F.subtract(value, change), mean, square


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    Args:
        weight_decay: Share of the parameter that each step takes away, times the learning rate.
    """

    def __init__(
        self,
        parameters: Module | Iterable[Tensor],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        self.weight_decay = weight_decay
        super().__init__(parameters, lr, betas=betas, eps=eps)

    def update(self, F: Any, value: Any, gradient: Any, state: list[Any]) -> tuple[Any, ...]:
        """See `Optimizer.update`."""
        shrunk = F.multiply(value, 1.0 - self.lr * self.weight_decay)
        return super().update(F, shrunk, gradient, state)
