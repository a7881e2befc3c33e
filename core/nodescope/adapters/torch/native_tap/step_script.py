"""StepScript: a recorded step that later steps may follow.

Invariant: a step that follows it runs the same nodes on the same values. `fits` checks that the
values and owners known at the recorded step's start are known again; the C++ observer, or
`follower`, compares everything else.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from nodescope.adapters.torch.native_tap.copies import Copies
from nodescope.adapters.torch.native_tap.journal import (
    READ,
    Change,
    First,
    Hooked,
    Item,
    StepJournal,
)
from nodescope.adapters.torch.native_tap.same_elements import same_elements
from nodescope.adapters.torch.storages import Geometry, Owner
from nodescope.ir.graph import TensorSpec
from nodescope.ir.identity import Entry
from nodescope.ir.track import Track, TrackValue

if TYPE_CHECKING:
    from nodescope.adapters.torch.operations import Operations

_MISSING: Final = -1 << 40

Fact = tuple[int, Geometry, bool]
"""A tensor as the observer saw it: storage number, geometry, whether it requires a gradient."""


class StepScript:
    """A recorded step that later steps may follow.

    Args:
        handle: The observer's own script.
        slots: The storage numbers, by slot.
        journal: The journal of the recorded step.
        summarised: Whether the observer can compute statistics of all its values.
        owners: The storages older than the step that were emitted as data, with their owners.
        known_before: Storages with a number up to this one are older than the step.
        arrays: Whether arrays were wanted, see `Demand.arrays`.
        device: The index of the device that it uses, or -1.

    Attributes:
        items: Its operators, and arrivals of gradients.
        kind: The ids of its nodes, in order; distinguishes it from steps that run other nodes.
        by_slot: By slot: the changes of the storage, each with the index of its item.
        track: The executions, in order.
        executed: By item, the index of its first execution on the track; one more entry at the end.
        turns: The items at which another thread continues, as for a device's backward pass.
        resumes: Whether the step changes none of the values that `fits` checks, so that the next
            step can follow although Python's state lacks this one.
        owned: By slot of a storage made in the step: owners that it got as data, each with the
            index of its item.
        claims: By slot of a storage made in the step: the owner that it got when a module was
            named.
        outdated: The reads, in storages older than the step, of values outdated by writes.
    """

    def __init__(
        self, handle: Any, slots: Sequence[int], journal: StepJournal, summarised: bool,
        owners: dict[int, Owner | None], known_before: int, *, arrays: bool, device: int,
    ) -> None:  # fmt: skip
        self.device = device
        self.handle, self.summarised, self.known_before = handle, summarised, known_before
        self.arrays = arrays
        self.items: list[Item] = journal.items
        threads = [item.thread for item in journal.items]
        self.turns = [at for at in range(1, len(threads)) if threads[at] != threads[at - 1]]
        self.slots = tuple(slots)
        self.slot_of = {number: slot for slot, number in enumerate(slots)}
        self.firsts: list[First] = journal.firsts
        self.outdated = [one for one in journal.outdated if one.number <= known_before]
        self.owners = owners
        self.by_slot: dict[int, list[tuple[int, Change]]] = {}
        for place, item in enumerate(self.items):
            for change in item.changes:
                slot = self.slot_of.get(change.number)
                if slot is not None:
                    self.by_slot.setdefault(slot, []).append((place, change))
        self.resumes = not self.outdated and not any(
            change.kind != READ
            for first in self.firsts
            for _, change in self.by_slot.get(self.slot_of.get(first.number, -1), ())
        )
        self.owned: dict[int, list[tuple[int, Owner]]] = {}
        for place, item in enumerate(self.items):
            for leaf in item.leaves:
                if leaf.owner is not None and leaf.number > known_before:
                    owned = self.owned.setdefault(self.slot_of.get(leaf.number, -1), [])
                    owned.append((place, leaf.owner))
        self.claims = {
            self.slot_of[number]: owner
            for number, owner in journal.owners.items()
            if number > known_before and number in self.slot_of
        }
        entries = [entered.entry for item in self.items for entered in item.entered]
        self.kind = tuple(entry.node.id for entry in entries)
        self._defined = [(entry, entry.node, entry.values) for entry in entries]
        self.version = journal.version
        self.track = _track(entries)
        self.copies = Copies(self.track)
        counts = [len(item.entered) for item in self.items]
        self.executed = (0, *itertools.accumulate(counts))
        self._item_of = np.repeat(np.arange(len(counts)), counts)
        self._leaf = np.array(
            [
                nth < len(item.entered) - 1
                for item in self.items
                for nth, _ in enumerate(item.entered)
            ],
            dtype=bool,
        )
        self.attrs = {
            self.executed[place + 1] - 1: item.attrs
            for place, item in enumerate(self.items)
            if item.attrs is not None
        }
        for place, item in enumerate(self.items):
            for nth, attrs in item.leaf_attrs.items():
                self.attrs[self.executed[place] + nth] = attrs

    def __len__(self) -> int:
        return len(self.items)

    def fits(self, operations: Operations) -> list[tuple[int, int]] | None:
        """Check whether a step that begins now starts from the same state as the recorded one.

        Returns:
            None if not; else pairs of a slot and the version counter that its tensor must have.
        """
        emitter, values = operations.emitter, operations.values
        if emitter.identity.version != self.version:
            if any(
                entry.node is not node or entry.values is not known
                for entry, node, known in self._defined
            ):
                return None
            self.version = emitter.identity.version
        memory_of = values.storages.by_number
        for number, owner in self.owners.items():
            memory = memory_of(number)
            if memory is None or memory.owner is None:
                return None
            if owner is not None and memory.owner != owner:
                return None
        checked: list[tuple[int, int]] = []
        for first in self.firsts:
            memory = memory_of(first.number)
            if memory is None or memory.owner is not None:
                return None
            known = None
            if memory.detached is not None and not first.differentiable:
                known = memory.detached.get(first.geometry)
            known = known or memory.known.get(first.geometry)
            if (
                known is None or known.id != first.id or known.version != memory.version
            ):  # fmt: skip
                return None
            if known.gap != values.gap:
                checked.append((self.slot_of[first.number], known.counter))
        for place in self.outdated:
            memory = memory_of(place.number)
            if memory is None or memory.owner is not None:
                return None
            known = memory.known.get(place.geometry)
            if known is None or known.id != place.id or known.gap != values.gap:
                return None
            writes = tuple(
                (write.id, write.geometry)
                for write in memory.writes
                if write.version > known.version and write.geometry not in place.covered
            )
            if writes != place.writes:
                return None
        return checked

    def times(self, first: int, last: int, notes: bytes, origin_ns: int) -> np.ndarray[Any, Any]:
        """Start and end of each execution of the items from ``first`` up to ``last``.

        Times are in nanoseconds since the run began.
        """
        rows = np.frombuffer(notes, dtype=np.int64).reshape(-1, 2) - origin_ns
        ran = slice(self.executed[first], self.executed[last])
        times = rows[self._item_of[ran] - first]
        leaf = self._leaf[ran]
        times[leaf, 1] = times[leaf, 0]
        return times

    def id_at(self, slot: int, geometry: Geometry, position: int) -> int:
        """The value id at a geometry of a storage after ``position`` items; 0 if not known."""
        known = 0
        for place, change in self.by_slot.get(slot, ()):
            if place >= position:
                break
            if change.geometry == geometry:
                known = change.id
            elif change.kind == "wrote":
                known = 0
        return known


def _track(entries: Sequence[Entry]) -> Track:
    values = []
    firsts = [0]
    for entry in entries:
        for value in entry.values:
            spec = value.spec
            if isinstance(spec, TensorSpec):
                shape = tuple(int(size or 0) for size in spec.shape)
                nbytes = math.prod(shape) * getattr(torch, spec.dtype).itemsize
                values.append(TrackValue(value.id, spec.dtype, shape, nbytes))
        firsts.append(len(values))
    return Track(tuple(entry.node for entry in entries), tuple(values), tuple(firsts), {})


def scripted(
    library: Any, journal: StepJournal, operations: Operations, known_before: int
) -> StepScript | None:
    """Make the script of a recorded step; None if the step cannot be followed.

    Args:
        library: The observer.
        journal: The journal of the step.
        operations: The run's operations.
        known_before: Storages with a number up to this one are older than the step.
    """
    if not journal.sound or operations.emitter.identity.version != journal.version:
        return None
    recorded = library.recorded()
    if recorded is None or not recorded or len(recorded) != len(journal.items):
        return None
    rows: list[tuple[Any, ...]] = []
    summarised = True
    entries: set[int] = set()
    owners: dict[int, Owner | None] = {}
    for (is_operator, reported, sound, fits, after, inputs, outputs), item in zip(
        recorded, journal.items, strict=True
    ):
        if not sound or is_operator == (item.pair is not None):
            return None
        summarised = summarised and fits
        if not is_operator:
            if item.entered or item.changes:
                return None
            rows.append(((), (), False, False, ()))
            continue
        if reported != bool(item.entered) or len(item.leaves) != max(len(item.entered) - 1, 0):
            return None
        for entered in item.entered:
            if entered.cursor.loop or id(entered.entry) in entries:
                return None
            entries.add(id(entered.entry))
        if not reported:
            rows.append(((), (), False, False, ()))
            continue
        leaves = tuple(_index(inputs, leaf.number, leaf.geometry) for leaf in item.leaves)
        hooked = tuple(_differentiable(inputs, hook) for hook in item.hooked)
        results = tuple(_result(inputs, outputs, output) for output in item.outputs if output != ())
        if None in leaves or None in hooked or _MISSING in results:
            return None
        values = item.entered[-1].entry.values
        if [isinstance(value.spec, TensorSpec) for value in values] != [
            output != () for output in item.outputs
        ]:
            return None
        if item.thread != journal.items[0].thread:  # each thread has its own sequence numbers
            item.linked = None
        item.linked = after - 1 if item.linked is not None else None
        owners.update(
            (leaf.number, leaf.owner)
            for leaf in item.leaves
            if leaf.number <= known_before and not leaf.is_updated
        )
        rows.append((leaves, results, item.signature.is_seeded, item.draws, hooked))
    if any(not place.id and place.number <= known_before for place in journal.outdated):
        return None
    handle, slots = library.make(rows)
    pairs = [value for item in journal.items for value in item.pair or (0, 0)]
    library.pairs(handle, np.array(pairs, np.int64).tobytes())
    library.reuse(handle, same_elements(journal.items).tobytes())
    arrays = operations.emitter.bus.demand.arrays is not False
    return StepScript(
        handle, slots, journal, summarised, owners, known_before, arrays=arrays,
        device=operations.devices.index,
    )  # fmt: skip


def _index(facts: Sequence[Fact], number: int, geometry: Geometry) -> int | None:
    for nth, (storage, place, _) in enumerate(facts):
        if storage == number and place == geometry:
            return nth
    return None


def _differentiable(facts: Sequence[Fact], hook: Hooked) -> tuple[int, int] | None:
    """The index of the operand that got a hook, and its value id."""
    for nth, (storage, place, differentiable) in enumerate(facts):
        if differentiable and storage == hook.number and place == hook.geometry:
            return nth, hook.id
    return None


def _result(
    inputs: Sequence[Fact], outputs: Sequence[Fact], output: tuple[int, Geometry] | tuple[()] | None
) -> int | None:
    """The index of an output among the results, or ``-1 - index`` among the operands."""
    if not output:
        return None
    place = _index(outputs, *output)
    if place is not None:
        return place
    place = _index(inputs, *output)
    return _MISSING if place is None else -1 - place
