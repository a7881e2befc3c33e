"""DeviceTimes: the operations' access to the clock of a run.

Invariant: no time is taken while all tensors are on the host, or only the graph is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from nodescope.adapters.torch.device import runtime as devices
from nodescope.adapters.torch.device.clock import Clock
from nodescope.adapters.torch.device.runtime import Event
from nodescope.emit.emitter import Emitter
from nodescope.errors import ArrayError

if TYPE_CHECKING:
    from nodescope.adapters.torch.signatures import Bound


class Enqueued(NamedTuple):
    """An operation that was enqueued: its device, and the events around it in the stream."""

    device: int
    moments: tuple[Event | None, Event]


class DeviceTimes:
    """When devices ran the operations of a run."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._clock: Clock | None = None
        self.is_off = False
        """Whether times are not taken."""
        self.index = -1
        """The device that was used first; -1 for none."""

    def begin_step(self) -> None:
        """Find out whether times are taken in this step."""
        self.is_off = self._emitter.bus.block_level() == "graph"

    def enqueued(self, bound: Bound, result: Any) -> Enqueued | None:
        """Note that an operation was called just now; None if it ran on the host.

        Args:
            bound: Its arguments.
            result: What it returned.
        """
        index = -1
        for tensor in bound.inputs:
            index = _index_of(tensor)
            if index >= 0:
                break
        else:
            results = result if isinstance(result, list | tuple) else (result,)
            for tensor in results:
                if isinstance(tensor, torch.Tensor):
                    index = _index_of(tensor)
                    break
        if index < 0:
            return None
        if self.index < 0:
            self.index = index
        if self.is_off:
            return None
        try:
            clock = self.clock()
            moments = None if clock is None else clock.moment(index)
        except ArrayError:  # the device has failed: times recorded so far stay
            self.is_off = True
            return None
        return None if moments is None else Enqueued(index, moments)

    def ran(self, enqueued: Enqueued, node: int, called_ns: int) -> None:
        """Note the node that was enqueued, and when it was called, by `time.perf_counter_ns`."""
        if self._clock is not None:
            called = called_ns - self._emitter.bus.origin_ns
            self._clock.mark(enqueued.device, node, called, enqueued.moments)

    def clock(self) -> Clock | None:
        """The clock of the run; None if there is no runtime for devices."""
        if self._clock is None:
            runtime = devices.runtime()
            if runtime is not None:
                self._clock = Clock(runtime, self._emitter)
        return self._clock

    def end(self) -> None:
        """Emit the remaining times and losses."""
        if self._clock is not None:
            self._clock.end()
            self._clock, self.is_off = None, True
        self._emitter.tell_losses(wait=True)

    def forked(self) -> None:
        """Discard everything, in the child of a fork."""
        if self._clock is not None:
            self._clock.forked()
        self.is_off = True


def _index_of(tensor: Any) -> int:
    return -1 if tensor.is_cpu and devices.chosen() is None else devices.index_of(tensor)
