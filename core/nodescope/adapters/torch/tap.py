"""Tap: the dispatch mode through which each ATen operation of a thread goes.

Invariant: it calls every operation once, with the program's arguments, and returns what that
returned.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import torch

from nodescope.adapters.torch.compat import (
    FakeTensor,
    TorchDispatchMode,
    compiling_callback,
    never_compiled,
    not_compiled,
)

if TYPE_CHECKING:
    from nodescope.adapters.torch.operations import Operations

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_WITHOUT_SHAPES = (FakeTensor, torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer)


class Tap(TorchDispatchMode):  # type: ignore[misc]
    """Passes operations to `Operations.run`."""

    # Without this, operators that take functions (cond, flex_attention) raise.
    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """True: torch.compile compiles as it would without the mode."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: PyTorch's own way to keep Dynamo out costs as much as the operation."""
        return False

    def __init__(self, operations: Operations) -> None:
        super().__init__()
        self._operations = operations

    @never_compiled
    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run one operation."""
        operations = self._operations
        if operations.off or operations.place.quiet or not isinstance(func, torch._ops.OpOverload):
            return func(*args, **(kwargs or {}))
        for kind in types:
            if kind not in _PLAIN and issubclass(kind, _WITHOUT_SHAPES):
                return func(*args, **(kwargs or {}))
        # Threads of autograd have no other frame. One that refers to itself would keep its tensors.
        caller = sys._getframe().f_back
        instruction = _ALONE if caller is None else (caller.f_code, caller.f_lasti)
        if compiling_callback() is not None:
            return _run_apart(operations, func, args, kwargs or {}, instruction)
        return operations.run(func, args, kwargs or {}, instruction)


@not_compiled
def _run_apart(operations: Operations, *call: Any) -> Any:
    return operations.run(*call)


_ALONE: Final = (Tap.__torch_dispatch__.__code__, 0)
