"""Arrivals: what a thread brings when it comes to a node.

Invariant: pure; arrays are handed on, not copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodescope.debug.breakpoints import covers
from nodescope.debug.state import Raised
from nodescope.debug.verdicts import Reached
from nodescope.events import Array, GradientReached, NodeFinished
from nodescope.ir.graph import Node
from nodescope.protocol import Breakpoint


class Arrays(dict[int, Array]):
    """The arrays that are at hand at a stop, by value id; of an id the one that was made last.

    An id may stand for several: in ``x = np.sin(x)`` the node takes what it gave before.

    Attributes:
        inputs: Id and array of what the node took, by port.
    """

    inputs: tuple[tuple[int, Array], ...] = ()

    def of(self, value: int, port: int | None) -> Array | None:
        """What a value is, or was when the node took it at a port."""
        if port is not None and port < len(self.inputs):
            return self.inputs[port][1]
        return self.get(value)

    def change(self, value: int, array: Array) -> None:
        """It is another one from now on, wherever it is the same array."""
        old = self.get(value)
        self[value] = array
        self.inputs = tuple((each, array if it is old else it) for each, it in self.inputs)


def arrays_of(event: Reached | Raised) -> Arrays:
    """The arrays that are at hand there."""
    if isinstance(event, Raised):
        return Arrays()
    if isinstance(event, GradientReached):
        return Arrays({event.gradient: event.array})
    taken = tuple(zip(event.node.inputs, event.inputs, strict=False))
    found = Arrays(taken)
    found.inputs = taken
    if isinstance(event, NodeFinished):
        found.update(zip(event.node.outputs, event.outputs, strict=False))
    return found


def made_by(
    event: Reached, makers: Mapping[int, Node], asking: Iterable[Breakpoint]
) -> tuple[Node, Node | None] | None:
    """The node that an event is about; for a gradient what made it, and of what it is.

    None for a gradient that no breakpoint asks for.
    """
    if not isinstance(event, GradientReached):
        return event.node, None
    of = makers.get(event.value)
    if of is None or not any(covers(each, of) for each in asking):
        return None
    return makers.get(event.gradient, of), of
