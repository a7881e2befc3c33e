"""The wire between server and browser: msgpack messages over one WebSocket.

A browser sends `Request`s and gets one `Response` for each; `Push`es arrive at any time. The
structure follows the Debug Adapter Protocol. The TypeScript types are generated from this package
(`tools.page_types`).

Invariant: plain data; columns are raw little-endian bytes, so that a page reads them as typed
arrays without parsing. Times are nanoseconds since the run began and fit a JavaScript number.
"""

from __future__ import annotations

import msgspec

from nodescope.ir.graph import Node, OpaqueSpec, TensorSpec, Value
from nodescope.protocol import Breakpoint, Command, RunInfo, SessionInfo
from nodescope.record.rows import Dropped, EditRow, Governed, GradientRow, Keeping, LogRow, StepRow
from nodescope.record.summary import TensorSummary
from nodescope_server.wire import (
    diff_messages,
    graph_messages,
    timeline_messages,
    watch_messages,
    why_messages,
)

# ---------------------------------------------------------------- requests


class Initialize(msgspec.Struct, frozen=True, tag="initialize"):
    """The first request on a socket."""

    client: str
    protocol: int


class Subscribe(msgspec.Struct, frozen=True, tag="subscribe"):
    """Follow a run. A snapshot comes first, unless ``seq`` is recent enough for a replay.

    Attributes:
        seq: The last seq that the client has; 0 for none. Reconnecting means replaying.
    """

    run: str
    seq: int = 0


class Unsubscribe(msgspec.Struct, frozen=True, tag="unsubscribe"):
    """Stop following the run."""

    run: str


class Control(msgspec.Struct, frozen=True, tag="control"):
    """A debugger command for a live run."""

    run: str
    command: Command


class ReadBreakpoint(msgspec.Struct, frozen=True, tag="read_breakpoint"):
    """Parse a breakpoint in command-line syntax; nothing is set."""

    run: str
    text: str


class GetState(msgspec.Struct, frozen=True, tag="get_state"):
    """The latest execution of every node at or before ``seq``: the picture of a past moment.

    Attributes:
        since: The moment whose state the page has: only differences are sent. None for the whole
            state.
    """

    run: str
    seq: int
    since: int | None = None


class GetValue(msgspec.Struct, frozen=True, tag="get_value"):
    """A value at a moment: its statistics, and a two-dimensional slice of its elements.

    Attributes:
        value: Value id.
        seq: The moment; None for the latest.
        index: One entry per fixed leading axis; the last two axes stay. Missing entries are 0.
            Ignored for at most two dimensions.
        rows, cols: First row and column of the window, and the most rows and columns (a page of the
            grid).
        branch: A what-if branch: if it changes the value, its value is sent; 0 for none.
    """

    run: str
    value: int
    seq: int | None = None
    index: tuple[int, ...] = ()
    row: int = 0
    col: int = 0
    rows: int = 128
    cols: int = 128
    branch: int = 0


class GetHistory(msgspec.Struct, frozen=True, tag="get_history"):
    """The executions of one node, oldest first, thinned to at most ``limit``."""

    run: str
    node: int
    until_seq: int | None = None
    limit: int = 500


class GetTimeline(msgspec.Struct, frozen=True, tag="get_timeline"):
    """Executions between two times, all nodes, at most ``limit`` (the longest are kept)."""

    run: str
    start_ns: int
    end_ns: int
    limit: int = 4000


class GetSource(msgspec.Struct, frozen=True, tag="get_source"):
    """The text of a source file that the recording refers to."""

    run: str
    file: str


class GetScope(msgspec.Struct, frozen=True, tag="get_scope"):
    """Get the class and settings of a scope's module."""

    run: str
    scope: str


class Move(msgspec.Struct, frozen=True, tag="move"):
    """The moment to which a command leads in the recording.

    Attributes:
        seq: The moment being viewed.
        command: A stepping command, or ``continue`` to the next breakpoint in the direction.
        back: Whether to go towards the beginning.
        breakpoint: A breakpoint to search for in place of the session's.
        live: Whether to start where the program is stopped, possibly before a node that has not
            run.
    """

    run: str
    seq: int
    command: Command
    back: bool = True
    breakpoint: Breakpoint | None = None
    live: bool = False


class Alive(msgspec.Struct, frozen=True, tag="alive"):
    """The page is responsive: the answer to a `Heartbeat`."""


RequestBody = (
    Initialize
    | Alive
    | Subscribe
    | Unsubscribe
    | Control
    | GetState
    | GetValue
    | GetHistory
    | GetTimeline
    | GetSource
    | GetScope
    | Move
    | ReadBreakpoint
    | why_messages.Requests
    | watch_messages.Requests
    | diff_messages.Requests
    | timeline_messages.Requests
)


class Request(msgspec.Struct, frozen=True):
    """A numbered request; the answer carries the same id."""

    id: int
    body: RequestBody


# ---------------------------------------------------------------- columns


class ExecutionColumns(msgspec.Struct, frozen=True):
    """Executions column by column: numbers as in `graph_messages`.

    Attributes:
        count: Number of rows.
        flags: Bits of record.rows.
        times: The number of executions of the node up to this row; only in snapshots and states.
        worker, lane: The process that ran it and the queue of its device, as in
            `nodescope.events.NodeFinished`.
    """

    count: int
    seq: bytes = b""
    node: bytes = b""
    step: bytes = b""
    thread: bytes = b""
    start_ns: bytes = b""
    duration_ns: bytes = b""
    flags: bytes = b""
    times: bytes = b""
    worker: bytes = b""
    lane: bytes = b""


# ---------------------------------------------------------------- responses


class Initialized(msgspec.Struct, frozen=True, tag="initialized"):
    """The server's identity and its runs."""

    server_version: str
    protocol: int
    runs: tuple[RunInfo, ...]


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The request was carried out, without further answer."""


class StateAt(msgspec.Struct, frozen=True, tag="state_at"):
    """One row per node that has run by ``seq``; ``step`` is the training step at that moment.

    Attributes:
        since: If not None, there are only rows of nodes whose latest execution differs from that at
            ``since``.
        gone: Nodes that had run by ``since``, but not by ``seq``.
        values: Values whose shape or dtype has changed during the run, as of ``seq``.
        steps: Steps around ``seq``, in a run with more than a snapshot contains; else empty.
    """

    seq: int
    step: int
    time_ns: int
    executions: ExecutionColumns
    since: int | None = None
    gone: tuple[int, ...] = ()
    values: tuple[ProducedValue, ...] = ()
    steps: tuple[StepRow, ...] = ()


class ValueSlice(msgspec.Struct, frozen=True, tag="value_slice"):
    """A value at a moment.

    Attributes:
        found: Whether the value had been computed by then.
        seq, step: The execution that wrote it.
        summary: None at the levels graph and timing.
        shape: The full shape; ``index`` the leading indices used.
        data: The window's elements, row by row, float64 little-endian (integers and bools too;
            complex as magnitude; int64 beyond 2^53 is rounded). Empty if not ``available``.
        window: row, col, rows, cols of ``data``.
        grid: rows and cols of the whole two-dimensional slice.
        available: Whether the elements could be read. If not, ``reason`` says why.
        branch: The what-if branch whose value it is; 0 for the recorded one.
    """

    value: int
    found: bool
    seq: int = 0
    step: int = 0
    spec: TensorSpec | OpaqueSpec | None = None
    summary: TensorSummary | None = None
    shape: tuple[int, ...] = ()
    index: tuple[int, ...] = ()
    window: tuple[int, int, int, int] = (0, 0, 0, 0)
    grid: tuple[int, int] = (0, 0)
    data: bytes = b""
    available: bool = False
    reason: str = ""
    branch: int = 0


class ValuePoint(msgspec.Struct, frozen=True):
    """One moment of a value's history."""

    seq: int
    step: int
    summary: TensorSummary | None


class History(msgspec.Struct, frozen=True, tag="history"):
    """Executions of a node, and the summaries of its first output, thinned alike.

    Attributes:
        total: Number of executions before thinning.
        edits: The user's edits of its outputs.
    """

    node: int
    total: int
    executions: ExecutionColumns
    points: tuple[ValuePoint, ...]
    edits: tuple[EditRow, ...] = ()


class Timeline(msgspec.Struct, frozen=True, tag="timeline"):
    """Executions in a span of time; ``total`` before thinning, ``host`` between them.

    Attributes:
        executions: Includes, in the lanes of device queues, when devices ran them.
        lanes: The names of these lanes.
        main_thread: As in the columns; None if the recording does not say.
    """

    start_ns: int
    end_ns: int
    total: int
    executions: ExecutionColumns
    host: tuple[timeline_messages.HostTime, ...] = ()
    lanes: tuple[timeline_messages.LaneName, ...] = ()
    main_thread: int | None = None


class Source(msgspec.Struct, frozen=True, tag="source"):
    """A source file, as it was during the run."""

    file: str
    text: str
    found: bool


class ScopeFacts(msgspec.Struct, frozen=True, tag="scope_facts"):
    """The module of a scope; ``kind`` is ``""`` if the scope is not a module or it is unknown.

    Attributes:
        kind: Its class.
        attrs: Its settings, as text.
    """

    scope: str
    kind: str = ""
    attrs: dict[str, str] = {}


class Moved(msgspec.Struct, frozen=True, tag="moved"):
    """The moment to which `Move` leads.

    Attributes:
        seq: The execution, or None if there is none; ``text`` describes it, or gives the reason.
    """

    seq: int | None
    text: str
    node: int = 0
    step: int = 0


class BreakpointRead(msgspec.Struct, frozen=True, tag="breakpoint_read"):
    """The result of parsing a breakpoint.

    Attributes:
        breakpoint: None if it could not be understood.
        fault: The error, with the column; or ``""``.
    """

    breakpoint: Breakpoint | None
    fault: str = ""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The request could not be carried out; ``message`` is for the user."""

    message: str
    hint: str = ""


ResponseBody = (
    Initialized
    | Done
    | StateAt
    | ValueSlice
    | History
    | Timeline
    | Source
    | ScopeFacts
    | Moved
    | BreakpointRead
    | why_messages.Answers
    | watch_messages.Answers
    | diff_messages.Answers
    | timeline_messages.Answers
    | Failed
)


class Response(msgspec.Struct, frozen=True, tag="response"):
    """The answer to the request with the same id."""

    id: int
    body: ResponseBody


# ---------------------------------------------------------------- pushes


class RunsChanged(msgspec.Struct, frozen=True, tag="runs"):
    """The complete list of runs."""

    runs: tuple[RunInfo, ...]


class ProducedValue(msgspec.Struct, frozen=True):
    """A value with the node that produces it; None for a fed value."""

    value: Value
    producer: int | None


class Snapshot(msgspec.Struct, frozen=True, tag="snapshot"):
    """Everything that a page needs to show a run at ``seq``; replaces earlier data.

    Attributes:
        last_event: The last record of the program's own activity up to ``seq``; later records only
            concern which values are kept.
        nodes: Every definition in order; the last of each node is in force.
        executions: The latest of each node, with ``times``.
        steps: All steps; if more than 4,000, evenly spaced ones and the last 2,000.
        logs: The last 2,000 lines.
        governed: The governor's latest report, without its nodes; None for a run without a limit.
        keeping: What is kept; None for recordings that do not say.
    """

    run: RunInfo
    seq: int
    last_event: int
    time_ns: int
    nodes: graph_messages.NodeColumns
    values: graph_messages.ValueColumns
    gradients: tuple[GradientRow, ...]
    steps: tuple[StepRow, ...]
    logs: tuple[LogRow, ...]
    executions: ExecutionColumns
    dropped: Dropped
    session: SessionInfo | None
    governed: Governed | None = None
    keeping: Keeping | None = None


class Records(msgspec.Struct, frozen=True, tag="records"):
    """Everything recorded after the previous message, up to ``seq``.

    Attributes:
        last_event: As in `Snapshot`; 0 if the program did nothing.
        nodes, values: New or redefined.
        node_seqs: The seq at which each of ``nodes`` was defined.
        executions: Every one (live), in order of seq.
        steps: Steps that began or ended; replaces the row of the same step.
        skipped: Executions left out because there were more than a page can use; the last of each
            node is always among ``executions``.
        governed: The governor's report since, without its nodes; None if there is none.
        keeping: What is kept, if reported since.
    """

    run: str
    seq: int
    last_event: int
    time_ns: int
    nodes: tuple[Node, ...]
    node_seqs: tuple[int, ...]
    values: tuple[ProducedValue, ...]
    gradients: tuple[GradientRow, ...]
    steps: tuple[StepRow, ...]
    logs: tuple[LogRow, ...]
    executions: ExecutionColumns
    dropped: Dropped
    skipped: int = 0
    governed: Governed | None = None
    keeping: Keeping | None = None


class SessionChanged(msgspec.Struct, frozen=True, tag="session"):
    """The session's new state. All records up to ``info.stop.seq`` were sent before it."""

    run: str
    info: SessionInfo


class RunChanged(msgspec.Struct, frozen=True, tag="run"):
    """A run ended, was lost or came back."""

    run: RunInfo


class StoppedRun(msgspec.Struct, frozen=True):
    """A run whose program is stopped, and the name of the node where it is stopped."""

    run: str
    name: str
    node: str


class StoppedElsewhere(msgspec.Struct, frozen=True, tag="stopped_elsewhere"):
    """The stopped programs of this server that the page does not follow, whenever they change."""

    runs: tuple[StoppedRun, ...]


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """Asks the page whether it is responsive; it answers `Alive` at once."""


Push = RunsChanged | StoppedElsewhere | Snapshot | Records | SessionChanged | RunChanged
ServerMessage = Response | Heartbeat | Push
