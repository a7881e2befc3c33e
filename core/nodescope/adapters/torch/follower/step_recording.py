"""Recording: records the operators of a step, from which a script may be made."""

from __future__ import annotations

import threading
from array import array as array_of
from collections.abc import Sequence
from typing import Any, Final

import torch

from nodescope.adapters.torch.compat import autograd_node, sequence_number, sequence_of
from nodescope.adapters.torch.compat import storage_address as address_of
from nodescope.adapters.torch.follower import rows as statistic_rows
from nodescope.adapters.torch.follower.known_storages import KnownStorages
from nodescope.adapters.torch.follower.script import (
    Fact,
    Item,
    Script,
    Several,
    Unsound,
    copied,
    facts_of,
    is_comparable,
    is_exact,
    is_read,
)
from nodescope.adapters.torch.places import Place

SLOW, RECORDING, FAST = range(3)
ACCUMULATES: Final = 1 << 62
"""Autograd nodes that accumulate a leaf's gradient have sequence numbers from this one on."""


class StepRecording(KnownStorages):
    """The part of `Follower` that records steps.

    Args:
        place: The thread-local `Place`.

    Attributes:
        mode: ``SLOW``, ``RECORDING`` or ``FAST`` (following a script).
        thread: The thread whose operators are recorded or followed.
    """

    def __init__(self, place: Place) -> None:
        super().__init__()
        self._where = place
        self.mode, self.thread = SLOW, 0
        self._raw: list[Item] = []
        self._whole, self._recording, self._before, self._base = True, 0, 0, 0

    def record(self) -> int:
        """Begin to record a step; return the number of the latest storage."""
        with self._lock:
            self._leave()
            self._raw = []
            self._whole = True
            self._recording += 1
            self._before = self._count
            self.thread = threading.get_ident()
            self.mode = RECORDING
            return self._before

    def spoil(self) -> None:
        """Mark the recorded step as unusable for a script."""
        self._whole = False

    def capture(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Item:
        """Record that an operator begins; `captured` completes the item."""
        number = sequence_number()
        if not self._raw:
            self._base = number
        item = Item(function, self._where.mark, self._recording)
        item.before, item.node = number - self._base, self._node()
        item.names = tuple(kwargs)
        try:
            expected = [self._part(value, item.inputs) for value in (*args, *kwargs.values())]
            item.given = tuple(expected)
        except Unsound:
            item.sound = False
        return item

    def captured(self, item: Item, result: Any, *, reported: bool) -> None:
        """Record that the operator has ended, or is not a node of the graph."""
        item.after, item.reported = sequence_number() - self._base, reported
        if reported:
            try:
                item.returned = self._part(result, item.outputs, is_result=True)
            except Unsound:
                item.sound = False
        if self.mode != RECORDING:
            return
        if item.recording == self._recording:
            self._raw.append(item)
        else:
            self._whole = False  # a new recording began while the operator ran

    def _part(self, value: Any, facts: list[Fact], *, is_result: bool = False) -> Any:
        if isinstance(value, torch.Tensor):
            if not is_comparable(value):
                raise Unsound
            storage = value.untyped_storage()
            address = address_of(storage)
            known = self._by_address.get(address)
            if known is None or known.reference() is not storage:
                known = self._add(address, storage)
            fact = Fact(known.number, value)
            facts.append(fact)
            return fact
        if value.__class__ in (list, tuple) and (
            is_result or any(isinstance(item, torch.Tensor) for item in value)
        ):
            return Several(self._part(item, facts, is_result=is_result) for item in value)
        if is_result:
            return None
        if not is_exact(value):
            raise Unsound
        return copied(value)

    def _node(self) -> int | None:
        node = autograd_node()
        if node is None:
            return None
        number = sequence_of(node)
        return ACCUMULATES if number >= ACCUMULATES else number - self._base

    def recorded(self) -> list[tuple[Any, ...]] | None:
        """The recorded items, for `step_script.scripted`; None if the step is unusable."""
        if self.mode != RECORDING or not self._whole:
            return None
        fills = statistic_rows.can_fill()
        return [
            (
                item.function is not None, item.reported, item.sound,
                fills and all(is_read(fact.dtype) for fact in (*item.inputs, *item.outputs)),
                item.after, facts_of(item.inputs), facts_of(item.outputs),
            )
            for item in self._raw
        ]  # fmt: skip

    def make(self, rows: Sequence[tuple[Any, ...]]) -> tuple[Script, list[int]]:
        """Make a script of the recorded items; return it and the storage number of each slot.

        Args:
            rows: By item, `Item.leaves`, `Item.results`, `Item.seeded`, `Item.draws`,
                `Item.hooked`.
        """
        for item, (leaves, results, seeded, draws, hooked) in zip(self._raw, rows, strict=True):
            item.leaves, item.results, item.seeded, item.draws = leaves, results, seeded, draws
            item.hooked = hooked
        script = Script(self._raw, self._before)
        self._raw = []
        return script, script.numbers

    def keep(self, script: Script, nbytes: bytes) -> None:
        """Set how many bytes of each output are copied."""
        script.keep(nbytes, statistic_rows.ALIGNED)

    def reuse(self, script: Script, same: bytes) -> None:
        """Set which outputs have the same elements, see `same_elements`."""
        script.same = array_of("i", same).tolist()

    def _arrival(self, parameter: Any, gradient: Any) -> None:
        """Record that the gradient of a parameter arrives."""
        item = Item(None, self._where.mark, self._recording)
        item.reported = True
        try:
            for tensor in (parameter, gradient):
                self._part(tensor, item.inputs)
        except Unsound:
            item.sound = False
        if not self._raw:
            self._base = sequence_number()
        self._raw.append(item)

    def _leave(self) -> None:
        """Stop recording and following."""
        self.mode = SLOW
