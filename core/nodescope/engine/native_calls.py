"""Observed calls in the native core: its interface to the engine, and its callbacks into Python.

Invariant: the core does what `Tracer.run_checked` would do, with the same events in the same order,
or hands a call over to that before it has any effect.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, Final, Protocol, cast

import numpy as np

from nodescope import native
from nodescope.emit import state as states
from nodescope.emit.emitter import Emitter
from nodescope.emit.phases import backward_scope
from nodescope.engine.run import cause, explained, plain, several
from nodescope.engine.specs import attributes_of, dtype_name, given
from nodescope.engine.state import State, local
from nodescope.engine.tensor import NO_ATTRS, Attrs, Tensor, Written, next_seq, written_at
from nodescope.events import Bus, NodeFinished
from nodescope.ir.block_demands import OutputsSink, TimesSink
from nodescope.ir.identity import Cursor, Entry, Identity
from nodescope.ops.op import Op

_MOST_READS: Final = 4096
_SLOTTED = (Tensor, State, Cursor, Entry, Bus, Emitter, Identity)


class Checked(Protocol):
    """The part of a tracer that the core needs."""

    emitter: Emitter
    bus: Bus
    base: int
    outputs: OutputsSink | None
    reads: dict[Any, Any]
    used: list[Any]

    def times(self) -> TimesSink | None:
        """See `Tracer.times`."""

    def read_leaf(self, tensor: Tensor, port: int) -> Any:
        """See `Tracer.read_leaf`."""

    def run_checked(self, op: Op, inputs: tuple[Any, ...], attrs: Attrs) -> Tensor:
        """See `Tracer.run_checked`."""

    def failed(
        self, entry: Entry, live: tuple[Any, ...], step: int, state: State, start: int,
        error: Exception,
    ) -> None:  # fmt: skip
        """See `Tracer.failed`."""

    def take_edits(self, tensors: Iterable[Any], state: State) -> None:
        """See `Tracer.take_edits`."""

    def pair(self, tensor: Tensor, gradient: Tensor) -> None:
        """See `Tracer.pair`."""

    def moved(self, tensor: Tensor, before: Any) -> None:
        """See `Tracer.moved`."""


def native_calls(tracer: Checked) -> Any:
    """The native core's part of `Tracer.run`; None without a core, or if it cannot read the
    engine's objects.
    """
    if native.Calls is None:
        return None
    identity = tracer.emitter.identity
    objects = (
        Tensor, Written, np.ndarray, local, _Callbacks(tracer), tracer.emitter, tracer.bus,
        cast("Any", next_seq).__self__, NO_ATTRS, np.asarray, NodeFinished,
        tracer.reads, tracer.used, identity, identity.by_value, tracer.emitter.pairs,
        backward_scope, written_at, plain,
    )  # fmt: skip
    try:
        return native.Calls(objects, tuple(map(object.__new__, _SLOTTED)), tracer.base)
    except TypeError:
        return None


def native_update(tracer: Any) -> Any:
    """The function of the native core that updates parameters as an optimizer does.

    None without a core, where no steps are marked, and if moves between scopes are followed.
    """
    calls = getattr(tracer.run, "__self__", None)
    follows = states.moved is not None or not tracer.emitter.marked
    return None if follows else getattr(calls, "update", None)


def note_read(
    reads: dict[Any, Any], tensor: Tensor, state: State, cursor: Cursor, slot: list[Any],
    entry: Entry, key: str,
) -> None:  # fmt: skip
    """Note how a leaf was read in a step, so that the core can read it in the next one.

    Args:
        reads: The latest read of each parameter that still exists, by ``id``, and the keys of other
            leaves, by kind and name.
        tensor: The leaf.
        state: State of the thread that read it.
        cursor: The cursor of its scope; reads in loops are not noted.
        slot: The slot of its name in the cursor.
        entry: The entry of its node.
        key: The name of that slot.
    """
    if cursor.loop or entry.loop:
        return
    if entry.node.role != "parameter":
        if len(reads) < _MOST_READS:  # the program may name a tensor differently in each step
            reads[getattr(tensor, "_kind", "tensor"), getattr(tensor, "_name", "")] = key
        return
    number = id(tensor)

    def forget(reference: object) -> None:
        if reads.get(number, (None,))[0] is reference:
            del reads[number]

    reference = weakref.ref(tensor, forget)
    place = (cursor.scope, cursor.phase, 0)
    name = getattr(tensor, "_name", None)
    reads[number] = (reference, name, state, place, cursor, slot, entry, (reference, entry))


class _Callbacks:
    """The functions that the core calls, by these names."""

    def __init__(self, tracer: Checked) -> None:
        self._tracer = tracer
        self.cursor = tracer.emitter.cursor
        self.read_leaf = tracer.read_leaf
        self.run_checked = tracer.run_checked
        self.reshape = tracer.emitter.reshape
        self.pair = tracer.pair
        self.moved = tracer.moved
        self.dtype_name = dtype_name
        self.several = several

    @staticmethod
    def own_attributes(
        op: Op, inputs: tuple[Any, ...], attrs: Attrs, entry: Entry
    ) -> dict[str, Any] | None:
        """The attributes of an execution; None if they are those of its node."""
        same = entry.given == given(inputs, attrs)
        return None if same else attributes_of(op, inputs, attrs)

    def times(self) -> TimesSink | OutputsSink | None:
        """The function that takes executions in place of events."""
        times = self._tracer.times()
        return self._tracer.outputs if times is None else times

    def refused(
        self, op: Op, inputs: tuple[Any, ...], attrs: Attrs, entry: Entry, live: tuple[Any, ...],
        step: int, state: State, start: int, error: Exception,
    ) -> None:  # fmt: skip
        """Emit that a node raised, and raise the explained error."""
        message = explained(op, inputs, attrs, error)
        self._tracer.failed(entry, live, step, state, start, message)
        raise message from cause(error)

    def take_edits_of(
        self, result: Tensor | tuple[Tensor, ...], inputs: tuple[Any, ...], state: State
    ) -> None:
        """Apply edits made while the thread was stopped after an op."""
        results = result if isinstance(result, tuple) else (result,)
        self._tracer.take_edits((*results, *inputs), state)
