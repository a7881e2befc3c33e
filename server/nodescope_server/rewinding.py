"""Back and forth in a recording, for the page.

Invariant: answered from the recording alone; what a run has learnt of its nodes is kept with it.
"""

from __future__ import annotations

from nodescope.debug import rewind
from nodescope.debug.breakpoints import validate
from nodescope.debug.moments import History, Moment
from nodescope.protocol import BreakpointStatus
from nodescope.record.recording import Recording
from nodescope_server import wire
from nodescope_server.runs import Run


async def move(run: Run, request: wire.Move) -> wire.Moved:
    """Answer `wire.Move`.

    Raises:
        NodescopeError: The breakpoint or the command makes no sense.
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
        stands = None
        if stop is not None and node is not None:
            stands = Moment(node, stop.seq, stop.step, stop.thread, stop.when, live=True)
        return rewind.moved(
            history,
            request.seq,
            request.command,
            back=request.back,
            breakpoints=statuses,
            stands=stands,
        )

    found, text = await run.query.call(ask)
    if found is None:
        return wire.Moved(None, text)
    return wire.Moved(found.seq, text, found.node.id, found.step)
