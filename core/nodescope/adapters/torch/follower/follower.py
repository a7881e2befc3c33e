"""Follower: compares the operators of a step with those of an earlier one, for the Python tap.

It has the interface of the C++ observer that `StepFastPath` uses. While each operator matches the
script's next item, with the same operands, only its start, end and statistics are recorded. At the
first operator that differs, following ends: `Operations` observes the rest of the step.

Invariant: no tensor and no storage is kept alive.
"""

from __future__ import annotations

import threading
import time
from array import array as array_of
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from nodescope.adapters.torch.compat import autograd_node, sequence_number, sequence_of
from nodescope.adapters.torch.compat import storage_address as address_of
from nodescope.adapters.torch.follower.rows import Rows
from nodescope.adapters.torch.follower.script import (
    PLAIN,
    Fact,
    Item,
    Script,
    Several,
    is_comparable,
    varies,
)
from nodescope.adapters.torch.follower.step_recording import (
    ACCUMULATES,
    FAST,
    RECORDING,
    SLOW,
    StepRecording,
)
from nodescope.adapters.torch.places import Place

FLUSHED_NS: Final = 100_000_000
"""Nanoseconds after which the next operator has `Follower.take` called, so that a page that shows
the run stays up to date."""

_LEAST_SWEPT: Final = 256
_Tensor, _Parameter = PLAIN
_thread = threading.get_ident
_now = time.perf_counter_ns

Drawing = Callable[[Any, Sequence[Any], dict[str, Any]], bytes]
"""Reads the state of the generator that an operator, with its arguments, is about to draw from."""


def _nothing() -> None:
    return None


class Follower(StepRecording):
    """See the module's docstring.

    Args:
        place: The thread-local `Place`.
        drawing: Reads the state of a generator.

    Attributes:
        flushed_ns: The time of the last call of `take`.
        is_full: Whether the memory for copies has too little room for the next operator.
        waits: Sets hooks for the gradients of operands, given the operands and their value ids.
    """

    def __init__(self, place: Place, drawing: Drawing) -> None:
        super().__init__(place)
        self._drawing = drawing
        self.flushed_ns = 0
        self.is_full = self._interrupted = False
        self._script: Script | None = None
        self._items: list[Item] = []
        self._position = self._taken = self._cycle = 0
        self._bound: list[Callable[[], Any]] = []
        self._versions: list[int] = []
        self._checked: dict[int, int] = {}
        self._made: list[int] = []
        self._older: list[int] = []
        self._most_older = _LEAST_SWEPT
        self._notes = array_of("q")
        self._varied: list[tuple[int, list[tuple[int, Any]]]] = []
        self._varies: list[tuple[int, Any]] | None = None
        self._drawn: list[tuple[int, bytes]] = []
        self._states_left = 0
        self._rows = Rows()
        self.waits: Callable[[Sequence[Any], Sequence[int]], None] = lambda *_: None

    def follow(
        self, script: Script, with_statistics: bool, states: int,
        checked: Sequence[tuple[int, int]],
    ) -> None:  # fmt: skip
        """Follow a script.

        Args:
            script: The script.
            with_statistics: Whether statistics are computed.
            states: The most bytes of generator states that may be recorded.
            checked: Pairs of a slot and the version counter that its tensor must have.
        """
        with self._lock:
            self._leave()
            slots = len(script.slots)
            if script is not self._script:
                self._script, self._items = script, script.items
                self._notes = array_of("q", bytes(16 * len(script.items)))
                self._versions = [-1] * slots
            self._bound = [_nothing] * slots
            self._checked = dict(checked)
            self._states_left = states
            self._rows.begin(script, on=with_statistics)
            self._position = self._taken = 0
            self._varied, self._drawn = [], []
            self._varies = None
            self.is_full = self._interrupted = False
            self._cycle += 1
            self.thread = _thread()
            self.flushed_ns = _now()
            self.mode = FAST

    def _leave(self) -> None:
        """Stop following; storages that the step made stay known until they are freed."""
        super()._leave()
        for address in self._made:
            known = self._by_address.get(address)
            if known is not None and known.cycle == self._cycle:
                known.version = self._versions[known.slot]
        self._older += self._sweep(self._made)
        self._made = []
        if len(self._older) > self._most_older:
            self._older = self._sweep(self._older)
            self._most_older = 2 * len(self._older) + _LEAST_SWEPT

    def begin(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any] | None:
        """Check whether an operator is the script's next one.

        Returns:
            The tensors among the arguments if it is; `end` has to be called with them. Else None.
        """
        position, items = self._position, self._items
        if position >= len(items):
            return None
        item, where = items[position], self._where
        if (
            item.function is not function
            or item.place != where.mark
            or where.quiet
            or self._interrupted
            or self.thread != _thread()
        ):
            return None
        number = sequence_number()
        if not position:
            self._base = number
        if number - self._base != item.before:
            return None
        node = autograd_node()
        if node is None:
            if item.node is not None:
                return None
        else:
            number = sequence_of(node)
            number = ACCUMULATES if number >= ACCUMULATES else number - self._base
            if number != item.node:
                return None
        given = args
        if kwargs:
            if tuple(kwargs) != item.names:
                return None
            given = (*args, *kwargs.values())
        elif item.names:
            return None
        expected = item.given
        if len(given) != len(expected):
            return None
        tensors: list[Any] = []
        varied = False
        bound = self._bound
        for known, value in zip(expected, given):  # noqa: B905 (of equal length)
            if known is value:
                continue
            kind = value.__class__
            if known.__class__ is Fact:
                if kind is not _Tensor and kind is not _Parameter:
                    return None
                try:
                    storage = value.untyped_storage()
                except RuntimeError:  # a sparse tensor has no storage
                    return None
                if (
                    bound[known.slot]() is not storage
                    and not self._binds(known.slot, storage, value)
                ) or (
                    value.shape != known.shape
                    or value.stride() != known.strides
                    or value.storage_offset() != known.offset
                    or value.dtype is not known.dtype
                    or value.requires_grad is not known.differentiable
                ):
                    return None
                tensors.append(value)
            elif known.__class__ is Several:
                if not self._matches(known, value, tensors):
                    return None
            else:
                if kind is known.__class__ and kind is not float and known == value:
                    continue
                other = varies(known, value)
                if other is None:
                    return None
                varied = varied or other
        if varied:
            if not item.reported or item.seeded:
                return None
            self._note_varied(item, len(args), given)
        rows = self._rows
        if rows.room is not None and item.nbytes > rows.size - rows.used:
            self._varies = None
            return None
        rows.filled = rows.used
        for nth, leaf in enumerate(item.leaves) if item.leaves else ():
            tensor, fact = tensors[leaf], item.inputs[leaf]
            self._versions[fact.slot] = tensor._version
            if rows.on and not rows.fill(tensor, fact, item.statistics + nth, items):
                self._varies = None
                return None
        if item.draws and rows.on and self._states_left > 0:
            state = self._drawing(function, args, kwargs)
            if state:
                self._drawn.append((position, state))
                self._states_left -= len(state)
        if item.hooked:
            self.waits([tensors[nth] for nth, _ in item.hooked], [id for _, id in item.hooked])
        return tensors

    def end(self, tensors: Sequence[Any], result: Any, start: int, end: int) -> bool:
        """Check whether an operator's result matches the script, and record the operator if so.

        Args:
            tensors: The tensors that `begin` returned.
            result: The result.
            start, end: When the operator began and ended, by `time.perf_counter_ns`.
        """
        varied, self._varies = self._varies, None
        position, items, cycle = self._position, self._items, self._cycle
        if self.mode != FAST or self.thread != _thread():  # another thread has begun a step
            return False
        item = items[position]
        if item.reported:
            if sequence_number() - self._base != item.after:
                return False
            outputs: list[Any] = []
            known = item.returned
            if known.__class__ is Fact and result.__class__ is _Tensor:
                # Inlined `_matches`, as in `begin`: both run at every operation.
                try:
                    storage = result.untyped_storage()
                except RuntimeError:
                    return False
                if (
                    self._bound[known.slot]() is not storage
                    and not self._binds(known.slot, storage, result)
                ) or (
                    result.shape != known.shape
                    or result.stride() != known.strides
                    or result.storage_offset() != known.offset
                    or result.dtype is not known.dtype
                    or result.requires_grad is not known.differentiable
                ):
                    return False
                outputs.append(result)
            elif not self._matches(known, result, outputs):
                return False
            rows, versions, place = self._rows, self._versions, item.statistics + len(item.leaves)
            for nth in item.results:
                if nth is None:
                    if rows.on and not rows.fill_number(result, place, items):
                        return False
                else:
                    if nth >= 0:
                        tensor, fact = outputs[nth], item.outputs[nth]
                    else:
                        tensor, fact = tensors[-1 - nth], item.inputs[-1 - nth]
                    if rows.on and not rows.fill(tensor, fact, place, items):
                        return False
                    versions[fact.slot] = tensor._version
                place += 1
        with self._lock:  # another thread may have ended the following meanwhile
            if self.mode != FAST or cycle != self._cycle or position != self._position:
                return False
            notes, at = self._notes, 2 * position
            notes[at] = start
            notes[at + 1] = end
            if varied is not None:
                self._varied.append((position, varied))
            self._position = position + 1
            if self._rows.room is not None:
                self._rows.used = self._rows.filled
                self.is_full = self._next_bytes() > self._rows.size - self._rows.used
        return True

    def _next_bytes(self) -> int:
        for item in self._items[self._position :]:
            if item.function is not None:
                return item.nbytes
        return 0

    def _matches(self, known: Any, value: Any, tensors: list[Any]) -> bool:
        """Whether the tensors among arguments or results match the script; collects them."""
        if known.__class__ is Fact:
            kind = value.__class__
            if kind is not _Tensor and kind is not _Parameter:
                return False
            try:
                storage = value.untyped_storage()
            except RuntimeError:
                return False
            if self._bound[known.slot]() is not storage and not self._binds(
                known.slot, storage, value
            ):
                return False
            if (
                value.shape != known.shape
                or value.stride() != known.strides
                or value.storage_offset() != known.offset
                or value.dtype is not known.dtype
                or value.requires_grad is not known.differentiable
            ):
                return False
            tensors.append(value)
            return True
        if known.__class__ is Several:
            return (
                value.__class__ in (list, tuple)
                and len(value) == len(known)
                and False
                not in [self._matches(*pair, tensors) for pair in zip(known, value, strict=True)]
            )
        return not isinstance(value, torch.Tensor)

    def _binds(self, slot: int, storage: Any, tensor: Any) -> bool:
        """Bind a storage to a slot in this step, if possible; return whether it was bound.

        The slot must be unbound. If the script's storage was older than its step, it must be the
        same storage; otherwise the storage must be new.
        """
        if self._bound[slot] is not _nothing or self._script is None:
            return False
        address = address_of(storage)
        known = self._by_address.get(address)
        if known is not None and known.reference() is not storage:
            known = None
        number = self._script.slots[slot]
        if number:
            if known is None or known.number != number:
                return False
        elif known is not None:
            return False
        if not is_comparable(tensor):
            return False
        checked = self._checked.get(slot)
        if checked is not None and checked != tensor._version:
            return False
        if known is None:
            known = self._add(address, storage)
            self._made.append(address)
        known.slot, known.cycle = slot, self._cycle
        self._bound[slot] = known.reference
        return True

    def _note_varied(self, item: Item, positional: int, given: Sequence[Any]) -> None:
        """Record the non-tensor arguments of an operator whose numbers differ from the script's."""
        names = [argument.name for argument in item.function._schema.arguments]
        places = [*range(positional), *(names.index(name) for name in item.names)]
        self._varies = [
            (place, value)
            for place, known, value in zip(places, item.given, given, strict=True)
            if known.__class__ is not Fact and known.__class__ is not Several
        ]

    def arrived(self, parameter: Any, gradient: Any) -> bool:
        """Whether the arrival of a parameter's gradient is the script's next item.

        During recording, the arrival is recorded instead.
        """
        if self.mode == SLOW or self.thread != _thread():
            return False
        if self.mode == RECORDING:
            self._arrival(parameter, gradient)
            return False
        position = self._position
        if position >= len(self._items) or self._interrupted:
            return False
        item = self._items[position]
        if item.function is not None or item.place != self._where.mark:
            return False
        tensors: list[Any] = []
        for known, tensor in zip(item.inputs, (parameter, gradient), strict=True):
            if not self._matches(known, tensor, tensors):
                return False
        with self._lock:
            if self.mode != FAST:
                return False
            self._position = position + 1
        return True

    # Called by `StepFastPath`

    def hold(self, memory: Any) -> None:
        """Set the memory for copies of elements; None to make no copies."""
        with self._lock:
            self._rows.hold(memory)
            self.is_full = False

    def full(self) -> bool:
        """Whether the memory for copies has too little room for the next operator."""
        return self.is_full

    def progress(self) -> int:
        """A number that changes when an operator is followed."""
        return self._position

    def position(self) -> int:
        """The number of the script's items that were followed."""
        return self._position

    def stop(self) -> tuple[int, int]:
        """Stop following; return the number of followed items, and the first sequence number."""
        with self._lock:
            self._leave()
            return self._position, self._base

    def forked(self) -> None:
        """Stop following in a forked child, where no thread may be left to release the lock."""
        self.mode, self._lock = SLOW, threading.RLock()

    def interrupt(self) -> None:
        """Have following end at the next operator."""
        self._interrupted = True

    def take(self) -> tuple[Any, ...] | None:
        """The records since the last call, in the form that `StepFastPath.flush` takes, or None."""
        with self._lock:
            first, last = self._taken, self._position
            # If another thread calls this while an operator runs, the operator may still be
            # followed: its generator state stays.
            drawn = [one for one in self._drawn if one[0] < last or self.mode != FAST]
            if self._script is None or (first >= last and not drawn):
                return None
            self._taken = last
            notes = self._notes[2 * first : 2 * last].tobytes()
            varied, self._varied = self._varied, []
            del self._drawn[: len(drawn)]
            rows = self._rows
            begin, rows.reported = rows.reported, rows.used
            statistics = rows.between(self._row(first), self._row(last)) if rows.on else None
            self.flushed_ns = _now()
        return first, last, notes, statistics, varied, drawn, begin, b""

    def _row(self, position: int) -> int:
        assert self._script is not None
        if position < len(self._items):
            return self._items[position].statistics
        return self._script.statistics

    def tell(self) -> list[tuple[int, int, bool, int]]:
        """The slot, number, whether it was used in this step, and version of each live storage."""
        with self._lock:
            living = []
            for address in (*self._older, *self._made):
                known = self._by_address.get(address)
                if known is not None and known.reference() is not None:
                    known.is_reported = True
                    now = known.cycle == self._cycle
                    living.append((known.slot, known.number, now, known.version))
            for slot, number in enumerate(self._script.slots if self._script else ()):
                if number and self._versions[slot] >= 0:
                    now = self._bound[slot] is not _nothing
                    living.append((slot, number, now, self._versions[slot]))
            self._older, self._made = [], []
            return living

    def slot(self, tensor: Any) -> int:
        """The slot of a tensor's storage in the script that is followed, or -1."""
        try:
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):
            return -1
        known = self._by_address.get(address_of(storage))
        if known is None or known.reference() is not storage or known.cycle != self._cycle:
            return -1
        return known.slot

    def knows(self, tensor: Any) -> bool:
        """Whether the number of a tensor's storage was reported by `tell` or `storage`."""
        try:
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):
            return False
        known = self._by_address.get(address_of(storage))
        return known is not None and known.reference() is storage and known.is_reported

    # Only the C++ observer needs these: a `Follower` does not support devices, and it reads marks
    # from `Place`.

    def mark(self, place: int) -> None:
        """See `StepFastPath.mark`."""

    def pairs(self, script: Script, values: bytes) -> None:
        """Do nothing: the pairs are for `accumulated`."""

    def accumulated(self, parameter: Any, known: dict[int, int]) -> bool:
        """Always False: `StepFastPath.arrived` handles every arrival."""
        return False

    def rows(self, address: int) -> None:
        """See `DevicePath`."""

    def no_device(self) -> None:
        """See `DevicePath`."""

    def device(self, *given: Any) -> None:
        """See `DevicePath`."""
