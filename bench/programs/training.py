"""Makes contenders from one loss per library: the loss and its gradients, or a step of SGD.

Without a rate, a run gives the loss and the gradients. With a rate, it updates the parameters, each
library in its cheapest way: torch in place, jax by donation. Gradients are then not kept; the
comparison uses (before - after) / rate.

Invariant: every contender starts from its own copy of the same parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import nodescope as ns
from bench.programs.case import (
    BACKENDS,
    EAGER,
    HAND,
    JAX,
    TORCH,
    TORCH_COMPILE,
    Array,
    Case,
    Contender,
    Limit,
)  # fmt: skip

Loss = Callable[..., Any]


@dataclass(frozen=True)
class Losses:
    """One program, as each library writes it.

    Attributes:
        by_hand: Maps parameters and inputs, lists of arrays, to (loss, list of gradients).
        ours: Maps parameters and inputs to the loss.
        torch, jax: The same, with the library's module as the first argument.
        torch_parts: Returns a loss for torch.compile whose parts are compiled separately; None to
            compile the whole step.
    """

    by_hand: Loss
    ours: Loss
    torch: Loss
    jax: Loss
    torch_parts: Callable[[Any], Loss] | None = None


@dataclass(frozen=True)
class Setup:
    """What all contenders of a case start from; ``rate`` is None for no update."""

    losses: Losses
    parameters: Sequence[Array]
    inputs: Sequence[Array]
    rate: float | None

    def results(self, loss: Any, arrays: Sequence[Any]) -> list[Array]:
        """Loss and gradients, from the gradients or from the parameters after the step."""
        arrays_ = [np.asarray(array) for array in arrays]
        if self.rate is not None:
            arrays_ = [(p - q) / np.float32(self.rate)
                     for p, q in zip(self.parameters, arrays_, strict=True)]  # fmt: skip
        return [np.float32(loss).reshape(()), *arrays_]


def case(
    name: str,
    losses: Losses,
    parameters: Sequence[Array],
    inputs: Sequence[Array],
    limits: Mapping[str, Limit],
    *,
    rate: float | None = None,
    exact: bool = True,
) -> Case:
    """The case in which every library minimises the same loss from the same parameters."""
    setup = Setup(losses, parameters, inputs, rate)
    makers = {
        EAGER: lambda: _ours(setup, None),
        **{n: lambda b=backend: _ours(setup, b) for n, backend in BACKENDS.items()},
        HAND: lambda: _by_hand(setup),
        TORCH: lambda: _torch(setup),
        TORCH_COMPILE: lambda: _torch_compiled(setup),
        JAX: lambda: _jax(setup),
    }

    def reference() -> list[Array]:
        double = [[array.astype(np.float64) for array in part] for part in (parameters, inputs)]
        loss, gradients = losses.by_hand(*double)
        return [np.asarray(loss), *gradients]

    return Case(name, makers, reference, limits, exact=exact)


def _ours(setup: Setup, backend: str | None) -> Contender:
    parameters = [
        ns.parameter(parameter, name=f"p{i}") for i, parameter in enumerate(setup.parameters)
    ]
    optimizer = None if setup.rate is None else ns.optim.SGD(parameters, lr=setup.rate)
    inputs = tuple(map(ns.tensor, setup.inputs))

    def step(*batch: Any) -> Any:
        for parameter in parameters:
            parameter.grad = None
        loss = setup.losses.ours(parameters, *batch)
        loss.backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    def arrays(loss: Any) -> list[Array]:
        tensors = (
            parameters if optimizer is not None else [parameter.grad for parameter in parameters]
        )
        return setup.results(loss.item(), [tensor.numpy() for tensor in tensors])

    if backend is None:
        return Contender(lambda: step(*inputs), arrays)
    ready = ns.compile(step, backend=backend)
    return Contender(lambda: ready(*inputs), arrays, ready, inputs)


def _by_hand(setup: Setup) -> Contender:
    parameters = [parameter.copy() for parameter in setup.parameters]
    rate = setup.rate

    def step() -> Any:
        loss, gradients = setup.losses.by_hand(parameters, setup.inputs)
        if rate is None:
            return loss, gradients
        for parameter, gradient in zip(parameters, gradients, strict=True):
            gradient *= np.float32(rate)
            parameter -= gradient
        return loss, parameters

    return Contender(step, lambda outputs: setup.results(*outputs))


def _torch(setup: Setup) -> Contender:
    import torch

    return _with_tape(torch, setup, lambda *arguments: setup.losses.torch(torch, *arguments))


def _with_tape(torch: Any, setup: Setup, loss_of: Loss) -> Contender:
    """An eager backward pass and update, for a loss that may be compiled."""
    parameters = [torch.tensor(parameter, requires_grad=True) for parameter in setup.parameters]
    inputs = [torch.tensor(value) for value in setup.inputs]
    rate = setup.rate

    def step() -> Any:
        for parameter in parameters:
            parameter.grad = None
        loss = loss_of(parameters, *inputs)
        loss.backward()
        gradients = [parameter.grad for parameter in parameters]
        if rate is None:
            return loss, gradients
        with torch.no_grad():  # the operation of torch.optim.SGD, without its bookkeeping
            torch._foreach_add_(parameters, gradients, alpha=-rate)
        return loss, parameters

    def arrays(outputs: Any) -> list[Array]:
        return setup.results(
            outputs[0].item(), [parameter.detach().numpy() for parameter in outputs[1]]
        )

    return Contender(step, arrays)


def _torch_compiled(setup: Setup) -> Contender:
    import torch

    if setup.losses.torch_parts is not None:
        return _with_tape(torch, setup, setup.losses.torch_parts(torch))
    parameters = [torch.tensor(parameter) for parameter in setup.parameters]
    inputs = [torch.tensor(value) for value in setup.inputs]
    rate = setup.rate
    both = torch.func.grad_and_value(lambda *arguments: setup.losses.torch(torch, *arguments))

    def whole(parameters: Any, *batch: Any) -> Any:
        gradients, loss = both(parameters, *batch)
        if rate is None:
            return loss, gradients
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.sub_(gradient, alpha=rate)
        return loss, None

    ready = torch.compile(whole, dynamic=False)

    def step() -> Any:
        with torch.no_grad():
            return ready(parameters, *inputs)

    def arrays(outputs: Any) -> list[Array]:
        values = parameters if outputs[1] is None else outputs[1]
        return setup.results(outputs[0].item(), [value.numpy() for value in values])

    return Contender(step, arrays)


def _jax(setup: Setup) -> Contender:
    import jax
    import jax.numpy as jnp

    rate = setup.rate
    both = jax.value_and_grad(lambda *arguments: setup.losses.jax(jax, *arguments))

    def whole(parameters: Any, *batch: Any) -> Any:
        loss, gradients = both(parameters, *batch)
        if rate is None:
            return loss, gradients
        return loss, [p - rate * q for p, q in zip(parameters, gradients, strict=True)]

    ready = jax.jit(whole, donate_argnums=() if rate is None else 0)
    state = [[jnp.array(parameter) for parameter in setup.parameters]]
    inputs = [jnp.asarray(value) for value in setup.inputs]

    def step() -> Any:
        outputs = jax.block_until_ready(ready(state[0], *inputs))
        if rate is not None:
            state[0] = outputs[1]
        return outputs

    return Contender(step, lambda outputs: setup.results(float(outputs[0]), outputs[1]))
