"""Sight: one value at one moment, as a rule sees it. Costly data is computed on demand.

Invariant: arrays are only read; statistics are computed once per sight; missing data raises
`MissingData`, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, Protocol

import numpy as np

from nodescope.arrays.lazy import HeldArray, LazyArray, whole
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.errors import ArrayError
from nodescope.events import Array
from nodescope.ir.graph import Node, TensorSpec
from nodescope.ops.argument_names import known_attrs
from nodescope.record.captures import summary_of
from nodescope.record.summary import TensorSummary, summarise

Target = Literal[
    "weights", "gradients", "weight_gradients", "activations", "losses", "inputs", "values", "graph"
]

_BLOCK: Final = 1 << 16
# dtype kinds that are numbers; V are those of ml_dtypes.
_NUMBERS: Final = "biufcV"


class MissingData(Exception):
    """The rule needs data that is missing; the text says which."""


class NotYet(MissingData):
    """A value was not seen often enough to judge it; the text says how often, and what it needs.

    It is reported only if the value is never judged.
    """


class Inapplicable(MissingData):
    """The rule does not apply to the value; the text says what it needs.

    It is reported only if the rule never judges any value.
    """


class Excused(MissingData):
    """A finding may be intended; the text says what it is, and why it does not count."""


def _none(value: int) -> None:
    return None


class ContentSource(Protocol):
    """Where the content of a value comes from."""

    def summary(self) -> TensorSummary | None:
        """The value's statistics, or None if they are not kept."""

    def array(self) -> Array | None:
        """The full array, or None if it is not kept."""

    def keep(self, elements: bool, room: int) -> tuple[ContentSource | None, int]:
        """A source that stays valid once the program continues, and its size in bytes.

        Args:
            elements: Whether the full array is required.
            room: The number of bytes available for copies.
        """


class Live:
    """A value that the program holds right now."""

    __slots__ = ("_given",)

    def __init__(self, array: Any) -> None:
        self._given = array

    @property
    def held(self) -> HeldArray:
        """The array, which may not have been fetched yet. Raises `MissingData`."""
        if not isinstance(self._given, np.ndarray | LazyArray):
            self._given = _available(LazyArray, self._given)
        return self._given

    @property
    def _array(self) -> Array:
        """The elements, fetched at the first access. Raises `MissingData`."""
        return self._given if type(self._given) is np.ndarray else _available(whole, self.held)

    def summary(self) -> TensorSummary | None:
        """Statistics computed by the library that holds the elements, without fetching them."""
        given = self._given
        if type(given) is np.ndarray:
            return summarise(given)
        summary: TensorSummary = _available(summary_of, self.held)
        return summary

    def array(self) -> Array | None:
        """A read-only view."""
        view = self._array.view()
        view.flags.writeable = False
        return view

    def keep(self, elements: bool, room: int) -> tuple[ContentSource | None, int]:
        """A copy, if there is room for it."""
        if not elements or self.held.nbytes > room:
            return None, 0
        array = self._array
        return Copied(array.copy()), array.nbytes


def _available(read: Callable[[Any], Any], array: Any) -> Any:
    """``read(array)``; errors of a library become `MissingData`."""
    try:
        return read(array)
    except ArrayError as error:
        raise MissingData(str(error)) from error


class Copied(Live):
    """A copy, which nothing writes to."""

    __slots__ = ()

    def keep(self, elements: bool, room: int) -> tuple[ContentSource | None, int]:
        """The copy itself; its bytes are counted already."""
        return self, 0


class ObservedContent:
    """The content of a value.

    Args:
        source: The source of the content; None if nothing is known of the value.

    Attributes:
        held: The number of bytes copied for it.
    """

    __slots__ = ("_array", "_measures", "_summary", "held", "source")

    def __init__(self, source: ContentSource | None) -> None:
        self.source = source
        self._summary: TensorSummary | None = None
        self._array: Array | None = None
        self._measures: dict[str, float | None] = {}
        self.held = 0

    @property
    def summary(self) -> TensorSummary:
        """The value's statistics. Raises `MissingData`."""
        if self._summary is None:
            self._summary = self.source.summary() if self.source is not None else None
            if self._summary is None:
                raise MissingData("no statistics of the value were recorded")
        return self._summary

    @property
    def array(self) -> Array:
        """The full array. Raises `MissingData`."""
        array = self.array_or_none
        if array is None:
            raise MissingData("the full array was not kept")
        return array

    @property
    def array_or_none(self) -> Array | None:
        """The full array, or None if it is not kept or not numeric."""
        if self._array is None and self.source is not None:
            array = self.source.array()
            if array is not None and array.dtype.kind in _NUMBERS:
                self._array = array
        return self._array

    @property
    def readable(self) -> HeldArray:
        """The full array, which may not have been fetched yet. Raises `MissingData`."""
        held = self.source.held if isinstance(self.source, Live) else None
        if isinstance(held, LazyArray) and held.dtype.kind in _NUMBERS:
            return held
        return self.array

    @property
    def spec(self) -> TensorSpec:
        """Shape and dtype at this moment."""
        return self.summary.spec

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for extent in self.spec.shape:
            size *= extent
        return size

    def measure(self, name: str, make: Callable[[], float | None]) -> float | None:
        """The measure ``name``, which ``make`` computes once."""
        if name not in self._measures:
            self._measures[name] = make()
        return self._measures[name]

    def drop(self) -> int:
        """Release all copies; returns their size in bytes."""
        freed, self.held = self.held, 0
        self._array = self.source = None
        return freed

    def hold(self, *, whole: bool, statistics: bool, room: int) -> int:
        """Release the array, but keep the requested part; return its size in bytes."""
        source, nbytes = self.source.keep(whole, room) if self.source is not None else (None, 0)
        if statistics and source is None and self._summary is None and self.source is not None:
            self._summary = self.source.summary()
        self._array, self.source = None, source
        self.held += nbytes
        return nbytes


class Sight(ObservedContent):
    """One value at one moment.

    Args:
        node: The node that produced the value.
        value, port: The value's id and output port.
        step, seq: Step and seq of the execution.
        roles: The value's roles, such as ``weights``.
        time_ns: Nanoseconds since the run began, without time held by a debugger.
        owner: For a gradient, the name of the node to whose value it belongs; else ``""``.
        inputs: Returns the inputs of the node, by port.
        before: The same value in the previous step; None in its first step, and if no rule for the
            value declares to need it.
        gradient: Returns the latest gradient of a value, or None if none is known.
        written: Whether a node of the program writes to the value.
        graph: The program's graph so far.
        attrs: The attributes of this execution, if they differ from the node's.
    """

    __slots__ = (
        "_attrs", "_given", "_gradient", "_inputs", "before", "graph", "node", "owner", "port",
        "roles", "seq", "step", "time_ns", "value", "written",
    )  # fmt: skip

    def __init__(
        self,
        node: Node,
        value: int,
        port: int,
        step: int,
        seq: int,
        source: ContentSource | None,
        *,
        roles: frozenset[Target] = frozenset(),
        time_ns: int = 0,
        owner: str = "",
        inputs: Callable[[], tuple[ObservedContent, ...]] = tuple,
        before: ObservedContent | None = None,
        gradient: Callable[[int], ObservedContent | None] = _none,
        written: bool = False,
        graph: ProgramGraph | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(source)
        self.written = written
        self.node = node
        self.value = value
        self.port = port
        self.step = step
        self.seq = seq
        self.roles = roles
        self.time_ns = time_ns
        self.owner = owner
        self._inputs = inputs
        self._given: tuple[ObservedContent, ...] | None = None
        self.before = before
        self._gradient = gradient
        self.graph = graph if graph is not None else ProgramGraph()
        self._attrs = attrs

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes of this execution, by nodescope's names."""
        attrs = self.node.attrs if self._attrs is None else self._attrs
        return known_attrs(self.node.dialect, attrs)

    @property
    def phase(self) -> str:
        """The node's phase."""
        return self.node.phase

    @property
    def name(self) -> str:
        """The value's name for the user."""
        port = f":{self.port}" if self.port else ""
        owner = f" (gradient of {self.owner})" if self.owner else ""
        return f"{self.node.name}{port}{owner}"

    @property
    def inputs(self) -> tuple[ObservedContent, ...]:
        """The node's inputs, by port."""
        if self._given is None:
            self._given = self._inputs()
        return self._given

    @property
    def gradient(self) -> ObservedContent | None:
        """The latest gradient of the value; None if none is known."""
        return self._gradient(self.value)

    def hold(self, *, whole: bool, statistics: bool, room: int) -> int:
        """As `ObservedContent.hold`; also releases the other sights that this one refers to."""
        self.before, self._inputs, self._given, self._gradient = None, tuple, None, _none
        return super().hold(whole=whole, statistics=statistics, room=room)


def numbers(array: Array) -> Array:
    """The elements as float64 or complex128, in the same shape."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128, copy=False)
    return array.astype(np.float64, copy=False)


def blocks(*arrays: Array) -> Iterator[tuple[Any, ...]]:
    """Corresponding blocks of arrays of one shape, as float64 or complex128 vectors in C order."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, _BLOCK):
        yield tuple(numbers(vector[start : start + _BLOCK]) for vector in flat)
