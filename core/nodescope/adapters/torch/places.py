"""Places: the adapter's state of a thread between two operations.

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
    """A checkpoint that is recomputed: its scope in the forward pass, and the path of the module
    that contained it.
    """

    scope: str
    module: str


class Place(threading.local):
    """Where a thread is.

    Attributes:
        quiet: If above 0, operations run without being emitted.
        modules: The modules whose forward pass the thread is in, outermost first, each with the
            context of its scope.
        unobserved: The outermost module whose call runs unobserved: neither it nor the modules that
            it calls have a scope. None otherwise.
        depth: The length of `modules` when the backward pass began.
        backward: The number of nested backward passes that the thread is in.
        recomputed: The checkpoint that is recomputed in the backward pass, or None.
        outer: The thread's scope, phase, cursor and forward node before an operation of a backward
            pass, or of an initialisation, replaced them; or None.
        differentiated: The key of the autograd node for which the state was replaced.
        optimizer: The context of the optimizer step that the thread is in.
        optimized: The optimizer, until the owners of its state are known.
        updated: During an optimizer step, the path of the parameter being updated.
        instruction: The Python instruction that ran the last operation: code, and offset.
        called: The operators that this instruction has run.
        inside: Whether the operation is part of the same call as the last one.
        sequence: The sequence number of the thread's latest autograd node.
        unclaimed: Earlier sequence numbers whose forward operation is not known.
        sliced: The node of the last operation, and its scope, if it wrote to a view of a tensor
            that requires a gradient, for which autograd makes further nodes; or None.
        mark: The number of the thread's scope and phase, see `native_tap.fast_path`.
        mode: The dispatch mode that was entered on the thread, or None.
        data: While the thread runs data loading: the `Operations` that observe it; or None.
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
"""The native tap's library, once loaded; `Quiet` informs it, too."""


def tell(library: Any) -> None:
    """Have `Quiet` inform the native tap from now on."""
    global native
    native = library


class FastPath(Protocol):
    """The fast path of a run, see `native_tap.fast_path`.

    Attributes:
        following: The script that the step follows, or None.
        tell_mark: Informs the library of the calling thread's mark, which equals `Place.mark`.
        accumulated: Whether a parameter's accumulated gradient was predicted by the script and its
            pair of values was emitted already, so that nothing is left to do.
    """

    following: Any
    tell_mark: Callable[[int], None]
    accumulated: Callable[[Any, dict[int, int]], bool]

    def number(self, scope: str, phase: str, forward: int | None) -> int:
        """The mark of a scope and phase."""

    def mark(self, state: ThreadState) -> None:
        """Update the thread's mark after its scope or phase has changed."""

    def lose(self) -> None:
        """Stop following the script until the next step."""

    def owns(self, tensor: Any, owner: Owner) -> bool:
        """Whether giving a tensor this owner would change nothing."""

    def known(self, tensor: Any) -> int:
        """The id of a tensor's value; 0 if it is not known."""

    def arrived(self, parameter: Any, gradient: Any) -> bool:
        """Whether the arrival of a parameter's gradient needs no further work."""


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
