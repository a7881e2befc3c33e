"""Visibility: what the session must see of the program so that no stop is missed.

Invariant: pure functions of the session's state.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodescope.debug.session.state import SessionState
from nodescope.debug.session.transition import may_stop
from nodescope.protocol import Breakpoint


def visibility(state: SessionState, active: Sequence[Breakpoint]) -> tuple[bool, str]:
    """Whether node starts must be emitted, and the reason for emitting every node, or ``""``.

    Args:
        state: The session as it is now.
        active: Its armed breakpoints.
    """
    if not may_stop(state):
        return False, ""
    entry = state.goal is not None and state.goal.kind == "entry"
    starts = entry or any(breakpoint.when == "before" for breakpoint in active)
    if active:
        return starts, "a breakpoint is set"
    return starts, "" if state.goal is None else "the program is about to stop"
