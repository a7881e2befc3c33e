"""FastRoad: steps that follow the step before are noted by the observer, without Python.

The first steps are seen operator by operator, and taken down. As soon as one of them ran known
nodes only, the next may follow it: at each operator the observer compares what it sees with what
was taken down. Times and statistics are emitted in blocks. Where the step does something else,
what Python knows is brought to that place, and it sees the rest of the step.

``NODESCOPE_TORCH_FAST=0`` switches it off.

Invariant: a recording does not show which road its steps took.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from nodescope.adapters.torch import places
from nodescope.adapters.torch.native_tap.journal import After, StepJournal
from nodescope.adapters.torch.native_tap.returning import bring_back
from nodescope.adapters.torch.native_tap.scripts import Scripts
from nodescope.adapters.torch.native_tap.step_script import StepScript, scripted
from nodescope.adapters.torch.places import Place
from nodescope.adapters.torch.storages import geometry_of
from nodescope.emit.state import ThreadState, current, follow
from nodescope.events import NodesFinished
from nodescope.record.blocks import STATISTICS

if TYPE_CHECKING:
    from nodescope.adapters.torch.operations import Operations

VARIABLE: Final = "NODESCOPE_TORCH_FAST"


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _guarded(otherwise: Any = None) -> Callable[[_Method], _Method]:
    """Have a method give the road up where it raises: the program goes on, and is seen as ever."""

    def guard(method: _Method) -> _Method:
        @functools.wraps(method)
        def guarded(self: FastRoad, *given: Any) -> Any:
            try:
                return method(self, *given)
            except Exception as error:
                self.give_up(error)
                return otherwise

        return guarded  # type: ignore[return-value]

    return guard


class FastRoad:
    """The fast road of a run.

    Args:
        library: The observer.
        operations: Of the run.

    Attributes:
        following: The script that the step follows, or None.
        journal: What takes down a step that is seen operator by operator, or None.
        steps: How many steps followed a script to their end.
    """

    def __init__(self, library: Any, operations: Operations) -> None:
        self._library = library
        self._operations = operations
        self._emitter = operations.emitter
        self._off = os.environ.get(VARIABLE, "") == "0"
        self.following: StepScript | None = None
        self.journal: StepJournal | None = None
        self.steps = 0
        self._scripts = Scripts()
        self._followed = 0  # steps that followed it since Python knew all
        self._base: int | None = None  # of the last of these
        self._known_before = 0
        self._marks: dict[tuple[Any, ...], int] = {}
        self._state: ThreadState | None = None

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Have it told of scopes, quiet places, and of what probes want."""
        bus = self._emitter.bus
        places.tell(self._library)
        follow(self.mark)
        bus.on_change = self.interrupt
        try:
            yield
        finally:
            bus.on_change = bus.catch_up = None
            follow(None)

    def give_up(self, error: Exception) -> None:
        """Follow nothing any more."""
        self._off, self.following = True, None
        self._emitter.bus.catch_up = None
        self._take_down(None)
        self._library.stop()
        self._operations.complain(error)

    # Steps

    @_guarded()
    def step_begins(self) -> None:
        """A step begins: it follows a script, or is taken down."""
        if self._off:
            return
        level = self._emitter.bus.block_level()
        before, followed = self.following, False
        if before is not None:
            followed = self._library.position() == len(before)
            self.flush()
            self._scripts.ended(before if followed else None)
        elif self.journal is not None:
            made = scripted(self._library, self.journal, self._operations, self._known_before)
            self._scripts.ended(None if made is None else self._scripts.add(made))
            self._take_down(None)
        else:
            self._scripts.ended(None)
        script = self._scripts.next()
        if script is not None and not self._may(script, level):
            script = None
        self.steps += followed
        if followed and script is before and script is not None:
            _, self._base = self._library.stop()
            self._followed += 1
            self._follow(script, level)
            return
        self.lose()
        if script is not None and script.fits(self._operations):
            self._follow(script, level)
        elif level is not None:
            self._known_before = self._library.record()
            self._take_down(StepJournal(self._emitter.identity.version))

    def _may(self, script: StepScript, level: str | None) -> bool:
        return level is not None and (level != "summary" or script.summarised)

    def _follow(self, script: StepScript, level: str | None) -> None:
        self._state = current()
        self.following = script
        self._emitter.bus.catch_up = self.flush
        self._library.follow(script.handle, level == "summary")

    def _take_down(self, journal: StepJournal | None) -> None:
        self.journal = journal
        self._emitter.journal = self._operations.values.journal = journal

    @_guarded()
    def lose(self) -> None:
        """Follow no script any more: Python sees each operator from the next one on."""
        script, self.following = self.following, None
        if script is None:
            return
        position, base = self._library.stop()
        self.flush(script)
        self._emitter.bus.catch_up = None
        bring_back(
            self._operations, script, self._library.tell(), position, base,
            followed=self._base if self._followed else None, state=self._state,
        )  # fmt: skip
        self._followed, self._base = 0, None

    @_guarded()
    def end(self) -> None:
        """The run ends, or goes unobserved."""
        self.lose()
        self._take_down(None)
        self._library.stop()

    @_guarded()
    def interrupt(self) -> None:
        """Somebody may want to see each operator: called on any thread."""
        if self.following is not None and self._emitter.bus.block_level() is None:
            self._library.interrupt()

    # What was noted

    @_guarded()
    def flush(self, script: StepScript | None = None) -> None:
        """Emit what was noted so far."""
        script = script or self.following
        taken = self._library.take() if script is not None else None
        if taken is None or script is None:
            return
        first, last, notes, statistics, varied = taken
        ran = slice(script.executed[first], script.executed[last])
        bus, state = self._emitter.bus, self._state
        if ran.start == ran.stop or state is None:
            return
        attrs: dict[int, dict[str, Any]] = {}
        table = None
        if statistics is not None:
            table = np.frombuffer(statistics, dtype=STATISTICS)
            attrs = {at: known for at, known in script.attrs.items() if ran.start <= at < ran.stop}
            for place, given in varied:
                self._attrs(script, place, given, attrs)
        times = script.times(first, last, notes, bus.origin_ns)
        bus.emit(
            NodesFinished(
                script.track, ran.start, times, self._emitter.step, state.thread, attrs, table
            )
        )

    def _attrs(
        self, script: StepScript, place: int, given: list[tuple[int, Any]],
        attrs: dict[int, dict[str, Any]],
    ) -> None:  # fmt: skip
        """The attributes of an operator whose arguments are not those of the script."""
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

    # Where the program is

    @_guarded()
    def mark(self, state: ThreadState) -> None:
        """The thread's scope or phase has changed."""
        key = (state.scope, state.phase, state.forward)
        number = self._marks.setdefault(key, len(self._marks))
        self._operations.place.mark = number
        self._library.mark(number)

    def after(self, state: ThreadState, place: Place) -> After:
        """Where the thread is after an operator."""
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

    @_guarded(False)
    def arrived(self, parameter: Any, gradient: Any) -> bool:
        """Whether the arrival of a parameter's gradient needs nothing done."""
        script = self.following
        if self._library.arrived(parameter, gradient) and script is not None:
            pair = script.items[self._library.position() - 1].pair
            if pair is not None:
                self._emitter.pair(*pair)
            return True
        self.lose()
        return False
