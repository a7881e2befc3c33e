"""DevicePath: the fast path for steps that run on a device.

The observer enqueues events, statistics and copies. This module processes those enqueued since its
last call: the clock queries the times, and the recorder waits for statistics and copies.

Invariant: memory that the device writes to is reused only when the device has finished writing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from nodescope.adapters.torch.device import runtime as devices
from nodescope.adapters.torch.device.captures import ROW_BYTES
from nodescope.adapters.torch.device.kernel import CODES, most_blocks
from nodescope.adapters.torch.device.memory import Block
from nodescope.adapters.torch.device.runtime import Event, Runtime
from nodescope.errors import ArrayError
from nodescope.events import Array
from nodescope.record.blocks import NOT_KNOWN, STATISTICS

if TYPE_CHECKING:
    from nodescope.adapters.torch.native_tap.step_script import StepScript

_CODES: Final = 9


class Written:
    """Memory that the device writes to in a step.

    Attributes:
        bytes: The memory.
        moments: The events after everything enqueued so far; the device writes nothing after them.
    """

    def __init__(self, runtime: Runtime, block: Block, nbytes: int) -> None:
        self._runtime, self._block = runtime, block
        self.bytes = block.bytes(nbytes)
        self.address = block.address
        self.moments: list[Event] = []

    def __del__(self) -> None:
        for event in self.moments[:-1]:
            self._runtime.retire(event, None)
        if self.moments:
            self._runtime.retire(self.moments[-1], self._block)


class Rows:
    """Statistics of a part of a step, as an array for the recorder; see `NodesFinished.statistics`.

    Attributes:
        nbytes: The size of the rows in bytes.
    """

    def __init__(
        self, runtime: Runtime, memory: Written, first: int, count: int, moments: list[Event]
    ) -> None:
        self._runtime, self._memory, self._moments = runtime, memory, moments
        self._first, self._count = first, count
        self.nbytes = count * ROW_BYTES

    def __len__(self) -> int:
        return self._count

    def resolve(self) -> Array:
        """Wait for the rows; if the device has failed, all are marked as not known."""
        begin = self._first * ROW_BYTES
        try:
            for event in self._moments:
                self._runtime.wait(event)
        except ArrayError:
            table = np.zeros(self._count, STATISTICS)
            table["previewed"] = NOT_KNOWN
            return table
        return self._memory.bytes[begin : begin + self.nbytes].view(STATISTICS).copy()


class Arrived:
    """Waits until the device has made copies; raises `ArrayError` if it has failed."""

    def __init__(self, runtime: Runtime, memory: Any, moments: list[Event]) -> None:
        self._runtime, self._moments = runtime, moments
        self.memory = memory

    def __call__(self) -> None:
        """Wait."""
        for event in self._moments:
            self._runtime.wait(event)


class DevicePath:
    """The statistics, copies and events that the observer enqueues on the device.

    Args:
        library: The observer.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self._runtime: Runtime | None = None
        self._index = -1
        self._kernels: dict[int, int] = {}
        self._known: set[tuple[int, int]] = set()
        self._rows: Written | None = None
        self._copies: Written | None = None

    def ready(self, index: int) -> bool:
        """Set the observer's device; False if it is set already, or no device is used."""
        runtime = devices.chosen()
        if runtime is None or self._runtime is not None:
            return False
        self._runtime, self._index = runtime, index
        self._tell()
        return True

    def forget(self) -> None:
        """Stop following operators on devices."""
        if self._runtime is not None:
            self._library.rows(0)
            self._library.no_device()
            self._runtime = None

    def begin(self, script: StepScript, *, statistics: bool) -> None:
        """Prepare the device for a step that follows a script."""
        runtime = self._runtime
        self._rows = None
        if runtime is None or script.device < 0:
            return
        if not statistics:
            self._library.rows(0)
            return
        missing = {
            CODES[dtype]
            for dtype in {getattr(torch, known.dtype) for known in script.track.values}
            if dtype in CODES and CODES[dtype] not in self._kernels
        }
        for code in missing:
            self._kernels[code] = runtime.driver.kernel_address(self._index, code)
        if missing:
            self._tell()
        for stream in runtime.latest.get(self._index, {}):
            if (self._index, stream) not in self._known:
                self._known.add((self._index, stream))
                self._library.scratch(stream, runtime.driver.scratch(self._index, stream))
        self._rows = self.memory(len(script.track.values) * ROW_BYTES)
        self._library.rows(0 if self._rows is None else self._rows.address)

    def memory(self, nbytes: int) -> Written | None:
        """Memory that the device can write to; None if there is no room."""
        runtime = self._runtime
        block = None if runtime is None else runtime.take(max(nbytes, 1))
        return None if runtime is None or block is None else Written(runtime, block, nbytes)

    def enqueued(self, streams: list[int], *memories: Written | None) -> list[Event]:
        """Enqueue events after everything that was enqueued for a step so far, and return them.

        Args:
            streams: The streams that were used.
            memories: The memory that is written to, besides the rows of statistics.
        """
        runtime = self._runtime
        if runtime is None:
            return []
        moments = [runtime.moment(self._index, stream) for stream in streams]
        for memory in (self._rows, *memories):
            if memory is not None and moments:
                memory.moments = moments
        return moments

    def rows(self, first: int, count: int, moments: list[Event]) -> Rows | None:
        """Some of the statistics of the step."""
        if self._runtime is None or self._rows is None:
            return None
        return Rows(self._runtime, self._rows, first, count, moments)

    def arrived(self, memory: Written, moments: list[Event]) -> Arrived | None:
        """A function that waits for copies; None if no device is followed."""
        return None if self._runtime is None else Arrived(self._runtime, memory, moments)

    def _tell(self) -> None:
        runtime = self._runtime
        assert runtime is not None
        driver = runtime.driver
        kernels = tuple(self._kernels.get(code, 0) for code in range(_CODES))
        most = most_blocks(driver.multiprocessors(self._index))
        self._library.device(driver.addresses(), kernels, self._index, most, driver.pretends)
