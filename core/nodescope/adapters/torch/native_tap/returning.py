"""Returning: brings Python's state up to date with a step that has followed a script so far.

Invariant: the resulting state is the same as if Python had observed every operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from nodescope.adapters.torch.native_tap.journal import DETACHED, WROTE, Change
from nodescope.adapters.torch.places import Quiet
from nodescope.adapters.torch.storages import Known, Memory
from nodescope.emit.state import ThreadState, current

if TYPE_CHECKING:
    from nodescope.adapters.torch.native_tap.step_script import StepScript
    from nodescope.adapters.torch.operations import Operations


class LiveStorage(NamedTuple):
    """A storage of the script that has not been freed.

    Attributes:
        slot, number: Its slot in the script, and its number.
        now: Whether the current step has used it.
        version: Autograd's version counter when the script last changed the storage.
    """

    slot: int
    number: int
    now: bool
    version: int


def bring_back(
    operations: Operations, script: StepScript, living: Sequence[LiveStorage], position: int,
    base: int, *, followed: tuple[int, int] | None, state: ThreadState | None,
    claimed: set[int],
) -> None:  # fmt: skip
    """Bring Python's state to a position in the script.

    Args:
        operations: The run's operations.
        script: The script that was followed.
        living: The live storages of the script.
        position: The number of items that were followed in this step.
        base: Autograd's sequence number at the step's first item.
        followed: If the previous step followed the script to its end: its ``base``, and
            `Values.gap` at that time; else None.
        state: The state of the thread that followed the script.
        claimed: The slots of `StepScript.claims` that got their owner in this step.
    """
    _values(
        operations, script, living, position, None if followed is None else followed[1], claimed
    )
    _counts(operations, script, position)
    if followed is not None:
        _links(operations, script, len(script), followed[0])
    if position:
        _links(operations, script, position, base)
    now = current()
    if state is now or (position and script.items[position - 1].thread == now.thread):
        _place(operations, script, position, now)
    _updates(operations, script, position, {one.slot: one.number for one in living if one.now})


def _values(
    operations: Operations, script: StepScript, living: Sequence[LiveStorage], position: int,
    earlier_gap: int | None, claimed: set[int],
) -> None:  # fmt: skip
    storages = operations.values.storages
    if earlier_gap is not None:
        earlier = object()
        for one in living:
            if one.now and one.number > script.known_before:
                continue
            memory = storages.numbered(one.number)
            if memory is not None:
                for _, change in script.by_slot.get(one.slot, ()):
                    _apply(memory, change, earlier, earlier_gap, one.version)
                _own(memory, script, one.slot, len(script), claimed=True)
    token, gap = operations.emitter.epoch, operations.values.gap
    for one in living:
        memory = storages.numbered(one.number) if one.now else None
        if memory is not None:
            for place, change in script.by_slot.get(one.slot, ()):
                if place < position:
                    _apply(memory, change, token, gap, one.version)
            _own(memory, script, one.slot, position, claimed=one.slot in claimed)


def _apply(memory: Memory, change: Change, token: object, gap: int, counter: int) -> None:
    if change.kind == WROTE:
        memory.wrote(change.id, change.geometry)
    known = Known(change.id, memory.version, token, gap, counter)
    if change.kind == DETACHED:
        memory.detached = {**(memory.detached or {}), change.geometry: known}
    else:
        memory.known[change.geometry] = known


def _own(memory: Memory, script: StepScript, slot: int, position: int, *, claimed: bool) -> None:
    for place, owner in script.owned.get(slot, ()):
        if place < position and memory.owner is None:
            memory.owner = owner
    if claimed and slot in script.claims and (memory.owner is None or not memory.owner.label):
        memory.owner = script.claims[slot]


def _counts(operations: Operations, script: StepScript, position: int) -> None:
    """Restore the call counts of ops in scopes."""
    epoch = operations.emitter.epoch
    for item in script.items[:position]:
        for entered in item.entered:
            if entered.cursor.step is not epoch:
                entered.cursor.restart(epoch)
            entered.cursor.slots[entered.key][0] = entered.number


def _links(operations: Operations, script: StepScript, position: int, base: int) -> None:
    """Restore which forward node made each autograd node."""
    operations.place.sequence = base - 1
    for item in script.items[:position]:
        if item.after is not None and item.entered and item.linked is not None:
            node = item.entered[-1].entry.node
            operations.link_at(base + item.linked, node.id, node.scope, item.saved)


def _place(operations: Operations, script: StepScript, position: int, state: ThreadState) -> None:
    """Restore the scope that the last operator set, unless something else has set one since."""
    state.cursor = None
    place = operations.place
    after = script.items[position - 1].after if position else None
    if after is None:
        return
    place.instruction, place.called = after.instruction, set()
    if after.mark != place.mark:
        return
    if after.outer:
        if place.outer is None:
            place.outer = (state.scope, state.phase, None, state.forward)
        place.differentiated = ()
        state.scope, state.phase, state.forward = after.scope, after.phase, after.forward
    elif state.phase == "optimizer":
        place.updated, state.scope = after.updated, after.scope


def _updates(
    operations: Operations, script: StepScript, position: int, now: dict[int, int]
) -> None:
    """Restore which storages belong to which parameter of the optimizer whose step runs."""
    optimizer, operations.deferred = operations.deferred, None
    if optimizer is not None:
        with Quiet(operations.place):
            operations.updates = operations.owners(optimizer)
    for item in script.items[:position]:
        for number, path in item.updates:
            slot = script.slot_of.get(number)
            known: Any = None if slot is None else now.get(slot)
            if known is not None:
                operations.updates.setdefault(known, path)
