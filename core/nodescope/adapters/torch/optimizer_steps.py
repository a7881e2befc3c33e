"""Optimizer steps: the phase ``optimizer``, whose scopes are the updated parameters' paths.

A step that a gradient scaler skips because gradients overflowed still ends a training step.

Invariant: the hooks return None, so PyTorch uses the program's own arguments.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from nodescope.adapters.torch.compat import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from nodescope.adapters.torch.module_facts import defaults_of, type_name
from nodescope.adapters.torch.places import Quiet
from nodescope.adapters.torch.storages import Owner
from nodescope.emit.emitter import Emitter
from nodescope.ir.graph import ScopeDescribed
from nodescope.ir.scopes import join

if TYPE_CHECKING:
    from nodescope.adapters.torch.operations import Operations


class OptimizerSteps:
    """The steps of all optimizers of a run."""

    def __init__(self, emitter: Emitter, operations: Operations) -> None:
        self._emitter = emitter
        self._operations = operations
        self._described: set[str] = set()
        self._count = 0
        operations.owners = self._owners

    @contextlib.contextmanager
    def hooked(self) -> Iterator[None]:
        """Follow the steps of all optimizers."""
        hooks = (
            register_optimizer_step_pre_hook(self._begins),
            register_optimizer_step_post_hook(self._ended),
        )
        scaler_step, make = torch.amp.GradScaler.step, torch.optim.Optimizer.__init__

        @functools.wraps(scaler_step)
        def scaled(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            count = self._count
            result = scaler_step(scaler, *args, **kwargs)
            if self._count == count:  # the scaler skipped the step
                self._ended(None, args, kwargs)
            return result

        @functools.wraps(make)
        def made(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            make(optimizer, *args, **kwargs)
            self._operations.has_optimizer = True

        torch.amp.GradScaler.step, torch.optim.Optimizer.__init__ = scaled, made
        try:
            yield
        finally:
            torch.amp.GradScaler.step, torch.optim.Optimizer.__init__ = scaler_step, make
            for hook in hooks:
                hook.remove()

    def _begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        place = self._operations.place
        if place.quiet or torch.compiler.is_compiling():
            return
        try:
            self._leave()
            if self._operations.off:
                return
            operations = self._operations
            if operations.fast_path is not None and operations.fast_path.following is not None:
                operations.deferred = optimizer
            else:
                with Quiet(place):
                    self._describe(optimizer)
                    operations.updates = operations.owners(optimizer)
            place.updated, place.optimized = "", optimizer
            place.optimizer = self._emitter.phase("optimizer", path=type(optimizer).__name__)
            place.optimizer.__enter__()
        except Exception:  # the program's step continues
            return

    def _describe(self, optimizer: Any) -> None:
        """Emit the settings of an optimizer, once."""
        scope = join("optimizer", type(optimizer).__name__)
        for path in ("optimizer", scope) if not self._described else (scope,):
            if path not in self._described:
                self._described.add(path)
                facts = ScopeDescribed(path, type_name(optimizer), defaults_of(optimizer))
                self._emitter.bus.emit(facts)

    def _ended(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._operations.place.quiet or torch.compiler.is_compiling():
            return
        self._count += 1
        try:
            self._leave()
            self._emitter.optimizer_stepped()
        except Exception:
            return

    def _leave(self) -> None:
        """Leave the phase. If a step raised, this happens at the beginning of the next step."""
        place = self._operations.place
        context, place.optimizer, place.optimized = place.optimizer, None, None
        if context is not None:
            context.__exit__(None, None, None)

    def _owners(self, optimizer: Any) -> dict[int, str]:
        """The path of the parameter that an optimizer updates, by the serial of its storage.

        The storages of its gradient and of its optimizer state map to the same path.
        """
        values = self._operations.values
        memory_of = values.storages.memory
        updates: dict[int, str] = {}
        count = 0
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                memory = memory_of(parameter)
                if memory is None:
                    continue
                owner = memory.owner
                if owner is None:
                    owner = Owner("parameter", "", "parameter" + (f"_{count}" if count else ""))
                    values.own(parameter, owner)
                    count += 1
                path = join(owner.scope, owner.label)
                updates[memory.serial] = path
                gradient = parameter.grad
                if gradient is not None and (held := memory_of(gradient)) is not None:
                    updates[held.serial] = path
                for name, state in optimizer.state.get(parameter, {}).items():
                    if isinstance(state, torch.Tensor) and (held := memory_of(state)) is not None:
                        updates[held.serial] = path
                        values.own(state, Owner("buffer", join("optimizer", path), name))
        return updates
