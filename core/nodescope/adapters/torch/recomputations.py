"""Recomputations: the phase ``recompute``, in which a checkpoint computes its forward pass again.

Its scope is the checkpoint's scope in the forward pass. Code that recomputes without
`torch.utils.checkpoint` is recognised by the modules that it calls; see `module_scopes`.

Invariant: each call of the program calls PyTorch's function once, with the same arguments.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import torch

from nodescope.adapters.torch.compat import (
    CheckpointedRegion,
    CheckpointFunction,
    RecomputationHook,
)
from nodescope.adapters.torch.places import Recomputed
from nodescope.emit.emitter import Emitter
from nodescope.emit.state import current

if TYPE_CHECKING:
    from nodescope.adapters.torch.operations import Operations

_WHERE: Final = "_nodescope_where"


class Recomputations:
    """The recomputations of a run."""

    def __init__(self, emitter: Emitter, operations: Operations) -> None:
        self._emitter = emitter
        self._operations = operations

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Follow the checkpoints of `torch.utils.checkpoint`, of both kinds."""
        changed = {
            (CheckpointedRegion, "__init__"): self._noting(CheckpointedRegion.__init__),
            (RecomputationHook, "__init__"): self._watched(RecomputationHook.__init__),
            (RecomputationHook, "__enter__"): self._entering(RecomputationHook.__enter__),
            (RecomputationHook, "__exit__"): self._leaving(RecomputationHook.__exit__),
            (CheckpointFunction, "forward"): staticmethod(self._noting(CheckpointFunction.forward)),
            (CheckpointFunction, "backward"): staticmethod(
                self._around(CheckpointFunction.backward)
            ),
        }
        originals = {(kind, name): kind.__dict__.get(name) for kind, name in changed}
        for (kind, name), function in changed.items():
            setattr(kind, name, function)
        try:
            yield
        finally:
            for (kind, name), original in originals.items():
                if original is None:  # inherited
                    delattr(kind, name)
                else:
                    setattr(kind, name, original)

    def _noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Store the checkpoint's scope and module as an attribute of the first argument."""

        @functools.wraps(original)
        def run(held: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._is_away():
                modules = self._operations.place.modules
                path = modules[-1][1] if modules else ""
                setattr(held, _WHERE, Recomputed(current().scope, path))
            return original(held, *args, **kwargs)

        return run

    def _watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(hook: Any, region: Any, *args: Any) -> None:
            original(hook, region, *args)
            setattr(hook, _WHERE, getattr(region(), _WHERE, None))

        return run

    def _entering(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(hook: Any) -> Any:
            result = original(hook)
            context = self.within(getattr(hook, _WHERE, None))
            context.__enter__()
            hook._nodescope_context = context
            return result

        return run

    def _leaving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(hook: Any, *raised: Any) -> Any:
            context = hook.__dict__.pop("_nodescope_context", None)
            if context is not None:
                context.__exit__(None, None, None)
            return original(hook, *raised)

        return run

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(context: Any, *args: Any) -> Any:
            with self.within(getattr(context, _WHERE, None)):
                return original(context, *args)

        return run

    def _is_away(self) -> bool:
        operations = self._operations
        return operations.off or bool(operations.place.quiet) or torch.compiler.is_compiling()

    @contextlib.contextmanager
    def within(self, where: Recomputed | None) -> Iterator[None]:
        """A context for a checkpoint's recomputation, not for the backward pass through it."""
        if where is None or self._is_away():
            yield
            return
        operations = self._operations
        place, before = operations.place, operations.place.recomputed
        if place.outer is not None:
            operations.restore(place, current())
        # With an empty path, the phase would keep the scope of the backward pass.
        with self._emitter.phase("recompute", path=where.scope or "recompute"):
            place.recomputed = where
            try:
                yield
            finally:
                place.recomputed = before
                if place.outer is not None:
                    operations.restore(place, current())
