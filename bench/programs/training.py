"""From one loss per library to the contenders: the loss and its gradients, or a step of SGD.

Without a rate a run gives the loss and the gradients. With one it changes the parameters, each
library in the way that costs it least: torch in place, jax by donation. Gradients are then let go,
so that nobody has to keep them; what is compared is (before - after) / rate.

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
        by_hand: From parameters and inputs, lists of arrays, to (loss, list of gradients).
        ours: From parameters and inputs to the loss.
        torch, jax: The same, after the module itself as the first argument.
        torch_parts: Gives the loss for torch.compile in which parts are compiled by themselves;
            None to compile the whole step.
    """

    by_hand: Loss
    ours: Loss
    torch: Loss
    jax: Loss
    torch_parts: Callable[[Any], Loss] | None = None


@dataclass(frozen=True)
class Setup:
    """What all contenders of a case start from; ``rate`` None: no update."""

    losses: Losses
    parameters: Sequence[Array]
    inputs: Sequence[Array]
    rate: float | None

    def results(self, loss: Any, arrays: Sequence[Any]) -> list[Array]:
        """Loss and gradients, from the gradients or from the parameters after the step."""
        found = [np.asarray(each) for each in arrays]
        if self.rate is not None:
            found = [(p - q) / np.float32(self.rate)
                     for p, q in zip(self.parameters, found, strict=True)]  # fmt: skip
        return [np.float32(loss).reshape(()), *found]


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
        **{each: lambda b=backend: _ours(setup, b) for each, backend in BACKENDS.items()},
        HAND: lambda: _by_hand(setup),
        TORCH: lambda: _torch(setup),
        TORCH_COMPILE: lambda: _torch_compiled(setup),
        JAX: lambda: _jax(setup),
    }

    def reference() -> list[Array]:
        double = [[each.astype(np.float64) for each in part] for part in (parameters, inputs)]
        loss, gradients = losses.by_hand(*double)
        return [np.asarray(loss), *gradients]

    return Case(name, makers, reference, limits, exact=exact)


def _ours(setup: Setup, backend: str | None) -> Contender:
    parameters = [ns.parameter(each, name=f"p{i}") for i, each in enumerate(setup.parameters)]
    optimizer = None if setup.rate is None else ns.optim.SGD(parameters, lr=setup.rate)
    inputs = tuple(map(ns.tensor, setup.inputs))

    def step(*batch: Any) -> Any:
        for each in parameters:
            each.grad = None
        loss = setup.losses.ours(parameters, *batch)
        loss.backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    def arrays(loss: Any) -> list[Array]:
        found = parameters if optimizer is not None else [each.grad for each in parameters]
        return setup.results(loss.item(), [each.numpy() for each in found])

    if backend is None:
        return Contender(lambda: step(*inputs), arrays)
    ready = ns.compile(step, backend=backend)
    return Contender(lambda: ready(*inputs), arrays, ready, inputs)


def _by_hand(setup: Setup) -> Contender:
    parameters = [each.copy() for each in setup.parameters]
    rate = setup.rate

    def step() -> Any:
        loss, gradients = setup.losses.by_hand(parameters, setup.inputs)
        if rate is None:
            return loss, gradients
        for each, gradient in zip(parameters, gradients, strict=True):
            gradient *= np.float32(rate)
            each -= gradient
        return loss, parameters

    return Contender(step, lambda found: setup.results(*found))


def _torch(setup: Setup) -> Contender:
    import torch

    return _with_tape(torch, setup, lambda *given: setup.losses.torch(torch, *given))


def _with_tape(torch: Any, setup: Setup, loss_of: Loss) -> Contender:
    """Eager backward and update, of a loss that may be compiled."""
    parameters = [torch.tensor(each, requires_grad=True) for each in setup.parameters]
    inputs = [torch.tensor(each) for each in setup.inputs]
    rate = setup.rate

    def step() -> Any:
        for each in parameters:
            each.grad = None
        loss = loss_of(parameters, *inputs)
        loss.backward()
        gradients = [each.grad for each in parameters]
        if rate is None:
            return loss, gradients
        with torch.no_grad():  # what torch.optim.SGD calls, without its bookkeeping
            torch._foreach_add_(parameters, gradients, alpha=-rate)
        return loss, parameters

    def arrays(found: Any) -> list[Array]:
        return setup.results(found[0].item(), [each.detach().numpy() for each in found[1]])

    return Contender(step, arrays)


def _torch_compiled(setup: Setup) -> Contender:
    import torch

    if setup.losses.torch_parts is not None:
        return _with_tape(torch, setup, setup.losses.torch_parts(torch))
    parameters = [torch.tensor(each) for each in setup.parameters]
    inputs = [torch.tensor(each) for each in setup.inputs]
    rate = setup.rate
    both = torch.func.grad_and_value(lambda *given: setup.losses.torch(torch, *given))

    def whole(parameters: Any, *batch: Any) -> Any:
        gradients, loss = both(parameters, *batch)
        if rate is None:
            return loss, gradients
        for each, gradient in zip(parameters, gradients, strict=True):
            each.sub_(gradient, alpha=rate)
        return loss, None

    ready = torch.compile(whole, dynamic=False)

    def step() -> Any:
        with torch.no_grad():
            return ready(parameters, *inputs)

    def arrays(found: Any) -> list[Array]:
        values = parameters if found[1] is None else found[1]
        return setup.results(found[0].item(), [each.numpy() for each in values])

    return Contender(step, arrays)


def _jax(setup: Setup) -> Contender:
    import jax
    import jax.numpy as jnp

    rate = setup.rate
    both = jax.value_and_grad(lambda *given: setup.losses.jax(jax, *given))

    def whole(parameters: Any, *batch: Any) -> Any:
        loss, gradients = both(parameters, *batch)
        if rate is None:
            return loss, gradients
        return loss, [p - rate * q for p, q in zip(parameters, gradients, strict=True)]

    ready = jax.jit(whole, donate_argnums=() if rate is None else 0)
    held = [[jnp.array(each) for each in setup.parameters]]
    inputs = [jnp.asarray(each) for each in setup.inputs]

    def step() -> Any:
        found = jax.block_until_ready(ready(held[0], *inputs))
        if rate is not None:
            held[0] = found[1]
        return found

    return Contender(step, lambda found: setup.results(float(found[0]), found[1]))
