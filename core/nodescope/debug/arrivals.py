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


def arrays_of(event: Reached | Raised) -> dict[int, Array]:
    """The arrays that are at hand there, by value id."""
    if isinstance(event, Raised):
        return {}
    if isinstance(event, GradientReached):
        return {event.gradient: event.array}
    found = dict(zip(event.node.inputs, event.inputs, strict=False))
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
