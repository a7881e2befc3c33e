"""ThreadState: where a thread is: its scope, its phase, its cursors.

Invariant: each thread has its own; nothing here is shared.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nodescope.ir.graph import Phase, SourceLocation
from nodescope.ir.identity import Cursor

if TYPE_CHECKING:
    from nodescope.emit.rounds import Rounds


class ThreadState:
    """The state of one thread.

    Attributes:
        scope: Path of the name scopes around the running code.
        phase: The phase of training.
        cursor: The cursor for this scope and phase, or None if it has to be looked up.
        cursors: All cursors of this thread, by scope, phase and loop.
        call: The number of the model calls under way, or 0; see `engine.model_calls`.
        home: During such a call, the cursors outside of it.
        forward: While a gradient is computed, the id of the node that it differentiates.
        thread: The thread's identifier.
        builder: The graph builder that records operations instead of running them, or None. It
            names the scopes.
        source: The line of the node that a graph is running now, or None to look it up.
        rounds: The loop rounds of this thread, if they are tracked.
    """

    __slots__ = (
        "builder", "call", "cursor", "cursors", "forward", "home", "phase", "rounds", "scope",
        "source", "thread",
    )  # fmt: skip

    def __init__(self) -> None:
        self.scope = ""
        self.phase: Phase = "forward"
        self.cursor: Cursor | None = None
        self.cursors: dict[tuple[str, Phase, int], Cursor] = {}
        self.call, self.home = 0, self.cursors
        self.forward: int | None = None
        self.thread = threading.get_ident()
        self.builder: Any = None
        self.source: SourceLocation | None = None
        self.rounds: Rounds | None = None


worker: Any = None
"""What stands for the run in a process that works for another process's run, such as a worker of a
data loader, or None. It has the attributes ``bus``, ``gate``, ``refused`` and ``step`` of `Run`.
"""

moved: Callable[[ThreadState], None] | None = None
"""Called on a thread whose scope or phase was changed by a context, or None."""


def follow(changed: Callable[[ThreadState], None] | None) -> None:
    """Have a function called on each thread whose scope or phase a context changes."""
    global moved
    moved = changed


class _Local(threading.local):
    place: ThreadState


local = _Local()
"""Thread-local storage of states; `local.place` is missing until `current` creates it."""


def current() -> ThreadState:
    """The calling thread's state."""
    try:
        return local.place
    except AttributeError:
        local.place = ThreadState()
        return local.place
