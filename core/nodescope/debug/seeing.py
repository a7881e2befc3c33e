"""Seeing: what the session has to see of the program, so that no stop is missed.

Invariant: pure functions of the session's state.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodescope.debug.session import may_stop
from nodescope.debug.state import SessionState
from nodescope.protocol import Breakpoint


def seen(state: SessionState, active: Sequence[Breakpoint]) -> tuple[bool, str]:
    """Whether starts of nodes are wanted, and why every node is, in words, or ``""``.

    Args:
        state: The session as it is now.
        active: Its armed breakpoints.
    """
    if not may_stop(state):
        return False, ""
    entry = state.goal is not None and state.goal.kind == "entry"
    starts = entry or any(each.when == "before" for each in active)
    if active:
        return starts, "a breakpoint is set"
    return starts, "" if state.goal is None else "the program is to stop"
