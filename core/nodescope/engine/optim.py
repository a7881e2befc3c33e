"""Optimizers: each update is a few nodes of phase ``optimizer`` under ``optimizer/<parameter>``.

Invariant: parameters and state get new arrays; the arithmetic is the same observed or not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.emit.scopes import name_scope
from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.grad import assign, store
from nodescope.engine.autodiff.tape import TRACED
from nodescope.engine.graphs.gradients import minimize
from nodescope.engine.graphs.variables import slot_variable
from nodescope.engine.native_calls import native_update
from nodescope.engine.nn import Module
from nodescope.engine.run import NUMBERS, apply
from nodescope.engine.source import where
from nodescope.engine.symbolic import Abstract
from nodescope.engine.tensor import Tensor, changed, make
from nodescope.engine.update_script import script_of, scripted
from nodescope.errors import ShapeError, UsageError
from nodescope.ir.scopes import join

_ASSIGN = ops.get("assign")
_NO_OP = ops.get("no_op")


def _working(parameter: Tensor) -> np.dtype[Any]:
    """The dtype of the arithmetic and of the state: float32 for halves.

    In bfloat16, a decay of 0.999 rounds to 1; in float16, squares of small gradients round to 0.
    """
    dtype: np.dtype[Any] = parameter.dtype
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


class Optimizer:
    """Base of the optimizers: parameters, learning rate, and state per parameter.

    Args:
        parameters: A module, or parameters.
        lr: Learning rate. May be changed between steps.
    """

    slots: tuple[str, ...] = ()

    def __init__(self, parameters: Module | Iterable[Tensor], lr: float) -> None:
        parameter_list = (
            parameters.parameters() if isinstance(parameters, Module) else list(parameters)
        )
        for parameter in parameter_list:
            if not isinstance(parameter, Tensor) or getattr(parameter, "_kind", "") != "parameter":
                raise UsageError(
                    f"{type(self).__name__}: {type(parameter).__name__} is not a parameter",
                    source=where(),
                    hint="make it with nodescope.parameter, or pass the module",
                )
        if not lr >= 0:
            raise UsageError(f"{type(self).__name__}: lr must not be negative, got {lr}",
                             source=where(),
                             hint="steps already go against the gradient")  # fmt: skip
        builder = dispatch_mode.builder()
        if builder is not None:
            builder.new_optimizer(self)
        self.parameters = parameter_list
        self.lr = lr
        self.steps = 0
        names = [parameter.name.partition(":")[0] for parameter in parameter_list]
        self._paths = [name or f"parameter_{i}" for i, name in enumerate(names)]
        self._scopes = tuple([join("optimizer", path) for path in self._paths])
        self._state = [
            self._fresh(p, path) for p, path in zip(parameter_list, self._paths, strict=True)
        ]

    def _fresh(self, parameter: Tensor, path: str) -> list[Tensor]:
        data: Any = parameter.data
        if data.__class__ is Abstract:  # a graph variable, like the parameters
            return [slot_variable(parameter, path, _working(parameter), slot)
                    for slot in self.slots]  # fmt: skip
        return [
            make(np.zeros(parameter.shape, _working(parameter)), kind="parameter",
                 name=join(join("optimizer", path), slot))
            for slot in self.slots
        ]  # fmt: skip

    def rates(self) -> dict[str, float]:
        """The numbers of this step by name, from ``lr``, ``steps`` and the like."""
        return {"lr": self.lr}

    def update(
        self, F: Any, value: Any, gradient: Any, state: list[Any], rates: dict[str, Any]
    ) -> tuple[Any, ...]:
        """The new value and the new state, in ops of ``F``; subclasses define it.

        ``rates`` are those of `rates`: numbers, or in a graph scalars that it reads on each call.
        """
        raise UsageError(f"{type(self).__name__} defines no update", source=where())

    def _next(self) -> dict[str, float]:
        self.steps += 1
        return self.rates()

    def zero_grad(self) -> None:
        """Clear the gradients accumulated by `Tensor.backward`."""
        for parameter in self.parameters:
            parameter.grad = None

    def state_dict(self) -> dict[str, np.ndarray[Any, Any]]:
        """Copies of the state by path, and ``steps``; `numpy.savez` takes them as they are.

        The settings, such as ``lr``, are not in it.
        """
        state = {name: variable.data.copy() for name, variable in self._named().items()}
        return {"steps": np.array(self.steps), **state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned for the same kind of optimizer and
        parameters.

        Raises:
            UsageError: Paths are missing or unknown. Nothing is changed.
            ShapeError: An array has another shape. Nothing is changed.
        """
        own = self._named()
        wrong = sorted({"steps", *own} ^ set(state))
        if wrong:
            raise UsageError(
                f"{type(self).__name__}.load_state_dict: missing or unexpected: {', '.join(wrong)}",
                source=where(),
                hint="create the optimizer with the same settings as when the state was saved",
            )
        for name, variable in own.items():
            if np.shape(state[name]) != variable.shape:
                raise ShapeError(
                    f"{type(self).__name__}.load_state_dict: {name} is {variable.shape}, "
                    f"not {np.shape(state[name])}",
                    source=where(),
                    hint="create the optimizer with the same settings as when the state was saved",
                )
        for name, variable in own.items():
            assign(variable, np.asarray(state[name]))
        self.steps = int(state["steps"])

    def _named(self) -> dict[str, Tensor]:
        return {
            join(path, slot): variable
            for path, state in zip(self._paths, self._state, strict=True)
            for slot, variable in zip(self.slots, state, strict=True)
        }

    def minimize(self, loss: Tensor, name: str = "train") -> Any:
        """Differentiate ``loss`` and change the parameters.

        Returns:
            In a `Graph`, the operation that will do so; in eager mode None.
        """
        return minimize(self, loss, name)

    def step(self) -> None:
        """Change every parameter that has a gradient."""
        tracer, builder = dispatch_mode.observer(), dispatch_mode.builder()
        if tracer is None:
            self._step(self._next())
            return
        rates: dict[str, Any] = self.rates() if builder is not None else self._next()
        with dispatch_mode.recording(False):
            if builder is None:
                self._step_observed(tracer, rates)
            else:
                self._step_built(builder, rates)

    def _step(self, rates: dict[str, float]) -> None:
        for value, state in zip(self.parameters, self._state, strict=True):
            gradient = value.grad
            if gradient is None:
                continue
            arrays = [variable.data for variable in state]
            current = value.data.astype(_working(value), copy=False)
            uphill = gradient.data.astype(_working(value), copy=False)
            new = self.update(ops.RAW, current, uphill, arrays, rates)
            for target, array in zip((value, *state), new, strict=True):
                target.data = _ASSIGN.impl(target.data, np.asarray(array))
                target._vid = 0  # no observed node made it
            changed(value)

    def _step_observed(self, tracer: Any, rates: dict[str, float]) -> None:
        update, script, numbers = native_update(tracer), None, tuple(rates.values())
        if update is not None and NUMBERS.issuperset(map(type, numbers)):
            kind: Any = type(self)
            function = getattr(self.update, "__func__", None)
            script = script_of(kind, function, len(self.slots), tuple(rates))
        many, at = len(self.parameters), 0
        while at < many:
            if script is not None:
                at = update(script, self.parameters, self._state, numbers, self._scopes, at)
                if at == many:
                    break
            value, state, path = self.parameters[at], self._state[at], self._paths[at]
            with tracer.optimizer(path):
                if value.grad is None:
                    apply(_NO_OP, (), {})  # shows that the parameter was skipped
                else:
                    self._update_traced(value, state, rates)
            at += 1

    def _step_built(self, builder: Any, rates: dict[str, Any]) -> None:
        reader = functools.partial(self._next)  # a new object, so that each step counts separately
        for value, state, path in zip(self.parameters, self._state, self._paths, strict=True):
            if value.grad is not None:
                rates = builder.host(reader, rates, _working(value).name, "optimizer")
                with builder.optimizer(path):
                    self._update_traced(value, state, rates)

    def _update_traced(self, value: Tensor, state: list[Tensor], rates: dict[str, Any]) -> None:
        gradient, dtype = value.grad, _working(value)
        assert gradient is not None
        now = value if value.dtype == dtype else value.astype(dtype)
        slope = gradient if gradient.dtype == dtype else gradient.astype(dtype)
        new = self.update(TRACED, now, slope, state, rates)
        for target, tensor in zip((value, *state), new, strict=True):
            store(target, apply(_ASSIGN, (target, tensor), {}))


def clip_grad_norm(parameters: Module | Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale all gradients down together so that their norm is at most ``max_norm``.

    Returns:
        The norm before scaling, a scalar (as ``torch.nn.utils.clip_grad_norm_``).

    Raises:
        UsageError: No parameter has a gradient.
    """
    parameter_list = parameters.parameters() if isinstance(parameters, Module) else list(parameters)
    gradients = [
        (parameter, parameter.grad) for parameter in parameter_list if parameter.grad is not None
    ]
    if not gradients:
        raise UsageError("clip_grad_norm: no parameter has a gradient", source=where(),
                         hint="call backward() before")  # fmt: skip
    with dispatch_mode.no_grad(), name_scope("clip_grad_norm"):
        squares = [np.sum(np.square(np.abs(gradient))) for _, gradient in gradients]
        norm = np.sqrt(functools.reduce(np.add, squares))
        scale = np.minimum(max_norm / (norm + 1e-6), 1.0)
        for parameter, gradient in gradients:
            parameter.grad = gradient * scale.astype(gradient.dtype)
    return norm  # type: ignore[no-any-return]


class SGD(Optimizer):
    """Gradient descent with optional momentum.

    Args:
        parameters: A module, or parameters.
        lr: Learning rate.
        momentum: Fraction of the previous step that is added, from 0 to 1.
        weight_decay: Factor of the parameter that is added to the gradient.
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

    def rates(self) -> dict[str, float]:
        """See `Optimizer.rates`."""
        rates = {"lr": self.lr}
        if self.momentum:
            rates["momentum"] = self.momentum
        if self.weight_decay:
            rates["weight_decay"] = self.weight_decay
        return rates

    @scripted
    def update(
        self, F: Any, value: Any, gradient: Any, state: list[Any], rates: dict[str, Any]
    ) -> tuple[Any, ...]:
        """See `Optimizer.update`."""
        if "weight_decay" in rates:
            gradient = F.add(gradient, F.multiply(value, rates["weight_decay"]))
        if not state:
            return (F.subtract(value, F.multiply(gradient, rates["lr"])),)
        velocity = F.add(F.multiply(state[0], rates["momentum"]), gradient)
        return F.subtract(value, F.multiply(velocity, rates["lr"])), velocity


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

    def rates(self) -> dict[str, float]:
        """See `Optimizer.rates`."""
        beta_1, beta_2 = self.betas
        step = max(self.steps, 1)
        return {
            "beta_1": beta_1,
            "rest_1": 1.0 - beta_1,
            "beta_2": beta_2,
            "rest_2": 1.0 - beta_2,
            "rate": self.lr / (1.0 - beta_1**step),
            "root": 1.0 / math.sqrt(1.0 - beta_2**step),
            "eps": self.eps,
        }

    @scripted
    def update(
        self, F: Any, value: Any, gradient: Any, state: list[Any], rates: dict[str, Any]
    ) -> tuple[Any, ...]:
        """See `Optimizer.update`."""
        mean = F.add(F.multiply(state[0], rates["beta_1"]), F.multiply(gradient, rates["rest_1"]))
        square = F.add(
            F.multiply(state[1], rates["beta_2"]), F.multiply(F.square(gradient), rates["rest_2"])
        )
        root = F.multiply(F.sqrt(square), rates["root"])
        change = F.divide(F.multiply(mean, rates["rate"]), F.add(root, rates["eps"]))
        return F.subtract(value, change), mean, square


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    Args:
        weight_decay: Each step subtracts this fraction of the parameter, times the learning rate.
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

    def rates(self) -> dict[str, float]:
        """See `Optimizer.rates`."""
        return {**super().rates(), "shrink": 1.0 - self.lr * self.weight_decay}

    @scripted
    def update(
        self, F: Any, value: Any, gradient: Any, state: list[Any], rates: dict[str, Any]
    ) -> tuple[Any, ...]:
        """See `Optimizer.update`."""
        shrunk = F.multiply(value, rates["shrink"])
        return super().update(F, shrunk, gradient, state, rates)
