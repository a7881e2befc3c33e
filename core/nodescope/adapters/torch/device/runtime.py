"""Runtime: events, memory and streams of the process's devices.

Invariant: threads of the program enqueue and query here, but do not wait. Memory that a device may
still write to is not used for anything else.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import Any, Final

from nodescope.adapters.torch.device.driver import CudaDriver, Driver
from nodescope.adapters.torch.device.memory import Block, HostMemory
from nodescope.console_output import say
from nodescope.errors import ArrayError

_SHORTEST_S: Final = 50e-6
_LONGEST_S: Final = 2e-3
_MOST_RETIRED: Final = 64


class Event:
    """An event in a stream. Its handle is reused once the object is freed."""

    __slots__ = ("_free", "handle", "stream")

    def __init__(self, handle: int, stream: int, free: list[int]) -> None:
        self.handle, self.stream, self._free = handle, stream, free

    def __del__(self) -> None:
        self._free.append(self.handle)


class Runtime:
    """The devices of the process.

    Attributes:
        driver: Calls the devices' driver.
        memory: Host memory to which devices write.
        latest: By device: the latest event that `moment` recorded in each of its streams.
        last_stream: By device: the stream in which `moment` recorded last.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.memory = HostMemory(driver.host_memory)
        self.latest: dict[int, dict[int, Event]] = {}
        self.last_stream: dict[int, int] = {}
        self._events: dict[int, list[int]] = {}
        self._retired: deque[tuple[Event, Block | None]] = deque()
        self._lock = threading.Lock()
        self._warned = False

    def stream(self, index: int) -> int | None:
        """The stream in which the calling thread enqueues; None while a graph is captured there."""
        stream = self.driver.stream(index)
        if not self.driver.is_captured(index, stream):
            return stream
        if not self._warned:
            self._warned = True
            say(
                "a CUDA graph is captured: its operators are recorded without device times and "
                "values, and its replays are not seen"
            )
        return None

    def moment(self, index: int, stream: int) -> Event:
        """Record an event in a stream, after the work enqueued so far."""
        event = self.event(index, stream)
        self.driver.record(index, event.handle, stream)
        self.latest.setdefault(index, {})[stream] = event
        self.last_stream[index] = stream
        return event

    def event(self, index: int, stream: int) -> Event:
        """An event that is not enqueued yet."""
        free = self._events.setdefault(index, [])
        try:
            handle = free.pop()
        except IndexError:
            handle = self.driver.event(index)
        return Event(handle, stream, free)

    def after_the_last(self, index: int, stream: int) -> None:
        """Have further work in a stream wait for the stream that the program used last."""
        last = self.last_stream.get(index)
        if last is not None and last != stream:
            event = self.latest[index].get(last)
            if event is not None:
                self.driver.wait(index, stream, event.handle)

    def wait(self, event: Event) -> None:
        """Wait until the device has reached an event; for nodescope's threads, or on request.

        Raises:
            ArrayError: The device has failed.
        """
        pause = _SHORTEST_S
        with self.driver.unhindered():
            while not self.driver.is_done(event.handle):
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_S)

    def take(self, nbytes: int) -> Block | None:
        """Memory for the device to write to; None if there is no room."""
        if len(self._retired) >= _MOST_RETIRED:
            self._sweep()
        return self.memory.take(nbytes)

    def retire(self, event: Event, block: Block | None) -> None:
        """Return memory for reuse once the device has reached an event."""
        with self._lock:
            self._retired.append((event, block))

    def _sweep(self) -> None:
        with (
            self._lock,
            contextlib.suppress(ArrayError),
        ):  # after an error, keep the memory: a device that has failed may still write to it
            for _ in range(len(self._retired)):
                event, block = self._retired[0]
                if not self.driver.is_done(event.handle):
                    return
                if block is not None:
                    self.memory.give_back(block)
                self._retired.popleft()


_runtime: Runtime | None = None
_failed = False
_lock = threading.Lock()


def use(runtime: Runtime | None) -> None:
    """Use another runtime from now on; for tests."""
    global _runtime
    _runtime = runtime


def chosen() -> Runtime | None:
    """The runtime if a device was used already, else None."""
    return _runtime


def index_of(tensor: Any) -> int:
    """The index of the device that holds a tensor; -1 if it is in host memory, or if CUDA's driver
    cannot be called.
    """
    if _runtime is not None:
        return _runtime.driver.index_of(tensor)
    return int(tensor.get_device()) if tensor.is_cuda and not _failed else -1


def runtime() -> Runtime | None:
    """The runtime, created at first use; None if CUDA's driver cannot be called, in which case
    reads wait for the device.
    """
    global _runtime, _failed
    if _runtime is None and not _failed:
        with _lock:
            if _runtime is None:
                try:
                    _runtime = Runtime(CudaDriver())
                except (OSError, AttributeError) as error:
                    _failed = True
                    say(f"CUDA's driver cannot be called, so devices are waited for: {error}")
    return _runtime
