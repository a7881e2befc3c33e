"""Drawing: the nodes of an exported graph, before anything of it has run.

The graph is interpreted on fake tensors, which have shapes and no elements. Its operators become
nodes by the code that observes eager ones (`operations`), so the run that follows executes just
these nodes. Sizes that are symbols are unknown.

Invariant: nothing is computed, and no memory for elements is taken.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch

from nodescope.adapters.torch.compat import TorchDispatchMode, constant_of
from nodescope.adapters.torch.operations import Operations
from nodescope.emit.emitter import Emitter, Pending
from nodescope.events import Bus
from nodescope.ir.graph import TensorSpec

# Above the numbers of the storages of a run.
_STORAGES: Final = 1 << 40


class Drawn:
    """Stands in for a run's emitter: nodes are defined there, and do not run.

    Attributes:
        count: How many operators there are.
    """

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self.bus = Bus()
        self.between_steps = False
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._emitter, name)

    def enter(
        self, op: str, role: str, inputs: tuple[int, ...], specs: Any, attrs: Mapping[str, Any],
        writes: tuple[tuple[int, int], ...] = (), *, arrays: Any = (), inside: bool = False,
        storages: tuple[int, ...] = (), **more: Any,
    ) -> Pending:  # fmt: skip
        """As `Emitter.enter`."""
        if role == "op":
            self.count += 1
        return self._emitter.define(
            op, role, inputs, tuple(map(_known, specs)), attrs, writes,
            storages=tuple(number + _STORAGES if number else 0 for number in storages), **more,
        )  # fmt: skip

    def finish(self, pending: Pending, outputs: Any, *times: int, **more: Any) -> dict[int, Any]:
        """As `Emitter.finish`."""
        return {}

    def fail(self, pending: Pending, error: BaseException) -> None:
        """As `Emitter.fail`."""

    def gradient(self, value: int, gradient: int, array: Any) -> dict[int, Any]:
        """As `Emitter.gradient`, to which the run tells it."""
        return {}

    def backward_begins(self, loss: int, number: Any) -> None:
        """As `Emitter.backward_begins`."""


def _known(spec: Any) -> Any:
    """A spec without symbols."""
    if not isinstance(spec, TensorSpec):
        return spec
    return TensorSpec(tuple(map(_size, spec.shape)), spec.dtype, spec.device)


def _size(size: Any) -> int | None:
    if isinstance(size, torch.SymInt):
        known = constant_of(size)
        return None if known is None else int(known)
    return size  # type: ignore[no-any-return]


class DrawingTap(TorchDispatchMode):  # type: ignore[misc]
    """Passes operators on fake tensors to `Operations`."""

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """True, as of `Tap`."""
        return True

    def __init__(self, operations: Operations) -> None:
        super().__init__()
        self._operations = operations

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Note one operator."""
        if self._operations.place.quiet or not isinstance(func, torch._ops.OpOverload):
            return func(*args, **(kwargs or {}))
        caller = sys._getframe(1)
        # Each call is its own: the interpreter makes all from one line.
        return self._operations.run(func, args, kwargs or {}, (caller.f_code, -1))


@contextlib.contextmanager
def drawing(drawn: Drawn, mode: Any) -> Iterator[Operations]:
    """Define the operators on fake tensors within as nodes.

    Args:
        drawn: Where they are defined.
        mode: The mode of the fake tensors.
    """
    faults: list[str] = []
    operations = Operations(drawn, faults.append)  # type: ignore[arg-type]
    operations.off = False
    operations.gradients.off = True
    with mode, DrawingTap(operations):
        yield operations
