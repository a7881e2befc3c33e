"""Captures: statistics and copies that a device makes of its tensors; see `nodescope.arrays`.

A capture is enqueued after the operator that made the tensor, in the same stream. The recorder
reads it once the device has reached it.

Invariant: a capture holds the tensor as it was when it was captured.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

from nodescope.adapters.torch.device.kernel import CODES, arguments, blocks_for
from nodescope.adapters.torch.device.memory import Block
from nodescope.adapters.torch.device.runtime import Event, Runtime
from nodescope.errors import ArrayError
from nodescope.events import Array, Level
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import TensorSpec
from nodescope.record.blocks import STATISTICS
from nodescope.record.summary import TensorSummary

ROW_BYTES: Final = STATISTICS.itemsize
_LITTLE: Final = 1 << 12
"""Up to this many bytes, a copy takes no longer than statistics."""


class _Enqueued:
    """A capture that the device writes to a block of host memory.

    Attributes:
        nbytes: As in `Captured`.
    """

    def __init__(self, runtime: Runtime, event: Event, block: Block, nbytes: int) -> None:
        self._runtime, self._event, self._block = runtime, event, block
        self.nbytes = nbytes
        self._was_read = False

    def __del__(self) -> None:
        if self._was_read:
            self._runtime.memory.give_back(self._block)
        else:
            self._runtime.retire(self._event, self._block)

    @property
    def is_done(self) -> bool:
        """Whether it can be read without waiting; also true if the device has failed."""
        try:
            return self._runtime.driver.is_done(self._event.handle)
        except ArrayError:
            return True

    def _bytes(self, count: int) -> Array:
        self._runtime.wait(self._event)
        self._was_read = True
        return self._block.bytes(count)


class Elements(_Enqueued):
    """The elements of a tensor."""

    def __init__(
        self, runtime: Runtime, event: Event, block: Block, nbytes: int,
        dtype: np.dtype[Any], shape: tuple[int, ...],
    ) -> None:  # fmt: skip
        super().__init__(runtime, event, block, nbytes)
        self._dtype, self._shape = dtype, shape

    def resolve(self) -> Array:
        """As in `Captured`."""
        return self._bytes(self.nbytes).view(self._dtype).reshape(self._shape).copy()

    def __float__(self) -> float:
        return float(self.resolve().reshape(-1)[0])


class Statistics(_Enqueued):
    """The statistics of a tensor."""

    def __init__(
        self, runtime: Runtime, event: Event, block: Block, spec: TensorSpec, nbytes: int
    ) -> None:
        super().__init__(runtime, event, block, 512)
        self._spec, self._of = spec, nbytes

    def resolve(self) -> TensorSummary:
        """As in `Captured`."""
        return summary_of(self._bytes(ROW_BYTES).view(STATISTICS)[0], self._spec, self._of)


def summary_of(row: Any, spec: TensorSpec, nbytes: int) -> TensorSummary:
    """The summary in a row that the kernel has written.

    Raises:
        ArrayError: The statistics cannot be computed in float64.
    """
    previewed = int(row["previewed"])
    if previewed < 0:
        raise ArrayError("its elements are too large or too small for statistics on the device")
    preview = tuple(row["preview"][:previewed].tolist())
    counts = int(row["nan"]), int(row["inf"]), int(row["zero"])
    if not row["finite"]:
        return TensorSummary(spec, nbytes, None, None, None, None, None, *counts, preview=preview)
    histogram = tuple(row["histogram"].tolist())
    low, high, mean, std, norm = row["moments"].tolist()
    moments = low, high, mean, std, norm
    return TensorSummary(spec, nbytes, *moments, *counts, histogram, preview)


def captured(runtime: Runtime, index: int, tensor: Any, level: Level) -> Any:
    """Capture what a level keeps of a tensor on a device; see `nodescope.arrays.ArrayOps.capture`.

    Returns:
        A `Captured`; None while a CUDA graph is being captured, or if there is no room.
    """
    stream = runtime.stream(index)
    if stream is None:
        return None
    runtime.after_the_last(index, stream)
    if level == "summary":
        plain = _plain(tensor)
        nbytes = plain.numel() * plain.element_size()
        if plain.dtype in CODES and nbytes > _LITTLE:
            given = _summarised(runtime, index, stream, plain)
            if given is not None:
                return given
    return elements(runtime, index, stream, tensor)


def elements(runtime: Runtime, index: int, stream: int, tensor: Any) -> Elements | None:
    """A copy of a tensor's elements; None if there is no room."""
    shown, dtype = _shown(_plain(tensor))
    shown = shown.contiguous()
    nbytes = shown.numel() * shown.element_size()
    block = runtime.take(nbytes)
    if block is None:
        return None
    if nbytes:
        runtime.driver.copy(index, stream, block.address, shown, nbytes)
    event = runtime.moment(index, stream)
    return Elements(runtime, event, block, nbytes, dtype, tuple(shown.shape))


def _summarised(runtime: Runtime, index: int, stream: int, plain: Any) -> Statistics | None:
    block = runtime.take(ROW_BYTES)
    if block is None:
        return None
    driver = runtime.driver
    given = arguments(plain, driver.scratch(index, stream), block.address)
    if given is None:
        runtime.memory.give_back(block)
        return None
    blocks = blocks_for(plain.numel(), driver.multiprocessors(index))
    try:
        driver.summarise(index, stream, CODES[plain.dtype], given, blocks)
    except ArrayError:
        runtime.memory.give_back(block)
        raise
    event = runtime.moment(index, stream)
    spec = TensorSpec(tuple(plain.shape), str(plain.dtype).removeprefix("torch."))
    return Statistics(runtime, event, block, spec, plain.numel() * plain.element_size())


def _plain(tensor: Any) -> Any:
    """The tensor as plain memory: detached, dequantized, conjugation and sign resolved."""
    plain = tensor.detach()
    if plain.layout is not torch.strided:
        raise ArrayError("the elements of a sparse tensor are not captured on a device")
    if plain.is_quantized:
        plain = plain.dequantize()
    if plain.is_conj():
        plain = plain.resolve_conj()
    if plain.is_neg():
        plain = plain.resolve_neg()
    return plain


def _shown(plain: Any) -> tuple[Any, np.dtype[Any]]:
    """The tensor in a dtype that NumPy can show, and that dtype."""
    if plain.dtype is torch.complex32:
        plain = plain.to(torch.complex64)
    elif plain.dtype.is_floating_point and plain.element_size() == 1:
        plain = plain.to(torch.float32)
    return plain, as_dtype(str(plain.dtype).removeprefix("torch."))
