"""Hooks: functions that see, and may replace, the gradient of a tensor in the backward pass.

A computed tensor with hooks gets one more link on the tape, between itself and its history, so that
tensors without hooks cost nothing. A leaf keeps its hooks in a slot; they run when its gradient is
complete.

Invariant: a hook sees the whole gradient of its tensor, once per backward pass, in the order of
registration.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine import dispatch_mode
from nodescope.engine.source import defined, where
from nodescope.engine.tensor import FREED, LEAF, Tensor, alias, make, operand
from nodescope.errors import GradientError, ShapeError
from nodescope.ops.op import Op

Hook = Callable[[Tensor], Any]

_numbers = itertools.count()


class Hooks:
    """The hooks of one tensor.

    Attributes:
        functions: The hook functions by increasing number.
        retains: Whether the gradient is kept as ``.grad``.
    """

    __slots__ = ("functions", "retains")

    def __init__(self) -> None:
        self.functions: dict[int, Hook] = {}
        self.retains = False

    def run(self, F: Any, tensor: Tensor, ct: Any) -> Any:
        """A cotangent of ``tensor`` after all hooks have seen it."""
        raw = F is ops.RAW
        turned = tensor.data.dtype.kind == "c"
        gradient = F.conjugate(ct) if turned else ct
        if raw:
            gradient = make(np.asarray(gradient))
        with dispatch_mode.recording(False) if raw else contextlib.nullcontext():
            for function in tuple(self.functions.values()):
                answer = function(gradient)
                if answer is not None:
                    gradient = _replacement(tensor, function, answer)
            if self.retains:
                from nodescope.engine.autodiff.tape import separate

                before = tensor.grad
                tensor.grad = (
                    separate(gradient, {id(gradient): gradient})
                    if before is None
                    else before + gradient
                )
        new_gradient = gradient.data if raw else gradient
        return F.conjugate(new_gradient) if turned else new_gradient


def _replacement(tensor: Tensor, function: Hook, answer: Any) -> Tensor:
    gradient = operand(answer)
    if gradient is None:
        raise GradientError(
            f"a hook must return a gradient or None, not {type(answer).__name__}",
            source=defined(function),
        )
    if gradient.__class__ is not Tensor:
        gradient = make(np.asarray(gradient, tensor.dtype))
    if gradient.shape != tensor.shape:
        raise ShapeError(
            f"a hook returned a gradient of shape {gradient.shape} for a tensor of {tensor.shape}",
            source=defined(function),
            hint="return the gradient in the tensor's own shape",
        )
    return gradient if gradient.dtype == tensor.dtype else gradient.astype(tensor.dtype)


def _unfold(F: Any, tensor: Tensor, ct: Any, hooks: Hooks) -> list[tuple[Tensor, Any]]:
    assert tensor.edge is not None
    return [(tensor.edge[2][0], hooks.run(F, tensor, ct))]


HOOKED = Op(
    name="hooked",
    family="layout",
    infer=lambda specs, attrs: specs[0],  # type: ignore[arg-type, return-value]
    impl=lambda x, **_: x,
)
"""A tensor with hooks, from the same tensor without. Not a node. It has no rule: see
`tape.UNFOLD`.
"""


def hooks_of(tensor: Tensor) -> Hooks | None:
    """The hooks of a tensor, or None."""
    edge = tensor.edge
    if edge is not None and edge[1] is HOOKED:
        return edge[3]["hooks"]  # type: ignore[no-any-return]
    return getattr(tensor, "_hooks", None)


def _made(tensor: Tensor, method: str) -> Hooks:
    known = hooks_of(tensor)
    if known is not None:
        return known
    edge = tensor.edge
    if edge is None or edge is FREED:
        raise GradientError(
            f"{method}: no gradient flows to this tensor",
            source=where(),
            hint="register before backward, on a tensor computed from a parameter",
        )
    hooks = Hooks()
    if edge is LEAF:
        tensor._hooks = hooks
    else:
        # Older than any user of the tensor, newer than everything behind it.
        inner = alias(tensor, (edge[0] - 0.5, *edge[1:]))  # type: ignore[arg-type]
        attrs = {"hooks": hooks, "unfold": lambda F, tensor, ct: _unfold(F, tensor, ct, hooks)}
        tensor.edge = (edge[0], HOOKED, (inner,), attrs)
    return hooks


class HookHandle:
    """Removes a hook, with `remove` or at the end of a ``with`` block."""

    __slots__ = ("_hooks", "_number")

    def __init__(self, hooks: Hooks, number: int) -> None:
        self._hooks = hooks
        self._number = number

    def remove(self) -> None:
        """Remove the hook. A second call has no effect."""
        self._hooks.functions.pop(self._number, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register_hook(tensor: Tensor, function: Hook) -> HookHandle:
    """`Tensor.register_hook`."""
    if not callable(function):
        raise GradientError(
            f"register_hook: a {type(function).__name__} is not callable", source=where()
        )
    hooks = _made(tensor, "register_hook")
    number = next(_numbers)
    hooks.functions[number] = function
    return HookHandle(hooks, number)


def retain_grad(tensor: Tensor) -> None:
    """`Tensor.retain_grad`."""
    if tensor.edge is not LEAF:
        _made(tensor, "retain_grad").retains = True
