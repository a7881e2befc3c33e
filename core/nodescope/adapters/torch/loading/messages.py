"""Messages between a worker and the program, and values as they travel.

Invariant: whatever is received comes from a process that this run started: the connection is in a
folder of this user's, and both ends prove that they know a key.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import torch

from nodescope.adapters.torch.tensors import TorchTensors, host_array
from nodescope.arrays import Captured, Window
from nodescope.errors import ArrayError
from nodescope.events import Array, Level
from nodescope.ir.demands import NOWHERE, StopsAt
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import Node, OpaqueSpec, ScopeDescribed, Spec, TensorSpec, Value
from nodescope.protocol import Frame
from nodescope.record.captures import Statistics
from nodescope.record.summary import TensorSummary, summarise

SMALL: Final = 1 << 16
"""Bytes up to which a value is sent whole."""
LARGE: Final = 1 << 26
"""The same where all values are wanted."""
_TENSORS = TorchTensors()


class Wanted(msgspec.Struct, frozen=True):
    """What the program wants of its workers.

    Attributes:
        number: Grows with each change.
        stops_at: Where the program may stop: workers ask there.
        arrays: Whether values are looked at.
        values: Whether every element is wanted.
        whole: Whether every batch has to be seen.
    """

    number: int = 0
    stops_at: StopsAt = NOWHERE
    arrays: bool = False
    values: bool = False
    whole: bool = False

    @property
    def most(self) -> int:
        """Bytes up to which a value is sent whole; -1 for none."""
        return (LARGE if self.values else SMALL) if self.arrays else -1


class Sent(msgspec.Struct, frozen=True):
    """A value as it travels.

    Attributes:
        kind: Its class, if it has no elements.
        refusal: Why it cannot be edited, or ``""``.
    """

    shape: tuple[int, ...] = ()
    dtype: str = ""
    data: bytes | None = None
    summary: TensorSummary | None = None
    kind: str = ""
    refusal: str = ""


# What a worker sends.


class Hello(msgspec.Struct, frozen=True):
    """The first message: which worker of its loader this is."""

    loader: int
    worker: int
    pid: int


class Configured(msgspec.Struct, frozen=True):
    """`Wanted` was taken up."""

    number: int


class Defined(msgspec.Struct, frozen=True):
    """Nodes are new or have other inputs, or values other specs."""

    nodes: tuple[Node, ...]
    values: tuple[Value, ...]


class Ran(msgspec.Struct, frozen=True):
    """A node is about to run (``when`` is ``before``), has run, or has raised.

    Attributes:
        asks: Whether the worker waits for an answer.
        inputs: Empty unless it does.
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


class Fetched(msgspec.Struct, frozen=True):
    """Elements that were asked for."""

    data: Sent | None
    error: str = ""


# What the program sends: `Wanted`, and


class Fetch(msgspec.Struct, frozen=True):
    """Send elements of an input (``port`` below 0: of output ``-1 - port``)."""

    port: int
    window: tuple[tuple[int, int], ...] | None


class Go(msgspec.Struct, frozen=True):
    """Go on, with new elements by port, as of `Fetch`."""

    edits: dict[int, Sent]


FromWorker = Hello | Configured | Defined | Ran | Fetched | ScopeDescribed


def sent(value: Any, most: int) -> Sent:
    """A value as it travels: with its elements up to ``most`` bytes, else with statistics; if
    ``most`` is below 0, neither.
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
        ArrayError: It has none.
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
    """The elements that have travelled, in memory of their own."""
    if value.data is None:
        return None
    return np.frombuffer(bytearray(value.data), as_dtype(value.dtype)).reshape(value.shape)


class InWorker:
    """A value of a worker, as the program has it.

    Attributes:
        sent: What was sent of it.
        port: Where it is at the node at which the worker waits, as of `Fetch`.
        worker: The worker, as long as it waits; else None.
    """

    __slots__ = ("port", "sent", "worker")

    def __init__(self, sent: Sent, worker: Any = None, port: int = 0) -> None:
        self.sent, self.worker, self.port = sent, worker, port


class InWorkerContents:
    """See `ArrayOps`."""

    def spec(self, array: InWorker) -> Spec:
        """Shape and dtype, or the class."""
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
        """The elements; of a large value, from the worker that waits.

        Raises:
            ArrayError: It has none, or no worker waits with it.
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
        """A reason if it has no elements, is a view, or is no longer held."""
        return array.sent.refusal or ("" if array.worker else "the worker that had it has gone on")

    def write(self, array: InWorker, new: Array) -> None:
        """Always raises `ArrayError`: workers are given new values instead."""
        raise ArrayError("it is in another process")
