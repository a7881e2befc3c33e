"""Navigation in a recording, for the page.

Invariant: answers come from the recording alone; knowledge about the nodes is cached with the run.
"""

from __future__ import annotations

from nodescope.debug.breakpoints.matching import validate
from nodescope.debug.history import navigation
from nodescope.debug.history.history import History, Moment
from nodescope.protocol import BreakpointStatus
from nodescope.record.recording import Recording
from nodescope_server import wire
from nodescope_server.runs.runs import Run


async def move(run: Run, request: wire.Move) -> wire.Moved:
    """Answer `wire.Move`.

    Raises:
        NodescopeError: The breakpoint or the command is invalid.
    """
    session = run.session
    statuses = session.breakpoints if session is not None else ()
    if request.breakpoint is not None:
        validate(request.breakpoint)
        statuses = (BreakpointStatus(request.breakpoint),)

    def ask(recording: Recording) -> tuple[Moment | None, str]:
        history = run.history
        if history is None or history.recording is not recording:
            history = run.history = History(recording)
        history.refresh()
        stop = session.stop if session is not None and request.live else None
        node = None if stop is None else history.node(stop.node)
        stopped_at = None
        if stop is not None and node is not None:
            stopped_at = Moment(node, stop.seq, stop.step, stop.thread, stop.when, live=True)
        return navigation.navigate(
            history,
            request.seq,
            request.command,
            back=request.back,
            breakpoints=statuses,
            stopped_at=stopped_at,
        )

    moment, text = await run.query.call(ask)
    if moment is None:
        return wire.Moved(None, text)
    return wire.Moved(moment.seq, text, moment.node.id, moment.step)
