"""Gradients: pairs each value with the value that is its gradient.

A hook on a tensor receives its complete gradient. A hook is set where the pair is not known yet, or
where a probe wants every gradient. Parameters have another kind of hook, which runs after their
gradient was accumulated.

Invariant: a hook returns None, so the gradients are those of the unobserved program.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from nodescope.adapters.torch.places import FastPath, Place, Quiet
from nodescope.adapters.torch.storages import geometry_of
from nodescope.adapters.torch.values import Values, builtin_id
from nodescope.emit.emitter import Emitter
from nodescope.emit.state import current


def _requires_by_its_base(tensor: Any) -> bool:
    """Whether a tensor is a view without a gradient function of a tensor that requires a gradient.

    Without gradients, a view of a parameter says that it requires a gradient, but gets none.
    """
    return tensor._is_view() and tensor.grad_fn is None and tensor._base.requires_grad


class Gradients:
    """The gradients of a run."""

    def __init__(self, emitter: Emitter, values: Values, place: Place) -> None:
        self._emitter = emitter
        self._values = values
        self._place = place
        self._hooked: set[int] = set()
        self._paired: set[int] = set()
        self._leaves: dict[int, weakref.ref[Any]] = {}  # by identity: tensors compare by element
        self._handles: list[Any] = []
        self.off = False
        self.fast_path: FastPath | None = None

    def begin_step(self) -> None:
        """Forget which tensors have hooks: the tensors of this step are new."""
        self._hooked.clear()

    def follow(self, tensors: Sequence[Any], ids: Sequence[int]) -> None:
        """Set hooks for the gradients of an operation's operands."""
        always = self._emitter.bus.demand.gradients
        for tensor, id in zip(tensors, ids, strict=True):
            if id in self._hooked or not tensor.requires_grad:
                continue
            if not always and id in self._paired:
                continue
            if not torch.is_grad_enabled() and _requires_by_its_base(tensor):
                continue
            self._hooked.add(id)
            try:
                if tensor.grad_fn is not None:
                    self._note(tensor, id)
                    tensor.register_hook(self._hook(id))
                elif tensor.is_leaf and not self._is_followed(tensor):
                    self._note(tensor, id)
                    self._leaves[builtin_id(tensor)] = weakref.ref(tensor)
                    self._handles.append(
                        tensor.register_post_accumulate_grad_hook(self._accumulated)
                    )
            except RuntimeError:  # the tensor does not accept hooks
                continue

    def detach(self) -> None:
        """Remove the hooks of parameters."""
        self.off = True
        for handle in self._handles:
            handle.remove()

    def _is_followed(self, tensor: Any) -> bool:
        known = self._leaves.get(builtin_id(tensor))
        return known is not None and known() is tensor

    def _note(self, tensor: Any, id: int) -> None:
        """Record the hook in the step's journal, so that steps that repeat this one set it, too."""
        journal = self._values.journal
        # A recomputed value gets no gradient; any other value may get one later.
        if journal is None or current().phase == "recompute":
            return
        memory = self._values.storages.memory(tensor)
        if memory is None:
            journal.spoil()
        else:
            journal.hooked(memory.serial, geometry_of(tensor), id)

    def _hook(self, id: int) -> Callable[[Any], None]:
        def arrived(gradient: Any) -> None:
            if self.off or self._place.quiet:
                return
            if self.fast_path is not None:
                self.fast_path.lose()
            if self._values.journal is not None:
                self._values.journal.spoil()
            self._pair(id, gradient)

        return arrived

    def _accumulated(self, parameter: Any) -> None:
        fast_path = self.fast_path
        if fast_path is not None and fast_path.accumulated(parameter, self._emitter.pairs):
            return
        gradient = parameter.grad
        if self.off or gradient is None:
            return
        if fast_path is not None and fast_path.arrived(parameter, gradient):
            return
        journal = self._values.journal
        item = journal.begin() if journal is not None else None
        with Quiet(self._place):
            id = self._values.known(parameter)
        if id:
            paired = self._pair(id, gradient)
            if item is not None:
                item.pair = (id, paired)
        if journal is not None:
            journal.end()

    def _pair(self, id: int, gradient: Any) -> int:
        """Pair a value with its gradient; return the gradient's value id, or 0."""
        gradient_id = 0
        if self.off or self._place.quiet:
            return 0
        try:
            with Quiet(self._place):
                gradient_id = self._values.id_of(gradient)
                self._paired.add(id)
                edits = self._emitter.gradient(id, gradient_id, gradient)
                if edits:
                    self._values.take(edits, (gradient,), (gradient_id,))
        except Exception:  # the program's backward pass continues
            return 0
        return gradient_id
