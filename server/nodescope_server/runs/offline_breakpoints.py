"""Offline breakpoints: set after the end of a run, for navigating its recording.

Invariant: they are checked like those of a running program, against the nodes of the recording.
"""

from __future__ import annotations

from nodescope.debug.breakpoints.matching import Catalog
from nodescope.debug.session.state import Commanded, GraphSettled, SessionState
from nodescope.debug.session.transition import info_of, transition
from nodescope.protocol import SessionInfo, SetBreakpoints
from nodescope.record.recording import Recording


def session_with(
    recording: Recording, before: SessionInfo | None, command: SetBreakpoints
) -> SessionInfo:
    """The session of an ended run with another set of breakpoints.

    Raises:
        BreakpointError, ConditionError: A breakpoint is invalid; nothing is changed.
    """
    session = before or SessionInfo(phase="finished")
    state = SessionState(
        phase="finished",
        version=session.version,
        breakpoints=session.breakpoints,
        next_id=max((status.breakpoint.id for status in session.breakpoints), default=0) + 1,
        controllers=1,
        watches=session.watches,
    )
    catalog = Catalog(row.node for row in recording.nodes())
    state, _ = transition(state, Commanded(command, catalog))
    state, _ = transition(state, GraphSettled(catalog))
    return info_of(state)
