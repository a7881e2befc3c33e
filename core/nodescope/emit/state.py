"""Where a thread is: its scope, its phase, its counts.

Invariant: each thread has its own; nothing here is shared.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from nodescope.ir.graph import Phase, SourceLocation
from nodescope.ir.identity import Cursor

if TYPE_CHECKING:
    from nodescope.emit.rounds import Rounds


class ThreadState:
    """The state of one thread.

    Attributes:
        scope: Path of the name scopes around the running code.
        phase: What part of training it is.
        cursor: The count for this scope and phase, or None if it has to be looked up.
        cursors: All counts of this thread, by scope, phase and the loop that they count in.
        forward: While a gradient is computed, the id of the node that it differentiates.
        thread: The thread's identifier.
        builder: What records operations in a graph instead of running them, or None. It names the
            scopes.
        source: The line that made the node which a graph runs now, or None to look for it.
        rounds: The loops that the thread goes through, as far as they are followed.
    """

    __slots__ = (
        "builder", "cursor", "cursors", "forward", "phase", "rounds", "scope", "source", "thread",
    )  # fmt: skip

    def __init__(self) -> None:
        self.scope = ""
        self.phase: Phase = "forward"
        self.cursor: Cursor | None = None
        self.cursors: dict[tuple[str, Phase, int], Cursor] = {}
        self.forward: int | None = None
        self.thread = threading.get_ident()
        self.builder: Any = None
        self.source: SourceLocation | None = None
        self.rounds: Rounds | None = None


class _Local(threading.local):
    place: ThreadState


local = _Local()
"""Where states are kept; `local.place` is missing until `current` made it."""


def current() -> ThreadState:
    """The calling thread's state."""
    try:
        return local.place
    except AttributeError:
        local.place = ThreadState()
        return local.place
