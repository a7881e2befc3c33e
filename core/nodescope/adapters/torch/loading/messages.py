"""Messages between a worker and the program, and the form in which values are sent.

Invariant: every message that is received comes from a process that this run started: the socket is
in a directory of this user, and both ends of the connection prove that they know a secret key.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import torch

from nodescope.adapters.torch.tensors import TorchTensors, host_array
from nodescope.arrays import Captured, Window
from nodescope.errors import ArrayError
from nodescope.events import Array, Level, Logged
from nodescope.ir.demands import NOWHERE, StopsAt
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import Node, OpaqueSpec, ScopeDescribed, Spec, TensorSpec, Value
from nodescope.protocol import Frame
from nodescope.record.captures import Statistics
from nodescope.record.summary import TensorSummary, summarise

SMALL: Final = 1 << 16
"""Largest size, in bytes, of a value that is sent with its elements."""
LARGE: Final = 1 << 26
"""The same limit where all values are wanted."""
_TENSORS = TorchTensors()


class Wanted(msgspec.Struct, frozen=True):
    """What the workers have to report.

    Attributes:
        number: The version of this request; it grows with each change.
        stops_at: Where the program may stop: there, workers wait for an answer.
        arrays: Whether values are sent.
        values: Whether every element is wanted, also of large values.
        whole: Whether every batch has to be observed.
        breaks: Whether ``nodescope.breakpoint()`` stops workers.
    """

    number: int = 0
    stops_at: StopsAt = NOWHERE
    arrays: bool = False
    values: bool = False
    whole: bool = False
    breaks: bool = False

    @property
    def most(self) -> int:
        """Largest size, in bytes, of a value that is sent with its elements; -1: none is sent."""
        return (LARGE if self.values else SMALL) if self.arrays else -1


class Sent(msgspec.Struct, frozen=True):
    """A value, in the form in which it is sent.

    Attributes:
        data: The elements, or None if only the shape, the dtype and statistics are sent.
        summary: The statistics of a large value, or None.
        kind: The value's class, if it has no elements.
        refusal: Why the value cannot be edited, or ``""``.
    """

    shape: tuple[int, ...] = ()
    dtype: str = ""
    data: bytes | None = None
    summary: TensorSummary | None = None
    kind: str = ""
    refusal: str = ""


# Messages from a worker.


class Hello(msgspec.Struct, frozen=True):
    """The first message: which worker of which loader this is."""

    loader: int
    worker: int
    pid: int


class Configured(msgspec.Struct, frozen=True):
    """The worker has received `Wanted` and applies it."""

    number: int


class Defined(msgspec.Struct, frozen=True):
    """Nodes are new or have other inputs, or values have other specs."""

    nodes: tuple[Node, ...]
    values: tuple[Value, ...]


class Ran(msgspec.Struct, frozen=True):
    """A node is about to run (``when`` is ``before``), has run, or has raised.

    Attributes:
        asks: Whether the worker waits for an answer.
        inputs: The operands; empty unless the worker waits.
        stop_text: Why the program has to stop here in any case, or ``""``.
    """

    node: int
    when: str
    start_ns: int
    end_ns: int
    asks: bool
    inputs: tuple[Sent, ...]
    outputs: tuple[Sent, ...]
    attrs: dict[str, Any] | None
    error: str
    stack: tuple[Frame, ...]
    stop_text: str = ""


class Fetched(msgspec.Struct, frozen=True):
    """The answer to `Fetch`."""

    data: Sent | None
    error: str = ""


# Messages from the program: `Wanted`, and the following.


class Fetch(msgspec.Struct, frozen=True):
    """Request the elements of an input; a negative ``port`` is output ``-1 - port``."""

    port: int
    window: tuple[tuple[int, int], ...] | None


class Go(msgspec.Struct, frozen=True):
    """Continue, with the user's edits: new elements by port, numbered as in `Fetch`."""

    edits: dict[int, Sent]


FromWorker = Hello | Configured | Defined | Ran | Fetched | ScopeDescribed | Logged


def sent(value: Any, most: int) -> Sent:
    """Convert a value to `Sent`: with its elements if it has at most ``most`` bytes, else with its
    statistics; with neither if ``most`` is negative.
    """
    refusal = _TENSORS.refusal(value) if isinstance(value, torch.Tensor) else ""
    try:
        array = _elements(value)
    except ArrayError as error:
        kind = type(value)
        return Sent(kind=f"{kind.__module__}.{kind.__qualname__}", refusal=str(error))
    shape, dtype = array.shape, array.dtype.name
    if most < 0:
        return Sent(shape, dtype, refusal=refusal)
    if array.nbytes <= most:
        return Sent(shape, dtype, array.tobytes(), refusal=refusal)
    return Sent(shape, dtype, None, summarise(array), refusal=refusal)


def elements(value: Any, window: tuple[tuple[int, int], ...] | None = None) -> Sent:
    """The elements of a value, or those of a window.

    Raises:
        ArrayError: The value has no elements.
    """
    array = _elements(value)
    if window is not None:
        array = array[tuple(slice(*part) for part in window)]
    return Sent(array.shape, array.dtype.name, np.ascontiguousarray(array).tobytes())


def _elements(value: Any) -> Array:
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, torch.Tensor):
        raise ArrayError(f"a {type(value).__name__} has no elements that can be shown")
    return host_array(value)


def array_of(value: Sent) -> Array | None:
    """A copy of the elements that were sent, or None if none were."""
    if value.data is None:
        return None
    return np.frombuffer(bytearray(value.data), as_dtype(value.dtype)).reshape(value.shape)


class InWorker:
    """A worker's value, as the program holds it.

    Attributes:
        sent: What the worker sent of the value.
        port: The value's port at the node where the worker waits, numbered as in `Fetch`.
        worker: The worker, if it waited when it sent the value; else None.
    """

    __slots__ = ("port", "sent", "worker")

    def __init__(self, sent: Sent, worker: Any = None, port: int = 0) -> None:
        self.sent, self.worker, self.port = sent, worker, port


class InWorkerContents:
    """See `ArrayOps`."""

    def spec(self, array: InWorker) -> Spec:
        """The value's shape and dtype; its class if it has no elements."""
        sent = array.sent
        return TensorSpec(sent.shape, sent.dtype) if sent.dtype else OpaqueSpec(sent.kind)

    def nbytes(self, array: InWorker) -> int:
        """Size of the elements that were sent."""
        return len(array.sent.data or b"")

    def capture(self, array: InWorker, level: Level) -> Array | Captured | None:
        """The elements, or their statistics."""
        elements = array_of(array.sent)
        if elements is not None:
            return elements
        summary = array.sent.summary
        return None if summary is None else Statistics(summary)

    def numpy(self, array: InWorker, window: Window | None = None) -> Array:
        """The elements; those of a large value are fetched from the worker, which must be waiting.

        Raises:
            ArrayError: The value has no elements, or the worker no longer waits.
        """
        sent = array.sent
        if not sent.dtype:
            raise ArrayError(sent.refusal or f"a {sent.kind} has no elements that can be shown")
        whole = array_of(sent)
        if whole is not None:
            return whole if window is None else whole[window]
        if array.worker is None:
            raise ArrayError(
                "its elements stayed in the worker, of which only statistics were sent; they are "
                "there while the worker is stopped, or with --level values"
            )
        part = None
        if window is not None:
            sizes = zip(window, sent.shape, strict=False)
            part = tuple(axis.indices(size)[:2] for axis, size in sizes)
        fetched: Array = array.worker.fetch(array.port, part)
        return fetched

    def refusal(self, array: InWorker) -> str:
        """Why the value cannot be edited; ``""`` if a worker waits and it can be."""
        return array.sent.refusal or ("" if array.worker else "the worker that had it has gone on")

    def write(self, array: InWorker, new: Array) -> None:
        """Always raises `ArrayError`: workers are given new values instead."""
        raise ArrayError("it is in another process")
