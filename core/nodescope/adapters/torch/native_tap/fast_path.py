"""StepFastPath: follows steps that repeat an earlier step: in C++ without Python, or in `follower`
under the Python tap.

The first steps are observed operator by operator in Python, and recorded. Once a step ran only
known nodes, it becomes a script that later steps may follow: at each operator, the observer
compares the call with the script. Times and statistics are emitted in blocks. Where the step
differs from the script, Python's state is brought up to that point, and Python observes the rest of
the step.

``NODESCOPE_TORCH_FAST=0`` switches it off.

Invariant: the events are equivalent whichever path a step took.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import torch

from nodescope.adapters.torch import places
from nodescope.adapters.torch.compat import autograd_node
from nodescope.adapters.torch.device.runtime import Event
from nodescope.adapters.torch.follower.follower import Follower
from nodescope.adapters.torch.generators import GENERATOR_STATE
from nodescope.adapters.torch.native_tap.copies import Memory, Pool
from nodescope.adapters.torch.native_tap.device_path import DevicePath, Written
from nodescope.adapters.torch.native_tap.journal import After, StepJournal
from nodescope.adapters.torch.native_tap.returning import LiveStorage, bring_back
from nodescope.adapters.torch.native_tap.scripts import Scripts
from nodescope.adapters.torch.native_tap.step_script import StepScript, scripted
from nodescope.adapters.torch.places import Place, Quiet
from nodescope.adapters.torch.signatures import signature_of
from nodescope.adapters.torch.storages import Owner, geometry_of
from nodescope.emit.state import ThreadState, current, follow
from nodescope.events import NodesFinished
from nodescope.ir.block_demands import block_nodes
from nodescope.ir.track import Elements
from nodescope.record.blocks import STATISTICS

if TYPE_CHECKING:
    from nodescope.adapters.torch.operations import Operations

VARIABLE: Final = "NODESCOPE_TORCH_FAST"
_MOST_TRIES: Final = 5
"""The number of first steps to be observed: they define nodes, are recorded, and then followed."""
_MOST_IN_VAIN: Final = 16
_SELDOM: Final = 8
"""After `_MOST_IN_VAIN` steps without one that followed a script, one in `_SELDOM` is recorded, as
recording takes time."""
_MOSTLY: Final = 0.75
"""A step that followed more than this fraction of a script counts as a step of its kind."""

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _guarded(otherwise: Any = None) -> Callable[[_Method], _Method]:
    """Have a method switch the fast path off if it raises; observation in Python continues."""

    def guard(method: _Method) -> _Method:
        @functools.wraps(method)
        def guarded(self: StepFastPath, *given: Any) -> Any:
            try:
                return method(self, *given)
            except Exception as error:
                self.give_up(error)
                return otherwise

        return guarded  # type: ignore[return-value]

    return guard


class StepFastPath:
    """The fast path of a run.

    Args:
        library: The observer, or a `Follower`.
        operations: The run's operations.

    Attributes:
        following: The script that the step follows, or None.
        journal: Records a step that Python observes operator by operator; or None.
        steps: The number of steps that followed a script to their end.
        tell_mark: Informs the library of the calling thread's mark.
        accumulated: Whether a parameter's accumulated gradient matches the script and its pair of
            values was emitted already, so that nothing is left to do.
    """

    def __init__(self, library: Any, operations: Operations) -> None:
        self._library = library
        self.tell_mark: Callable[[int], None] = library.mark
        self.accumulated: Callable[[Any, dict[int, int]], bool] = library.accumulated
        self._by_item = isinstance(library, Follower)  # it records times by item, not by execution
        self._operations = operations
        self._emitter = operations.emitter
        self._off = os.environ.get(VARIABLE, "") == "0"
        self.following: StepScript | None = None
        self.journal: StepJournal | None = None
        self.steps = 0
        self._scripts = Scripts()
        self._open = self._gradients = False
        self._vain = 0  # consecutive steps that followed no script to its end
        self._tries = 0  # observed steps that began
        # The script that the previous step followed to its end; Python's state lacks that step.
        self._earlier: StepScript | None = None
        self._base = self._gap = 0
        self._epoch: object = None
        self._lost: StepScript | None = None  # the script that most of the step has followed
        self._claimed: set[int] = set()  # slots of `StepScript.claims` that have got their owner
        self._pool = Pool()
        self._memory: Memory | Written | None = None
        self._device = DevicePath(library)
        self._known_before = 0
        self._marks: dict[tuple[Any, ...], int] = {}
        self._state: ThreadState | None = None

    @contextlib.contextmanager
    def connected(self) -> Iterator[None]:
        """Inform the library of scopes, quiet places and changed demands inside the context."""
        bus = self._emitter.bus
        if not isinstance(self._library, Follower):
            places.tell(self._library)
        follow(self.mark)
        bus.on_change, bus.learns, bus.progress = (
            self.interrupt,
            self.learns,
            self._library.progress,
        )
        try:
            yield
        finally:
            bus.on_change = bus.catch_up = bus.learns = bus.progress = None
            follow(None)

    def give_up(self, error: Exception) -> None:
        """Switch the fast path off for the rest of the run, after an error."""
        self._off, self.following, self._earlier = True, None, None
        self._emitter.bus.catch_up = None
        self._take_down(None)
        self._library.stop()
        self._device.forget()
        self._operations.complain(error)

    # Steps

    @property
    def away(self) -> bool:
        """Whether Python's state lacks followed operators of this step or the previous one."""
        return self.following is not None or self._earlier is not None

    @_guarded(False)
    def learns(self) -> bool:
        """Whether the step that begins should be observed, so that later ones can follow it."""
        return not (self._off or self.steps or self._tries >= _MOST_TRIES)

    @_guarded()
    def step_begins(self) -> None:
        """Begin a step: decide whether it follows a script, is recorded, or neither."""
        if self._off:
            return
        if self._operations.devices.index >= 0 and self._device.ready(
            self._operations.devices.index
        ):
            self._tries = 0  # steps before the device was ready could not be compared
        level = self._emitter.bus.block_level()
        self._step_ended()
        self._gradients = torch.is_grad_enabled()
        script = self._scripts.next(gradients=self._gradients)
        if script is not None and not self._may(script, level):
            script = None
        checked: list[tuple[int, int]] | None = None
        if script is not None and script is self._earlier:
            if self._operations.values.gap == self._gap:
                checked = []
            elif script.resumes:  # the followed step changed nothing that `fits` checks
                checked = script.fits(self._operations)
        if checked is None:
            self.lose()
            checked = None if script is None else script.fits(self._operations)
        if script is not None and checked is not None:
            self._follow(script, level, checked)
        elif level is not None and self._is_worth_it():
            self._known_before = self._library.record()
            self._take_down(StepJournal(self._emitter.identity.version))
        else:
            self._library.stop()
        self._open = True
        self._tries += 1

    def _is_worth_it(self) -> bool:
        """Whether to record this step: only one in `_SELDOM` after many that followed no script."""
        self._vain += 1
        return self._vain <= _MOST_IN_VAIN or self._vain % _SELDOM == 0

    @_guarded()
    def rest(self) -> None:
        """Stop: nothing is observed for now."""
        if not self._off:
            self._step_ended()
            self._library.stop()

    def _step_ended(self) -> None:
        """Finish the open step, if any: make a script of a recorded one, and update the guess."""
        if not self._open:
            return
        self._open = False
        before, journal = self.following, self.journal
        was: StepScript | None = None
        if before is not None:
            position = self._library.position()
            if position == len(before) and len(self._claimed) == len(before.claims):
                self.flush()
                _, self._base = self._library.stop()
                self._earlier, self._gap = before, self._operations.values.gap
                self._epoch = self._emitter.epoch
                self._follow_nothing()
                self.steps += 1
                self._vain = 0
                was = before
            else:
                self.lose()
        if journal is not None:
            was = scripted(self._library, journal, self._operations, self._known_before)
            was = None if was is None else self._scripts.add(was)
            self._take_down(None)
        self._scripts.ended(was or self._lost, gradients=self._gradients)
        self._lost = None

    def _may(self, script: StepScript, level: str | None) -> bool:
        bus = self._emitter.bus
        if level != "summary":
            return level is not None
        if not script.copies.holds(bus.block_bytes(), block_nodes(bus.probes)):
            return False
        return script.summarised and script.arrays == (bus.demand.arrays is not False)

    def _follow(
        self, script: StepScript, level: str | None, checked: list[tuple[int, int]]
    ) -> None:
        library, bus = self._library, self._emitter.bus
        self._state = current()
        self._claimed = set()
        self.following = script
        bus.catch_up = self.flush
        most = bus.block_bytes() if level == "summary" else 0
        viewed: frozenset[int] = frozenset()
        if level == "summary":
            viewed = block_nodes(bus.probes)
        nbytes = script.copies.within(most, viewed)
        if nbytes is not None:
            library.keep(script.handle, nbytes.tobytes())
        self._device.begin(script, statistics=level == "summary")
        library.follow(script.handle, level == "summary", self._operations.generators.left, checked)
        self._renew(script, 0)

    def _renew(self, script: StepScript, item: int) -> None:
        """Give the observer memory for the copies from this item on."""
        executions = script.executed[item]
        room = 0 if executions == len(script.track.nodes) else script.copies.room_from(executions)
        take = self._pool.take if script.device < 0 else self._device.memory
        self._memory = take(room) if room else None
        self._library.hold(self._memory.bytes if self._memory is not None else None)

    def _follow_nothing(self) -> None:
        self.following = None
        self._emitter.bus.catch_up = None
        if self._memory is not None:
            self._library.hold(None)
            self._memory = None

    def _take_down(self, journal: StepJournal | None) -> None:
        self.journal = journal
        self._emitter.journal = self._operations.values.journal = journal

    @_guarded()
    def lose(self) -> None:
        """Stop following, and bring Python's state up to date: Python observes what comes next."""
        script = self.following or self._earlier
        if script is None:
            return
        position, base, followed = 0, 0, None
        if self._earlier is not None:
            followed = self._base, self._gap
        if self.following is not None:
            position, base = self._library.stop()
            self.flush(script)
            self._follow_nothing()
            if position > _MOSTLY * len(script):
                self._lost = script
        elif self._epoch is self._emitter.epoch:  # the step continues beyond the script's end
            position, base, followed = len(script), self._base, None
        self._earlier = None
        storages = list(map(LiveStorage._make, self._library.tell()))
        if position == 0:  # no operator of this step was followed
            storages = [one._replace(now=False) for one in storages]
        bring_back(
            self._operations, script, storages, position, base, followed=followed,
            state=self._state, claimed=self._claimed,
        )  # fmt: skip

    @_guarded()
    def end(self) -> None:
        """End the run."""
        self.lose()
        self._take_down(None)
        self._library.stop()
        self._device.forget()

    @_guarded()
    def interrupt(self) -> None:
        """Stop following if a probe now needs every operator; called on any thread."""
        if self.following is not None and self._emitter.bus.block_level() is None:
            self._library.interrupt()

    # Operators that Python observes

    @_guarded(False)
    def begins_step(self, function: Any) -> bool:
        """Begin a step if this operator is the first of one; return whether it is."""
        emitter, place = self._emitter, self._operations.place
        if not emitter.between_steps or current().phase != "forward" or place.quiet:
            return False
        signature = signature_of(function)
        if signature.unseen or signature.is_read or signature.is_detach or autograd_node():
            return False
        emitter.begin_due()
        return True

    @_guarded()
    def operator_begins(self) -> None:
        """Prepare for an operator that Python observes."""
        if self.away:
            self.lose()
        if self.journal is not None:
            self.journal.begin()

    @_guarded()
    def operator_ended(self) -> None:
        """Complete the journal's item: the operator has ended, or is not a node."""
        if self.journal is not None:
            self.journal.end(self.after(current(), self._operations.place))

    # Emitting

    @_guarded()
    def flush(self, script: StepScript | None = None) -> None:
        """Emit the executions that were followed since the last call."""
        script = script or self.following
        taken = self._library.take() if script is not None else None
        if taken is None or script is None:
            return
        first, last, notes, statistics, varied, drawn, begin, enqueued = taken
        bus, state = self._emitter.bus, self._state
        if drawn and drawn[-1][0] >= last:  # Python observes this operator after all
            self._operations.generators.before = drawn.pop()[1]
        if self._by_item:
            times = script.times(first, last, notes, bus.origin_ns)
        else:
            times = np.frombuffer(notes, np.int64).reshape(-1, 2) - bus.origin_ns
        moments: list[Event] = []
        if enqueued:
            moments = self._enqueued(script, first, last, times, enqueued)
        start, stop = script.executed[first], script.executed[last]
        if start == stop or state is None:
            return
        attrs: dict[int, dict[str, Any]] = {}
        if statistics is not None:
            attrs = {at: known for at, known in script.attrs.items() if start <= at < stop}
            for place, given in varied:
                self._attrs(script, place, given, attrs)
        for place, drew in drawn:
            self._drew(script, place, drew, attrs)
        table = None
        if isinstance(statistics, bytes):
            table = np.frombuffer(statistics, dtype=STATISTICS)
        turns = [first, *(at for at in script.turns if first < at < last), last]
        for begins, ends in itertools.pairwise(turns):
            ran = slice(script.executed[begins], script.executed[ends])
            if ran.start == ran.stop:
                continue
            rows = script.track.firsts[ran.start], script.track.firsts[ran.stop]
            some: Any = None
            if table is not None:
                row = script.track.firsts[start]
                some = table[rows[0] - row : rows[1] - row]
            elif statistics is not None:
                some = self._device.rows(rows[0], rows[1] - rows[0], moments)
            bus.emit(
                NodesFinished(
                    script.track, ran.start, times[ran.start - start : ran.stop - start],
                    self._emitter.step,
                    state.thread if script.device < 0 else script.items[begins].thread,
                    {at: known for at, known in attrs.items() if ran.start <= at < ran.stop}, some,
                    self._elements(script, ran, start, begin, moments)
                    if statistics is not None else None,
                )
            )  # fmt: skip

    def _elements(
        self, script: StepScript, ran: slice, start: int, begin: int, moments: list[Event]
    ) -> Elements | None:
        """The copies of the elements of some executions, or None."""
        memory = self._memory
        if memory is None:
            return None
        ready = self._device.arrived(memory, moments) if isinstance(memory, Written) else None
        begin += script.copies.bytes_before(start, ran.start)
        return script.copies.elements(memory, ran.start, ran.stop, begin, ready)

    def _enqueued(
        self, script: StepScript, first: int, last: int, times: Any, enqueued: bytes
    ) -> list[Event]:
        """Process what the observer has enqueued on the device; return the events after it."""
        rows = np.frombuffer(enqueued, np.int64).reshape(-1, 3)
        memory = self._memory if isinstance(self._memory, Written) else None
        moments = self._device.enqueued(np.unique(rows[:, 2]).tolist(), memory)
        nodes, called = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        begin = script.executed[first]
        for nth, position in enumerate(rows[:, 0].tolist()):
            if first <= position < last:
                at = script.executed[position + 1] - 1
                nodes[nth] = script.track.nodes[at].id
                called[nth] = times[at - begin, 0]
        devices = self._operations.devices
        clock = None if devices.is_off else devices.clock()
        if clock is None:
            self._library.give_back(np.ascontiguousarray(rows[:, 1]))
        else:
            clock.mark_block(script.device, nodes, called, rows[:, 1:], self._library)
        return moments

    def _attrs(
        self, script: StepScript, place: int, given: list[tuple[int, Any]],
        attrs: dict[int, dict[str, Any]],
    ) -> None:  # fmt: skip
        """Set the attributes of an operator whose arguments differ from the script's."""
        item = script.items[place]
        plain = list(item.plain)
        for argument, value in given:
            if argument < len(plain) and plain[argument] is not None:
                plain[argument] = value
        at = script.executed[place + 1] - 1
        now = item.signature.attrs(tuple(plain))
        if now != script.track.nodes[at].attrs:
            attrs[at] = now
        else:
            attrs.pop(at, None)

    def _drew(
        self, script: StepScript, place: int, state: bytes, attrs: dict[int, dict[str, Any]]
    ) -> None:
        """Add the generator state from which an operator drew to its attributes."""
        self._operations.generators.left -= len(state)
        at = script.executed[place + 1] - 1
        attrs[at] = {**attrs.get(at, script.track.nodes[at].attrs), GENERATOR_STATE: state}

    @_guarded()
    def flushed(self) -> None:
        """Emit followed executions, on the thread that follows the script."""
        script = self.following
        self.flush()
        if script is not None and self._library.full():
            self._renew(script, self._library.position())

    @_guarded()
    def waits(self, tensors: Sequence[Any], ids: Sequence[int]) -> None:
        """Set hooks on operands of a followed operator whose gradients were never observed."""
        with Quiet(self._operations.place):
            self._operations.gradients.follow(tensors, ids)

    # Scopes and values

    def mark(self, state: ThreadState) -> None:
        """Update the thread's mark after its scope or phase has changed."""
        try:  # not `_guarded`, as this runs twice for each call of a module
            number = self.number(state.scope, state.phase, state.forward)
            self._operations.place.mark = number
            self.tell_mark(number)
        except Exception as error:
            self.give_up(error)

    def number(self, scope: str, phase: str, forward: int | None) -> int:
        """The mark of a scope and phase."""
        marks = self._marks
        return marks.setdefault((scope, phase, forward), len(marks))

    def after(self, state: ThreadState, place: Place) -> After:
        """The thread's state after an operator, for the journal."""
        return After(
            place.mark, state.scope, state.phase, state.forward, place.outer is not None,
            place.updated, place.instruction,
        )  # fmt: skip

    @_guarded(0)
    def known(self, tensor: Any) -> int:
        """The id of a tensor's value; 0 if it is not known."""
        script = self.following
        if script is not None:
            slot = self._library.slot(tensor)
            if slot >= 0:
                id = script.id_at(slot, geometry_of(tensor), self._library.position())
                if id:
                    return id
        self.lose()
        return self._operations.values.known(tensor)

    def owns(self, tensor: Any, owner: Owner) -> bool:
        """Whether giving a tensor this owner would change nothing, or the script expects it."""
        script = self.following
        if script is not None:
            slot = self._library.slot(tensor)
            if slot >= 0 and script.slots[slot] > script.known_before:
                if script.claims.get(slot) != owner:
                    return False
                self._claimed.add(slot)
                return True
        if self.away and not self._library.knows(tensor):
            return False
        return self._operations.values.is_owned(tensor)

    def arrived(self, parameter: Any, gradient: Any) -> bool:
        """Whether the arrival of a parameter's gradient needs no further work."""
        try:  # not `_guarded`, as this runs for each parameter
            script = self.following
            if self._library.arrived(parameter, gradient) and script is not None:
                pair = script.items[self._library.position() - 1].pair
                if pair is not None:
                    self._emitter.pair(*pair)
                return True
            self.lose()
        except Exception as error:
            self.give_up(error)
        return False
