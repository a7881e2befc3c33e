"""CudaDriver: the functions of CUDA's driver API that are needed, through ctypes.

PyTorch's own objects for events and streams cost several microseconds per call, and its pinned
memory is not meant to be written by other kernels.

Invariant: nothing here waits for a device.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from ctypes import c_float, c_int, c_size_t, c_uint, c_void_p
from typing import Any, Final, Protocol

import torch

from nodescope.adapters.torch.compat import current_stream
from nodescope.adapters.torch.device.kernel import THREADS, compiled
from nodescope.errors import ArrayError

_NOT_READY: Final = 600
_PORTABLE_AND_MAPPED: Final = 1 | 2
_NON_BLOCKING: Final = 1
_RELAXED: Final = 2
_NAMES: Final = (
    "cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventElapsedTime", "cuStreamCreate",
    "cuStreamWaitEvent", "cuStreamIsCapturing", "cuMemHostAlloc", "cuMemcpyDtoHAsync_v2",
    "cuMemAllocAsync", "cuMemsetD8Async", "cuModuleLoadData", "cuModuleGetFunction",
    "cuLaunchKernel", "cuLaunchCooperativeKernel", "cuThreadExchangeStreamCaptureMode",
    "cuGetErrorName", "cuCtxGetCurrent", "cuCtxSetCurrent",
)  # fmt: skip


_OBSERVER: Final = (
    "cuEventCreate", "cuEventRecord", "cuStreamIsCapturing", "cuMemcpyDtoHAsync_v2",
    "cuLaunchKernel", "cuLaunchCooperativeKernel", "cuEventElapsedTime",
)  # fmt: skip


class Driver(Protocol):
    """The calls to a device. Streams and events are numbers; a device's index comes first."""

    def index_of(self, tensor: Any) -> int:
        """The index of the device that holds a tensor; -1 for the host."""

    def stream(self, index: int) -> int:
        """The stream in which the calling thread enqueues."""

    def is_captured(self, index: int, stream: int) -> bool:
        """Whether the stream is being captured into a CUDA graph instead of run."""

    def event(self, index: int) -> int:
        """A new event."""

    def record(self, index: int, event: int, stream: int) -> None:
        """Enqueue an event."""

    def wait(self, index: int, stream: int, event: int) -> None:
        """Make a stream wait for an event."""

    def is_done(self, event: int) -> bool:
        """Whether the device has reached an event.

        Raises:
            ArrayError: The device has failed.
        """

    def elapsed_ns(self, first: int, last: int) -> int:
        """The time between two completed events."""

    def side_stream(self, index: int) -> int:
        """A new, empty stream."""

    def host_memory(self, nbytes: int) -> int:
        """The address of new memory of the host that the device can write to; never freed."""

    def copy(self, index: int, stream: int, to: int, tensor: Any, nbytes: int) -> None:
        """Enqueue a copy of a contiguous tensor to memory from `host_memory`."""

    def summarise(self, index: int, stream: int, code: int, given: bytes, blocks: int) -> None:
        """Enqueue the kernel of ``summary.cu`` for a dtype; ``given`` are its arguments."""

    def scratch(self, index: int, stream: int) -> int:
        """The address of the scratch memory of a stream."""

    def multiprocessors(self, index: int) -> int:
        """The number of the device's multiprocessors."""

    pretends: bool
    """Whether CPU tensors count as tensors on the device; for tests."""

    def addresses(self) -> tuple[int, ...]:
        """The driver's functions that the observer calls, as in ``device.h``."""

    def kernel_address(self, index: int, code: int) -> int:
        """The kernel of ``summary.cu`` for a dtype."""

    def unhindered(self) -> Any:
        """A context in which a thread may make calls while another captures a CUDA graph."""


class CudaDriver:
    """See `Driver`.

    Raises:
        OSError, AttributeError: The driver is missing or too old.
    """

    def __init__(self) -> None:
        library = ctypes.CDLL("libcuda.so.1")
        self.pretends = False
        self._here = threading.local()
        self._contexts: dict[int, c_void_p] = {}
        self.functions: dict[str, Any] = {name: getattr(library, name) for name in _NAMES}
        call = self.functions
        self._record, self._query = call["cuEventRecord"], call["cuEventQuery"]
        self._record.argtypes = (c_void_p, c_void_p)
        self._query.argtypes = (c_void_p,)
        call["cuEventElapsedTime"].argtypes = (c_void_p, c_void_p, c_void_p)
        call["cuStreamWaitEvent"].argtypes = (c_void_p, c_void_p, c_uint)
        call["cuStreamIsCapturing"].argtypes = (c_void_p, c_void_p)
        call["cuMemHostAlloc"].argtypes = (c_void_p, c_size_t, c_uint)
        call["cuMemcpyDtoHAsync_v2"].argtypes = (c_void_p, c_void_p, c_size_t, c_void_p)
        call["cuMemAllocAsync"].argtypes = (c_void_p, c_size_t, c_void_p)
        call["cuMemsetD8Async"].argtypes = (c_void_p, ctypes.c_ubyte, c_size_t, c_void_p)
        for name in ("cuLaunchKernel", "cuLaunchCooperativeKernel"):
            sizes = [c_uint] * 7
            more = [c_void_p] * (3 if name == "cuLaunchKernel" else 2)
            call[name].argtypes = (c_void_p, *sizes, *more)
        self._kernels: dict[tuple[int, int], c_void_p] = {}
        self._scratch: dict[tuple[int, int], int] = {}
        self._multiprocessors: dict[int, int] = {}

    def index_of(self, tensor: Any) -> int:
        """See `Driver`."""
        return int(tensor.get_device()) if tensor.is_cuda else -1

    def stream(self, index: int) -> int:
        """See `Driver`."""
        return current_stream(index)

    def is_captured(self, index: int, stream: int) -> bool:
        """See `Driver`."""
        status = c_int()
        with self._on(index):
            self._check(self.functions["cuStreamIsCapturing"](stream or None, ctypes.byref(status)))
        return status.value != 0

    def event(self, index: int) -> int:
        """See `Driver`."""
        made = c_void_p()
        with self._on(index):
            self._check(self.functions["cuEventCreate"](ctypes.byref(made), c_uint(0)))
        return int(made.value or 0)

    def record(self, index: int, event: int, stream: int) -> None:
        """See `Driver`."""
        with self._on(index):
            self._check(self._record(event, stream or None))

    def wait(self, index: int, stream: int, event: int) -> None:
        """See `Driver`."""
        with self._on(index):
            self._check(self.functions["cuStreamWaitEvent"](stream or None, event, 0))

    def is_done(self, event: int) -> bool:
        """See `Driver`."""
        result = self._query(event)
        if result not in (0, _NOT_READY):
            self._check(result)
        return bool(result == 0)

    def elapsed_ns(self, first: int, last: int) -> int:
        """See `Driver`."""
        milliseconds = c_float()
        self._check(self.functions["cuEventElapsedTime"](ctypes.byref(milliseconds), first, last))
        return round(milliseconds.value * 1e6)

    def side_stream(self, index: int) -> int:
        """See `Driver`."""
        made = c_void_p()
        with self._on(index):
            self._check(self.functions["cuStreamCreate"](ctypes.byref(made), c_uint(_NON_BLOCKING)))
        return int(made.value or 0)

    def host_memory(self, nbytes: int) -> int:
        """See `Driver`."""
        made = c_void_p()
        allocate = self.functions["cuMemHostAlloc"]
        self._check(allocate(ctypes.byref(made), nbytes, _PORTABLE_AND_MAPPED))
        return int(made.value or 0)

    def copy(self, index: int, stream: int, to: int, tensor: Any, nbytes: int) -> None:
        """See `Driver`."""
        with self._on(index):
            copy = self.functions["cuMemcpyDtoHAsync_v2"]
            self._check(copy(to, tensor.data_ptr(), nbytes, stream or None))

    def summarise(self, index: int, stream: int, code: int, given: bytes, blocks: int) -> None:
        """See `Driver`."""
        arguments = ctypes.create_string_buffer(given, len(given))
        pointers = (c_void_p * 1)(ctypes.addressof(arguments))
        with self._on(index):
            kernel = self.kernel(index, code)
            grid = (blocks, 1, 1, THREADS, 1, 1, 0)
            if blocks == 1:
                launch = self.functions["cuLaunchKernel"]
                self._check(launch(kernel, *grid, stream or None, pointers, None))
            else:
                launch = self.functions["cuLaunchCooperativeKernel"]
                self._check(launch(kernel, *grid, stream or None, pointers))

    def kernel(self, index: int, code: int) -> c_void_p:
        """The kernel for a dtype, on the current device; compiled when it is first needed.

        Raises:
            ArrayError: It cannot be compiled.
        """
        known = self._kernels.get((index, code))
        if known is None:
            image = compiled(torch.cuda.get_device_capability(index), code)
            module, known = c_void_p(), c_void_p()
            self._check(self.functions["cuModuleLoadData"](ctypes.byref(module), image))
            get = self.functions["cuModuleGetFunction"]
            self._check(get(ctypes.byref(known), module, b"summary"))
            self._kernels[index, code] = known
        return known

    def scratch(self, index: int, stream: int) -> int:
        """See `Driver`."""
        known = self._scratch.get((index, stream))
        if known is None:
            made = c_void_p()
            with self._on(index):
                allocate, fill = (
                    self.functions["cuMemAllocAsync"],
                    self.functions["cuMemsetD8Async"],
                )
                self._check(allocate(ctypes.byref(made), SCRATCH_BYTES, stream or None))
                self._check(fill(made, 0, SCRATCH_BYTES, stream or None))
            known = self._scratch[index, stream] = int(made.value or 0)
        return known

    def multiprocessors(self, index: int) -> int:
        """See `Driver`."""
        known = self._multiprocessors.get(index)
        if known is None:
            known = int(torch.cuda.get_device_properties(index).multi_processor_count)
            self._multiprocessors[index] = known
        return known

    def addresses(self) -> tuple[int, ...]:
        """See `Driver`."""
        cast = ctypes.cast
        return tuple(cast(self.functions[name], c_void_p).value or 0 for name in _OBSERVER)

    def kernel_address(self, index: int, code: int) -> int:
        """See `Driver`."""
        with self._on(index):
            return int(self.kernel(index, code).value or 0)

    @contextlib.contextmanager
    def unhindered(self) -> Iterator[None]:
        """See `Driver`."""
        exchange = self.functions["cuThreadExchangeStreamCaptureMode"]
        mode = c_int(_RELAXED)
        exchange(ctypes.byref(mode))
        try:
            yield
        finally:
            exchange(ctypes.byref(mode))

    def _on(self, index: int) -> Any:
        """A context in which the device is current."""
        if torch.cuda.current_device() != index:
            return torch.cuda.device(index)
        if not getattr(self._here, "entered", False):
            # A thread of nodescope has no context before it calls PyTorch.
            context = c_void_p()
            self.functions["cuCtxGetCurrent"](ctypes.byref(context))
            if context.value:
                self._contexts[index] = context
            elif index in self._contexts:
                self.functions["cuCtxSetCurrent"](self._contexts[index])
            self._here.entered = True
        return _HERE

    def _check(self, result: int) -> None:
        if result:
            name = ctypes.c_char_p()
            self.functions["cuGetErrorName"](result, ctypes.byref(name))
            text = (name.value or b"").decode() or f"error {result}"
            raise ArrayError(f"the device has failed ({text})")


_HERE: Final = contextlib.nullcontext()
SCRATCH_BYTES: Final = 16 + 1024 * (56 + 8 + 32 * 4)
"""The size of ``Scratch`` in ``summary.cu``."""
