"""Stopped values: the arrays available when a thread reaches a node.

Invariant: pure; arrays are passed on, not copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nodescope.arrays.lazy import HeldArray, LazyArray
from nodescope.debug.breakpoints.matching import covers
from nodescope.debug.gate.evaluation import Reached
from nodescope.debug.session.state import Raised
from nodescope.errors import ArrayError
from nodescope.events import Array, GradientReached, NodeFinished
from nodescope.ir.graph import Node
from nodescope.protocol import Breakpoint


class StoppedValues(dict[int, Array]):
    """The arrays available at a stop, by value id: the newest array of each id.

    One id may have several: in ``x = np.sin(x)`` the node's input and output share it.

    Attributes:
        inputs: Id and array of each input, by port.
    """

    inputs: tuple[tuple[int, Array], ...] = ()

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._lazy: dict[int, LazyArray] = {}  # by the identity of the library's array

    def held(self, value: int, port: int | None) -> HeldArray | None:
        """Like `of`, but possibly not fetched yet; None if it has no elements."""
        array = self.of(value, port)
        if array is None or array.__class__ is np.ndarray:
            return array
        if id(array) not in self._lazy:
            try:
                self._lazy[id(array)] = LazyArray(array)
            except ArrayError:
                return None
        return self._lazy[id(array)]

    def of(self, value: int, port: int | None) -> Array | None:
        """The array of a value; with ``port``, the array that the node took there."""
        if port is not None and port < len(self.inputs):
            return self.inputs[port][1]
        return self.get(value)

    def change(self, value: int, array: Array) -> None:
        """Replace a value's array, also among inputs that are the same array."""
        old = self.get(value)
        self[value] = array
        self.inputs = tuple(
            (value_id, array if current is old else current) for value_id, current in self.inputs
        )


def values_at(event: Reached | Raised) -> StoppedValues:
    """The arrays available at an event."""
    if isinstance(event, Raised):
        return StoppedValues()
    if isinstance(event, GradientReached):
        return StoppedValues({event.gradient: event.array})
    inputs = tuple(zip(event.node.inputs, event.inputs, strict=False))
    arrays = StoppedValues(inputs)
    arrays.inputs = inputs
    if isinstance(event, NodeFinished):
        arrays.update(zip(event.node.outputs, event.outputs, strict=False))
    return arrays


def subject_of(
    event: Reached, makers: Mapping[int, Node], asking: Iterable[Breakpoint]
) -> tuple[Node, Node | None] | None:
    """The node of an event and, for a gradient, the node whose output it belongs to.

    None for a gradient that no breakpoint covers.
    """
    if not isinstance(event, GradientReached):
        return event.node, None
    source = makers.get(event.value)
    if source is None or not any(covers(breakpoint, source) for breakpoint in asking):
        return None
    return makers.get(event.gradient, source), source
