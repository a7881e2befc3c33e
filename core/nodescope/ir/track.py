"""Track: executions of known nodes in a fixed order, step after step.

An adapter that sees a step repeat the previous one reports its executions in columns, as a part of
a track, instead of one by one.

Invariant: frozen; valid as long as its nodes are not redefined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from nodescope.ir.graph import Node


class TrackValue(msgspec.Struct, frozen=True, gc=False):
    """An output of an execution on a track.

    Attributes:
        value: Its id.
        dtype, shape: As in its spec.
        nbytes: Size of its elements.
    """

    value: int
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


class Track(msgspec.Struct, frozen=True):
    """The executions of one step, in order.

    Attributes:
        nodes: The nodes, one for each execution.
        values: All outputs, in the order of the executions.
        firsts: By execution, its first output's place in ``values``; one more at the end.
        notes: Data that its users derive from it, by user name.
    """

    nodes: tuple[Node, ...]
    values: tuple[TrackValue, ...]
    firsts: tuple[int, ...]
    notes: dict[str, Any] = {}


class Elements(msgspec.Struct, frozen=True, gc=False):
    """Copies of outputs on a track.

    Attributes:
        memory: Bytes, as an array.
        places: By output: where its elements begin in ``memory``, in C order; -1 without a copy.
        nbytes: The size of all copies.
        holder: An object that keeps the memory from being reused as long as it is referenced.
        ready: Waits until a device has made the copies, or raises `ArrayError`; None if they are
            already made.
    """

    memory: Any
    places: tuple[int, ...]
    nbytes: int
    holder: Any = None
    ready: Callable[[], None] | None = None
