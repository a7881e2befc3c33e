"""Steps: when training steps begin and end, and whether they run unobserved.

Steps are marked by the program (`Steps.begin_step`), or end with the optimizer's step
(`optimizer_stepped`), or begin with outermost calls (`root_called`).

Invariant: whether a step is observed is decided before it begins; every step is emitted, and short
unobserved steps are emitted together (`emit.unobserved_steps`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from nodescope.emit.frames import calling_line
from nodescope.emit.losses import Losses
from nodescope.emit.state import current
from nodescope.emit.unobserved_steps import UnobservedSteps
from nodescope.events import Bus, HostSpan, LossesKnown, StepFinished, StepStarted
from nodescope.ir.identity import Identity
from nodescope.polling_lock import polling_lock

# The shortest fetching of an item, compiling, or unobserved call that is emitted as a span.
LEAST_SPAN_NS = 50_000

_now = time.perf_counter_ns


class Attachment(Protocol):
    """An adapter's attachment to its library."""

    def rest(self) -> None:
        """Emit nothing until `wake`, because a step runs unobserved."""

    def wake(self) -> None:
        """Emit again."""

    def step_begins(self) -> None:
        """Note that an observed step begins."""

    def steps_end(self) -> None:
        """Note that unobserved steps have ended; what follows counts as part of the last observed
        step.
        """

    def forked(self) -> None:
        """Handle a fork in the child: emit nothing any more, without touching shared state."""


class Outside(NamedTuple):
    """The counts around a model call, which `Steps.end_call` restores."""

    epoch: object
    steady: object
    marked: bool
    varied: bool


class Steps:
    """The steps of one run.

    Args:
        bus: The bus that receives the events.
        identity: The identity of the run's nodes.

    Attributes:
        step: The number of the training step; 0 before the first.
        epoch: The token of this step: a cursor with another token counts from zero.
        steady: The same token while no value has changed its shape in this step, otherwise None.
        stepped: Whether there have been steps, marked by the program or by its library.
        counts_rounds: Whether calls after steps are counted within rounds of loops, unless there is
            a further attachment, which does not.
        marked: Whether calls are counted within a step or a model call, not within rounds.
        observed: Whether this step is observed.
        step_open: Whether a step is running.
        attachments: The adapters' attachments, informed when observation rests.
        resting: Whether observation rests.
        on_rest: Called with ``resting`` when it changes; or None.
        losses: The losses of this step.
        outside: The counts around the model call under way, or None.
    """

    __slots__ = (  # read by the native core
        "__dict__", "__weakref__", "epoch", "marked", "steady", "step",
    )  # fmt: skip

    def __init__(self, bus: Bus, identity: Identity) -> None:
        self.bus = bus
        self.identity = identity
        self.step = 0
        self.epoch: object = object()
        self.steady: object = self.epoch
        self.stepped = self.marked = self.counts_rounds = False
        self.observed = True
        self.step_open = False
        self.resting = False
        self.on_rest: Callable[[bool], None] | None = None
        self.attachments: tuple[Attachment, ...] = ()
        self.losses = Losses()
        self.outside: Outside | None = None
        self.lock = polling_lock()  # reentrant: signal handlers may compute here
        self._varied = False  # whether a value has changed its shape in this step
        self._calling = False  # an outermost call outside of steps
        self._due = False  # the next call begins a step
        self._inferred = False  # whether the library's behaviour separates steps
        self._whole = False  # whether the open step is one outermost call
        self._unobserved = UnobservedSteps()
        self._surely = 0  # unobserved steps after this one, unless a probe's demand changes
        self._demand = bus.demand
        self._tell = bus.tell_steps = self.tell_unobserved

    @property
    def between_steps(self) -> bool:
        """Whether an optimizer has ended a step, and the next operation begins one."""
        return self._due

    def begin_step(self) -> None:
        """Begin the next step and end the previous one. It may be left out: see
        `Bus.leaves_out`.
        """
        self._inferred = False
        if not (self._surely and self._begin_unobserved()):
            self._begin()

    def _begin_unobserved(self) -> bool:
        """Begin a step that is to run unobserved, unless a probe's demand has changed."""
        if self.step_open or self.losses.owes:
            self.end_step()
        bus, tell = self.bus, self._tell
        catch_up = bus.catch_up
        with self.lock:
            if bus.demand is not self._demand or not (catch_up is None or catch_up is tell):
                self._surely = 0
            if not self._surely:
                return False
            self._surely -= 1
            self.step += 1
            self.step_open = True
            self._unobserved.begin(self.step, bus.now_ns())
            bus.catch_up = tell
        return True

    def tell_unobserved(self) -> None:
        """Emit the unobserved steps that have been noted."""
        bus = self.bus
        with self.lock:  # waits for another thread that emits them
            if bus.catch_up is self._tell:
                bus.catch_up = None
                event = self._unobserved.take()
                if event is not None:
                    bus.emit(event)

    def begin_due(self) -> None:
        """Begin the step that the next call would begin, if one is due."""
        if self._due:
            self._begin()

    def _begin(self) -> None:
        bus = self.bus
        if self.step_open:
            self.end_step()
        else:
            self.tell_losses()
        self.tell_unobserved()
        self._due = False
        left_out = 0 if bus.leaves_out is None else bus.leave_out(self.step + 1)
        self.observed = not left_out
        self._surely, self._demand = max(left_out - 1, 0), bus.demand
        with self.lock:
            if self.observed:
                for attachment in self.attachments:
                    attachment.step_begins()
                self.epoch = object()
                # Changes made by the last step may reach this one.
                self.steady = None if self._varied else self.epoch
                self._varied = False
            elif self._inferred:
                # The operation that begins a step is emitted before the step can be left out.
                self.epoch = object()
            if not self.stepped:  # a batch generator keeps its nodes when steps begin
                self.identity.forget_loops()
            self.outside = None
            self.step += 1
            self.step_open = self.stepped = self.marked = True
        if self.observed:
            self._wake()
        else:
            self._rest()
        bus.emit(StepStarted(self.step, bus.now_ns(), self.observed))

    def end_step(self) -> None:
        """End the open step, if any."""
        if self.step_open:
            self.step_open = False
            now, losses = self.bus.now_ns(), self.losses.taken(self.step)
            if self._surely:
                for loss in losses:
                    if not math.isfinite(loss.value):
                        self._surely = 0  # a probe may want to observe the next step
            with self.lock:
                if self._unobserved.running:  # no other thread has emitted it
                    self._unobserved.end(now, losses)
                    return
            self.bus.emit(StepFinished(self.step, now, self.observed, losses))
        self.tell_losses()

    def tell_losses(self, *, wait: bool = False) -> None:
        """Emit the losses of ended steps that devices have computed by now.

        Args:
            wait: Whether to wait for all of them, as the program has ended.
        """
        if wait:
            self.losses.wait()
        if self.losses.owes:
            for step, losses in self.losses.known():
                self.bus.emit(LossesKnown(step, losses))

    def end_of_steps(self, *, broken: bool = False) -> None:
        """Note that no step follows for now: observation resumes if the last step was unobserved.

        Calls continue the counts of the last observed step, as if that had just ended; those in
        loops are counted within a round, if `counts_rounds` is set.

        Args:
            broken: Whether the last step was aborted.
        """
        self.tell_unobserved()
        self._surely = 0
        self.bus.leave_out(-1 if broken else 0)
        if not self._inferred:
            self.count_rounds()
        if self.observed:
            return
        self.observed = True
        self._wake()
        for attachment in self.attachments:
            attachment.steps_end()

    def count_rounds(self) -> None:
        """Count calls within rounds of loops from now on, if that is possible."""
        if not self.step_open and self.outside is None:
            self.marked = self.stepped and not (self.counts_rounds and len(self.attachments) < 2)

    def optimizer_stepped(self) -> None:
        """Note that the optimizer has changed the parameters: the step ends; the next call begins
        one.

        Does nothing if the program marks its steps.
        """
        if self.stepped and not self._inferred:
            return
        self._inferred, self._whole = True, False
        self.end_step()
        if not self.observed:
            self.end_of_steps()
        self._due = True

    def root_called(self, *, whole: bool = False) -> None:
        """Note that an outermost call of a model begins, and with it a step, unless one is open.

        Does nothing if the program marks its steps.

        Args:
            whole: Whether the call is a step of its own, so that the next call begins another one;
                true in an evaluation, where no optimizer ends a step.
        """
        if self._inferred or not self.stepped:
            self._inferred = True
            if not self.step_open or self._whole:
                if not self.observed:
                    self.end_step()
                    self.end_of_steps()
                self._begin()
            self._whole = whole

    def fetched(self, asked_ns: int) -> None:
        """Emit that the program waited for the item of the next step, unless the wait was short."""
        bus = self.bus
        now = _now()
        if now - asked_ns < LEAST_SPAN_NS:
            return
        file, line, function = calling_line()
        start = max(asked_ns - bus.origin_ns, 0)
        bus.emit(
            HostSpan("data", current().thread, self.step + 1, start, now - bus.origin_ns,
                     file, line, function)
        )  # fmt: skip

    def compiled(self, name: str, file: str, line: int, start_ns: int) -> None:
        """Emit that a function was traced, or its graph compiled, since ``start_ns``."""
        bus, end_ns = self.bus, _now()
        if end_ns - start_ns >= LEAST_SPAN_NS:
            times = (max(start_ns - bus.origin_ns, 0), end_ns - bus.origin_ns)
            thread = current().thread
            bus.emit(HostSpan("compiling", thread, self.step, *times, file, line, name))

    def outermost_call(self, call: Callable[[], Any]) -> Any:
        """Run a call of a module that no other module owns. It may run unobserved, see
        `Bus.leaves_out`.

        Calls run unobserved only outside of steps. Gradients of such a call would flow to nodes
        that were never emitted, so the caller ensures that there are none.
        """
        bus = self.bus
        if bus.leaves_out is None or self.step_open or self._calling:
            return call()
        self._calling = True
        left_out, ended = bus.leave_out(1, "call"), -1
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
            bus.leave_out(ended, "call")

    def begin_call(self, *, varied: bool) -> Outside:
        """Begin a model call outside of steps: it is counted like a step, from zero.

        Args:
            varied: Whether a value changed its shape in the call before.

        Returns:
            What `end_call` restores.
        """
        with self.lock:
            outside = Outside(self.epoch, self.steady, self.marked, self._varied)
            self.epoch, self.marked, self._varied = object(), True, False
            self.steady = None if varied or outside.varied else self.epoch
            self.outside = outside
        return outside

    def end_call(self, outside: Outside) -> bool:
        """End a model call; return whether a value changed its shape in it."""
        with self.lock:
            varied = self._varied
            if self.outside is outside:  # no step has begun in it
                self.outside = None
                self.epoch, self.steady, self.marked, self._varied = outside
                if varied:
                    self._varied, self.steady = True, None
        return varied

    def _rest(self) -> None:
        self._set_resting(True)
        for attachment in self.attachments:
            attachment.rest()

    def _wake(self) -> None:
        self._set_resting(False)
        for attachment in self.attachments:
            attachment.wake()

    def _set_resting(self, resting: bool) -> None:
        if resting != self.resting:
            self.resting = resting
            if self.on_rest is not None:
                self.on_rest(resting)

    def _tell_left_out(self, start_ns: int) -> None:
        """Emit that a call ran unobserved, unless it was short."""
        now = self.bus.now_ns()
        if now - start_ns >= LEAST_SPAN_NS:
            file, line, function = calling_line()
            span = HostSpan("unobserved", current().thread, self.step, start_ns, now,
                            file, line, function)  # fmt: skip
            self.bus.emit(span)
