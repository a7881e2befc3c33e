"""Demands: what the probes of a run need to see.

Invariant: frozen; the union of several demands is a demand, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from nodescope.ir.graph import Node

Opens = Callable[[Node], bool]
"""A predicate on nodes that are to be expanded."""


class StopsAt(NamedTuple):
    """Where the program may stop, for emitters whose operations run in other processes: only there
    do these processes wait for an answer.

    Attributes:
        starts, ends: Ops at whose start, or end, it may stop; None for any.
        errors: Whether it may stop where an operation raises.
    """

    starts: frozenset[str] | None = frozenset()
    ends: frozenset[str] | None = frozenset()
    errors: bool = False


NOWHERE = StopsAt()


class Demand(msgspec.Struct, frozen=True):
    """The events and contents to be emitted now: the demand of one probe, or of all together.

    Attributes:
        starts: `NodeStarted` before each node.
        gradients: `GradientReached`.
        arrays: Live arrays in `NodeFinished`. If false, an emitter that runs many nodes at once may
            leave them out and only report times. None: no opinion; if all are None, arrays are
            sent.
        opened: Compiled kernels that match one of these, or that cover a matching node, are also
            run node by node.
        stops: Why the gate has to see every node, such as a breakpoint, or ``""``. If set, no step
            is left out, and arrays are sent.
        whole: Why another probe has to see every node, or ``""``.
        values: Whether every element is wanted, also of large arrays.
        stops_at: Where the program may stop.
    """

    starts: bool = False
    gradients: bool = False
    arrays: bool | None = None
    opened: tuple[Opens, ...] = ()
    stops: str = ""
    whole: str = ""
    values: bool = False
    stops_at: StopsAt = NOWHERE

    @property
    def seen_whole(self) -> str:
        """Why no step may be left out, or ``""``."""
        return self.stops or self.whole


def union(demands: Iterable[Demand]) -> Demand:
    """The demand that satisfies all of them; `Demand.arrays` is decided."""
    starts = gradients = values = False
    arrays: bool | None = None
    opened: tuple[Opens, ...] = ()
    stops = whole = ""
    stops_at = NOWHERE
    for demand in demands:
        starts, gradients = starts or demand.starts, gradients or demand.gradients
        if demand.arrays is not None:
            arrays = bool(arrays) or demand.arrays
        opened += demand.opened
        stops, whole = stops or demand.stops, whole or demand.whole
        values = values or demand.values
        if demand.stops_at is not NOWHERE:
            stops_at = _both(stops_at, demand.stops_at)
    return Demand(starts, gradients, arrays is not False or bool(stops or whole), opened, stops,
                  whole, values, stops_at)  # fmt: skip


def _both(one: StopsAt, other: StopsAt) -> StopsAt:
    starts = None if one.starts is None or other.starts is None else one.starts | other.starts
    ends = None if one.ends is None or other.ends is None else one.ends | other.ends
    return StopsAt(starts, ends, one.errors or other.errors)
