"""Steps: when a training step begins and ends, and whether it goes unobserved.

Steps are marked by the program (`Steps.begin_step`), or end with the optimizer's
(`optimizer_stepped`), or begin with outermost calls (`root_called`).

Invariant: what is left out was decided before it began; the bus is told of every step.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from nodescope.emit.frames import calling_line
from nodescope.emit.losses import Losses
from nodescope.emit.state import current
from nodescope.events import Bus, HostSpan, StepFinished, StepStarted
from nodescope.ir.identity import Identity

# Fetching an item, or compiling, is told of from here on.
LEAST_FETCH_NS = 50_000

_now = time.perf_counter_ns


class Attachment(Protocol):
    """An adapter's attachment to its library."""

    def rest(self) -> None:
        """Emit nothing until `wake`: a step goes unobserved."""

    def wake(self) -> None:
        """Emit again."""

    def step_begins(self) -> None:
        """A step that is observed begins."""

    def steps_end(self) -> None:
        """Unobserved steps have ended, and what follows counts as the last observed one."""

    def forked(self) -> None:
        """This is a forked child: emit nothing any more, without touching what is shared."""


class Steps:
    """The steps of one run.

    Args:
        bus: Where events go.
        identity: The nodes of the run.

    Attributes:
        step: The number of the training step; 0 before the first.
        epoch: Of this step: a cursor that holds another counts from zero.
        steady: The same, while no value has another shape than before in this step; else None.
        marked: Whether steps are told apart, by the program or by its library.
        observed: Whether this step is.
        step_open: Whether a step runs.
        attachments: What is attached; told when observation rests.
        resting: Whether it does.
        losses: Of this step.
    """

    def __init__(self, bus: Bus, identity: Identity) -> None:
        self.bus = bus
        self.identity = identity
        self.step = 0
        self.epoch: object = object()
        self.steady: object = self.epoch
        self.marked = False
        self.observed = True
        self.step_open = False
        self.resting = False
        self.attachments: tuple[Attachment, ...] = ()
        self.losses = Losses()
        self.lock = threading.RLock()  # a signal handler may compute here, too
        self._varied = False  # whether a value had another shape, in this step
        self._calling = False  # an outermost call, outside of steps
        self._due = False  # the next call begins a step
        self._inferred = False  # whether steps are told apart by what the library does

    def begin_step(self) -> None:
        """Begin the next step, ending the one before. It may be left out: see `Bus.leaves_out`."""
        self._inferred = False
        self._begin()

    def _begin(self) -> None:
        self.end_step()
        bus = self.bus
        self._due = False
        self.observed = not bus.leave_out(self.step + 1)
        with self.lock:
            if self.observed:
                for attachment in self.attachments:
                    attachment.step_begins()
                self.epoch = object()
                # What the last step changed may reach this one.
                self.steady = None if self._varied else self.epoch
                self._varied = False
            if not self.marked:  # what a generator of batches made before is what it makes in steps
                self.identity.forget_loops()
            self.step += 1
            self.step_open = self.marked = True
        if self.observed:
            self._wake()
        else:
            self._rest()
        bus.emit(StepStarted(self.step, bus.now_ns(), self.observed))

    def end_step(self) -> None:
        """End the step that is open, if any."""
        if self.step_open:
            self.step_open = False
            now, losses = self.bus.now_ns(), self.losses.taken()
            self.bus.emit(StepFinished(self.step, now, self.observed, losses))

    def end_of_steps(self, *, broken: bool = False) -> None:
        """No step follows for now: what runs is observed again, if the last step was left out.

        Calls are counted on from the last step that was observed, as if it had been this one.

        Args:
            broken: The last step was not gone through to its end.
        """
        self.bus.leave_out(-1 if broken else 0)
        if self.observed:
            return
        self.observed = True
        self._wake()
        for attachment in self.attachments:
            attachment.steps_end()

    def optimizer_stepped(self) -> None:
        """The optimizer has changed the parameters: the step ends, and the next call begins one.

        Where the program marks its steps, nothing happens.
        """
        if self.marked and not self._inferred:
            return
        self._inferred = True
        self.end_step()
        if not self.observed:
            self.end_of_steps()
        self._due = True

    def root_called(self) -> None:
        """An outermost call of a model begins, and with it a step, unless one is open.

        Where the program marks its steps, nothing happens.
        """
        if self._inferred or not self.marked:
            self._inferred = True
            if not self.step_open:
                self._begin()

    def fetched(self, asked_ns: int) -> None:
        """Emit that the item of the next step was waited for, unless it was there at once."""
        bus = self.bus
        now = _now()
        if now - asked_ns < LEAST_FETCH_NS:
            return
        file, line, function = calling_line()
        start = max(asked_ns - bus.origin_ns, 0)
        bus.emit(
            HostSpan("data", current().thread, self.step + 1, start, now - bus.origin_ns,
                     file, line, function)
        )  # fmt: skip

    def compiled(self, name: str, file: str, line: int, start_ns: int) -> None:
        """Emit that a function was traced, or its graph compiled, since a moment of our clock."""
        bus, end_ns = self.bus, _now()
        if end_ns - start_ns >= LEAST_FETCH_NS:
            times = (max(start_ns - bus.origin_ns, 0), end_ns - bus.origin_ns)
            thread = current().thread
            bus.emit(HostSpan("compiling", thread, self.step, *times, file, line, name))

    def outermost_call(self, call: Callable[[], Any]) -> Any:
        """Run a call of a module that no other owns. It may be left out, see `Bus.leaves_out_call`.

        Only after the first step, and outside of steps. Gradients of a call that was left out would
        flow to nodes that nobody saw: who asks makes sure that there are none.
        """
        bus = self.bus
        if bus.leaves_out_call is None or self.step_open or self._calling or not self.step:
            return call()
        self._calling = True
        left_out, ended = bus.leave_out_call(1), -1
        start = bus.now_ns()
        if left_out:
            self._rest()
        try:
            result = call()
            ended = 0
            return result
        finally:
            if left_out:
                self._wake()
                self._tell_left_out(start)
            self._calling = False
            bus.leave_out_call(ended)

    def _rest(self) -> None:
        self.resting = True
        for attachment in self.attachments:
            attachment.rest()

    def _wake(self) -> None:
        self.resting = False
        for attachment in self.attachments:
            attachment.wake()

    def _tell_left_out(self, start_ns: int) -> None:
        """Emit that a call ran which was left out."""
        file, line, function = calling_line()
        span = HostSpan("unobserved", current().thread, self.step, start_ns, self.bus.now_ns(),
                        file, line, function)  # fmt: skip
        self.bus.emit(span)
