"""Backward passes: detects where they begin, and from which losses.

Invariant: each call of the program calls PyTorch's function once, with the same arguments.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from nodescope.adapters.torch.device import runtime as devices
from nodescope.adapters.torch.device.captures import captured
from nodescope.adapters.torch.places import Quiet
from nodescope.emit.emitter import Emitter
from nodescope.emit.state import current
from nodescope.ir.scopes import join

if TYPE_CHECKING:
    from nodescope.adapters.torch.operations import Operations

_FUNCTIONS = ("backward", "grad")


class BackwardPasses:
    """The backward passes of a run."""

    def __init__(self, emitter: Emitter, operations: Operations) -> None:
        self._emitter = emitter
        self._operations = operations

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Follow calls of ``torch.autograd.backward``, which `Tensor.backward` calls, and of
        ``torch.autograd.grad``.
        """
        originals = {name: getattr(torch.autograd, name) for name in _FUNCTIONS}
        for name, original in originals.items():
            setattr(torch.autograd, name, self._following(original))
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(torch.autograd, name, original)

    def _following(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or self._operations.place.quiet:
                return original(*args, **kwargs)
            with self.begun(args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))):
                return original(*args, **kwargs)

        return run

    @contextlib.contextmanager
    def begun(self, roots: Any) -> Iterator[None]:
        """A context for a backward pass from these tensors."""
        operations = self._operations
        place, state = operations.place, current()
        depth, outer, differentiated = place.depth, place.outer, place.differentiated
        recomputed, place.recomputed = place.recomputed, None
        saved = (state.scope, state.phase, state.cursor, state.forward)
        place.backward += 1
        place.depth, place.outer, place.differentiated = len(place.modules), None, ()
        try:
            self._begin(roots)
        except Exception:  # the program's backward pass continues
            pass
        try:
            yield
        finally:
            place.backward -= 1
            place.recomputed = recomputed
            place.depth, place.outer, place.differentiated = depth, outer, differentiated
            state.scope, state.phase, state.cursor, state.forward = saved
            if operations.fast_path is not None:
                operations.fast_path.mark(state)

    def _begin(self, roots: Any) -> None:
        """Report the loss, and enter its scope under ``backward``, where the pass begins."""
        operations, state = self._operations, current()
        root = roots[0] if isinstance(roots, list | tuple) and roots else roots
        if not isinstance(root, torch.Tensor):
            return
        with Quiet(operations.place):
            fast_path = operations.fast_path
            known = operations.values.known if fast_path is None else fast_path.known
            id = 0 if operations.off else known(root)
            if root.numel() == 1:
                self._emitter.backward_begins(id, _number(root.detach()))
        if operations.off:
            return
        operations.place.unclaimed.clear()  # remains of the forward pass
        node = self._emitter.node_of(id) if id else None
        scope = "" if node is None else node.scope
        state.phase, state.cursor = "backward", None
        state.scope = join("backward", scope).rstrip("/")
        state.forward = None if node is None else node.id
        if operations.fast_path is not None:
            operations.fast_path.mark(state)


def _number(loss: Any) -> Any:
    """A loss as a number, captured without waiting if it is on a device."""
    index = devices.index_of(loss)
    runtime = devices.runtime() if index >= 0 else None
    if runtime is None:
        return loss
    number = captured(runtime, index, loss, "values")
    return math.nan if number is None else number
