"""A simulated device, which completes work when a test says so. Its tensors are CPU tensors.

It computes enqueued work at once into hidden memory, and copies the results to their destination
when the work completes, like a device with a long queue.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from nodescope.adapters.torch.device import kernel, runtime
from nodescope.adapters.torch.device.runtime import Runtime
from nodescope.adapters.torch.tensors import host_array
from nodescope.errors import ArrayError
from nodescope.record.blocks import STATISTICS
from nodescope.record.summary import summarise

STREAM = 0
TOOK_NS = 1000
# The observer keeps events that are no longer needed, beyond the driver that made them.
_handles = itertools.count(101)


class FakeDriver:
    """See `Driver`.

    Attributes:
        lazy: Whether work completes only with `advance`, and not at once.
        broken: Whether it has failed.
        capturing: Whether a CUDA graph is being captured.
        pretends: See `Driver`.
        launched: The number of kernels that the observer has launched.
    """

    def __init__(self) -> None:
        self.lazy = self.broken = self.capturing = False
        self.pretends = True
        self.launched = 0
        self.current = STREAM
        self.waits: list[tuple[int, int]] = []
        self._queue: deque[Callable[[], None]] = deque()
        self._done: dict[int, int] = {}  # The device's time by event.
        self._memory: list[Any] = []
        self._tensors: dict[int, Any] = {}
        self.clock = time.perf_counter_ns

    def advance(self, things: int = 1 << 30) -> None:
        """Complete some of the enqueued work."""
        while things and self._queue:
            self._queue.popleft()()
            things -= 1

    @property
    def waiting(self) -> int:
        """The number of enqueued pieces of work."""
        return len(self._queue)

    def _enqueue(self, thing: Callable[[], None]) -> None:
        if self.broken:
            raise ArrayError("the device has failed (CUDA_ERROR_ASSERT)")
        self._queue.append(thing)
        if not self.lazy:
            self.advance()

    def index_of(self, tensor: Any) -> int:
        return 0

    def stream(self, index: int) -> int:
        return self.current

    def is_captured(self, index: int, stream: int) -> bool:
        return self.capturing

    def event(self, index: int) -> int:
        return next(_handles)

    def record(self, index: int, event: int, stream: int) -> None:
        self._done.pop(event, None)
        if stream != STREAM and stream < 100:
            self._enqueue(lambda: self._done.__setitem__(event, self.clock()))
        elif stream >= 100:  # The stream has no other work.
            self._done[event] = self.clock()
        else:
            self._enqueue(lambda: self._done.__setitem__(event, self.clock()))

    def wait(self, index: int, stream: int, event: int) -> None:
        self.waits.append((stream, event))

    def is_done(self, event: int) -> bool:
        if self.broken:
            raise ArrayError("the device has failed (CUDA_ERROR_ASSERT)")
        return event in self._done

    def elapsed_ns(self, first: int, last: int) -> int:
        return self._done[last] - self._done[first]

    def side_stream(self, index: int) -> int:
        return 100

    def host_memory(self, nbytes: int) -> int:
        memory = ctypes.create_string_buffer(nbytes)
        self._memory.append(memory)
        return ctypes.addressof(memory)

    def copy(self, index: int, stream: int, to: int, tensor: Any, nbytes: int) -> None:
        data = ctypes.string_at(tensor.data_ptr(), nbytes)
        self._enqueue(lambda: ctypes.memmove(to, data, nbytes) and None)

    def summarise(self, index: int, stream: int, code: int, given: bytes, blocks: int) -> None:
        """Do the kernel's work, from the kernel's arguments."""
        fields = struct.unpack("<30q", given)
        data, _scratch, to, count, dims, previewed = fields[:6]
        sizes, strides, first = fields[6 : 6 + dims], fields[14 : 14 + dims], fields[22:30]
        dtype = next(dtype for dtype, known in kernel.CODES.items() if known == code)
        item = torch.empty(0, dtype=dtype).element_size()
        at = np.zeros(1, np.int64)
        for size, stride in zip(sizes, strides, strict=True):
            at = (at[:, None] + np.arange(size) * stride).reshape(-1)
        raw = [ctypes.string_at(data + int(place) * item, item) for place in at] if count else []
        elements = _numbers(b"".join(raw), dtype)
        shown = [ctypes.string_at(data + place * item, item) for place in first[:previewed]]
        row = np.zeros((), STATISTICS)
        summary = summarise(elements)
        if summary.histogram:
            row["moments"] = summary.min, summary.max, summary.mean, summary.std, summary.norm
            row["histogram"] = summary.histogram
        row["nan"], row["inf"] = summary.nan_count, summary.inf_count
        row["finite"] = count - summary.nan_count - summary.inf_count
        row["zero"], row["previewed"] = summary.zero_count, previewed
        row["preview"][:previewed] = _numbers(b"".join(shown), dtype).astype(np.float64)
        data_now = row.tobytes()
        self._enqueue(lambda: ctypes.memmove(to, data_now, len(data_now)) and None)

    def scratch(self, index: int, stream: int) -> int:
        return 1

    def multiprocessors(self, index: int) -> int:
        return 4

    def addresses(self) -> tuple[int, ...]:
        """The same functions for the observer in C++."""
        number, pointer = ctypes.c_uint, ctypes.c_void_p

        def create(to: int, flags: int) -> int:
            ctypes.c_uint64.from_address(to).value = self.event(0)
            return 0

        def record(event: int, stream: int | None) -> int:
            self.record(0, event, stream or 0)
            return 0

        def capturing(stream: int | None, to: int) -> int:
            ctypes.c_int.from_address(to).value = int(self.capturing)
            return 0

        def copy(to: int, begin: int, nbytes: int, stream: int | None) -> int:
            data = ctypes.string_at(begin, nbytes)
            self._enqueue(lambda: ctypes.memmove(to, data, nbytes) and None)
            return 0

        def launch(kernel: int, *given: Any) -> int:
            self.launched += 1
            arguments = ctypes.c_uint64.from_address(given[8]).value
            self.summarise(0, given[7] or 0, kernel - 1, ctypes.string_at(arguments, 240), given[0])
            return 0

        def elapsed(to: int, first: int, last: int) -> int:
            ctypes.c_float.from_address(to).value = self.elapsed_ns(first, last) / 1e6
            return 0

        kinds: tuple[tuple[Callable[..., int], tuple[Any, ...]], ...] = (
            (create, (pointer, number)), (record, (pointer, pointer)),
            (capturing, (pointer, pointer)),
            (copy, (pointer, pointer, ctypes.c_size_t, pointer)),
            (launch, (pointer, *(number,) * 7, pointer, pointer, pointer)),
            (launch, (pointer, *(number,) * 7, pointer, pointer)),
            (elapsed, (pointer, pointer, pointer)),
        )  # fmt: skip
        made = [ctypes.CFUNCTYPE(ctypes.c_int, *given)(call) for call, given in kinds]
        self._memory.append(made)
        return tuple(ctypes.cast(function, pointer).value or 0 for function in made)

    def kernel_address(self, index: int, code: int) -> int:
        return code + 1

    @contextlib.contextmanager
    def unhindered(self) -> Iterator[None]:
        yield


def _numbers(raw: bytes, dtype: torch.dtype) -> Any:
    if not raw:
        return np.zeros(0)
    return host_array(torch.frombuffer(bytearray(raw), dtype=dtype))


@contextlib.contextmanager
def fake_device() -> Iterator[FakeDriver]:
    """A context in which all tensors count as being on a device."""
    driver = FakeDriver()
    before = runtime.chosen()
    runtime.use(Runtime(driver))
    try:
        yield driver
    finally:
        driver.broken, driver.lazy = False, False
        driver.advance()
        runtime.use(before)
