"""Places: what the adapter knows about a thread between two operations.

Invariant: each thread has its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from nodescope.adapters.torch.storages import Owner
from nodescope.emit.state import ThreadState


class Recomputed(NamedTuple):
    """What a checkpoint computes again: its scope in the forward pass, and the path of the module
    that it was in.
    """

    scope: str
    module: str


class Place(threading.local):
    """Where a thread is.

    Attributes:
        quiet: Above 0: operations are run without being emitted.
        modules: The modules whose forward pass the thread is in, outermost first, each with the
            context of its scope.
        unobserved: The outermost module whose call the thread is in while nothing is emitted: it
            has no scope, and neither have the modules that it calls. None otherwise.
        depth: How many of them there were when the backward pass began.
        backward: How many backward passes the thread is in.
        recomputed: What a checkpoint computes again in the backward pass, or None.
        outer: What the thread's state was before an operation of a backward pass set it, or None.
        differentiated: The sequence number of the autograd node that the state was set for.
        optimizer: The context of the optimizer's step that the thread is in.
        optimized: The optimizer, until what its state belongs to is known.
        updated: While an optimizer updates: the path of the parameter that it is at.
        instruction: The Python instruction that ran the last operation: code, and offset.
        called: The operators that it has run.
        inside: Whether the operation is part of the same call as the last one.
        sequence: The number of the latest autograd node that the thread has made.
        unclaimed: Numbers before it whose forward operation is not known.
        sliced: The node of the last operation, and its scope, if it wrote to a view of a tensor
            that gradients flow to, for which autograd makes further nodes; or None.
        mark: The number of its scope and phase, see `native_tap.fast_path`.
        mode: The dispatch mode that was entered on the thread, or None.
        data: The operations of the data set whose sample the thread makes, or None.
    """

    def __init__(self) -> None:
        self.quiet = 0
        self.modules: list[tuple[Any, str, AbstractContextManager[Any]]] = []
        self.unobserved: Any = None
        self.depth = 0
        self.backward = 0
        self.recomputed: Recomputed | None = None
        self.outer: Any = None
        self.differentiated: tuple[Any, ...] = ()
        self.optimizer: AbstractContextManager[None] | None = None
        self.optimized: Any = None
        self.updated = ""
        self.instruction: Any = None
        self.called: set[Any] = set()
        self.inside = False
        self.sequence = -1
        self.unclaimed: list[int] = []
        self.sliced: tuple[int, str] | None = None
        self.mark = 0
        self.mode: Any = None
        self.data: Any = None


native: Any = None
"""The native tap's library, once it is loaded; it has to know of quiet places, too."""


def tell(library: Any) -> None:
    """Tell the native tap of quiet places from now on."""
    global native
    native = library


class FastPath(Protocol):
    """The fast path of a run, see `native_tap.fast_path`.

    Attributes:
        following: What the step follows, or None.
        tell_mark: Tells the library the mark of the calling thread, which `Place.mark` is, too.
        accumulated: Whether the arrival of a parameter's gradient is followed, and known from the
            pairs of values that were emitted, so that nothing is left to do.
    """

    following: Any
    tell_mark: Callable[[int], None]
    accumulated: Callable[[Any, dict[int, int]], bool]

    def number(self, scope: str, phase: str, forward: int | None) -> int:
        """The mark of a scope and phase."""

    def mark(self, state: ThreadState) -> None:
        """Note that the thread's scope or phase has changed."""

    def lose(self) -> None:
        """Follow nothing until the next step."""

    def owns(self, tensor: Any, owner: Owner) -> bool:
        """Whether nothing changes if a tensor becomes somebody's now."""

    def known(self, tensor: Any) -> int:
        """The id of a tensor's value; 0 if it is not known."""

    def arrived(self, parameter: Any, gradient: Any) -> bool:
        """Whether the arrival of a parameter's gradient needs nothing done."""


class Quiet:
    """A context in which the calling thread's operations are not emitted."""

    __slots__ = ("_place",)

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> None:
        self._place.quiet += 1
        if native is not None:
            native.quiet(1)

    def __exit__(self, *raised: object) -> None:
        self._place.quiet -= 1
        if native is not None:
            native.quiet(-1)
