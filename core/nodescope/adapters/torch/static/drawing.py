"""Drawing: defines the nodes of an exported graph before any of it has run.

The graph is interpreted on fake tensors, which have shapes but no elements. The code that observes
eager operators (`operations`) turns its operators into nodes, so a later run executes exactly these
nodes. Symbolic sizes are unknown.

Invariant: nothing is computed, and no memory for elements is allocated.
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

# Larger than the number of any storage of a run.
_STORAGES: Final = 1 << 40


class Drawn:
    """Stands in for a run's emitter: defines nodes there that do not run.

    Attributes:
        count: The number of operators.
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
        """Define a node, with the arguments of `Emitter.enter`."""
        if role == "op":
            self.count += 1
        return self._emitter.define(
            op, role, inputs, tuple(map(_known, specs)), attrs, writes,
            storages=tuple(number + _STORAGES if number else 0 for number in storages), **more,
        )  # fmt: skip

    def finish(self, pending: Pending, outputs: Any, *times: int, **more: Any) -> dict[int, Any]:
        """Do nothing in place of `Emitter.finish`."""
        return {}

    def fail(self, pending: Pending, error: BaseException) -> None:
        """Do nothing in place of `Emitter.fail`."""

    def gradient(self, value: int, gradient: int, array: Any) -> dict[int, Any]:
        """Do nothing in place of `Emitter.gradient`, which the run calls."""
        return {}

    def backward_begins(self, loss: int, number: Any) -> None:
        """Do nothing in place of `Emitter.backward_begins`."""


def _known(spec: Any) -> Any:
    """The spec with None for symbolic sizes that are not constant."""
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
        """True, as for `Tap`."""
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
        # The interpreter makes all calls from one line, so the line identifies none.
        return self._operations.run(func, args, kwargs or {}, (caller.f_code, -1))


@contextlib.contextmanager
def drawing(drawn: Drawn, mode: Any) -> Iterator[Operations]:
    """A context that defines operators on fake tensors as nodes.

    Args:
        drawn: Defines the nodes.
        mode: The mode of the fake tensors.
    """
    faults: list[str] = []
    operations = Operations(drawn, faults.append)  # type: ignore[arg-type]
    operations.off = False
    operations.gradients.off = True
    with mode, DrawingTap(operations):
        yield operations
