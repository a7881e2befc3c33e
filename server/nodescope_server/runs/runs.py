"""The runs that the server knows: live ones from the link, recorded ones from files.

Both are read from the recording alone. A live run differs in that its recording grows (the link
reports how far it may be read) and that a `Peer` takes commands.

Invariant: a run is found by its id in a dictionary; an id is never part of a path. Recordings are
read in separate threads, so that the event loop never waits for a disk.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable, Set
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from nodescope.console_output import printable
from nodescope.debug.history.history import History
from nodescope.debug.replay import ExecutionIndex
from nodescope.debug.report.problems import Problems
from nodescope.errors import LinkError, NodescopeError, RecordingError, UsageError
from nodescope.events import Array
from nodescope.protocol import BrokenLoss, Command, RunInfo, SessionInfo, SetBreakpoints
from nodescope.record.files.ownership import Vouched, release, vouch
from nodescope.record.overview import broken_loss, log_size, still_runs
from nodescope.record.recording import Recording
from nodescope.record.rows import Dropped
from nodescope.record.step_courses import StepCourses
from nodescope.record.step_times.step_times import StepTimes
from nodescope.record.wal_checkpoint import fold
from nodescope_server import wire
from nodescope_server.runs.branches import Branches
from nodescope_server.runs.debuggee import Peer
from nodescope_server.runs.offline_breakpoints import session_with
from nodescope_server.wire import convert
from nodescope_server.wire.graph_columns import node_columns, value_columns

T = TypeVar("T")

# A snapshot's last seq, session and run.
_Moment = tuple[int, SessionInfo | None, RunInfo]

_ID = re.compile(r"[0-9a-f]{16}")
# How long a query for elements waits for those still to be written after a stop.
WHOLE_S = 5.0
_SHARED_BATCHES = 4
# Errors that a damaged file can cause in a query, beyond those explained by the reader itself.
_FAULTS = (
    sqlite3.Error, msgspec.MsgspecError, LookupError, ValueError, TypeError, OverflowError,
)  # fmt: skip

_encode = msgspec.msgpack.Encoder().encode
# In msgpack, a text of nine bytes. JavaScript readers refuse a key with this name.
_PROTO = b"\xa9__proto__"


def encode(message: object) -> bytes:
    """A message as bytes; a key that would be an object's prototype is renamed."""
    data = _encode(message)
    if _PROTO not in data:
        return data
    return _encode(_without_proto(msgspec.to_builtins(message, builtin_types=(bytes,))))


def _without_proto(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {
            "__proto__ " if key == "__proto__" else key: _without_proto(item)
            for key, item in plain.items()
        }
    if isinstance(plain, list | tuple):
        return [_without_proto(item) for item in plain]
    return plain


class UnknownRunError(NodescopeError, LookupError):
    """No run has this id."""


class RunObserver(Protocol):
    """An observer of a run's progress."""

    def wake(self, *, urgent: bool) -> None:
        """Check for news; ``urgent`` if a user is waiting, such as at a stop."""


class Reader:
    """One recording, opened on first use and read by one thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._recording: Recording | None = None
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="nodescope-reader")

    async def call(self, question: Callable[[Recording], T]) -> T:
        """Run ``question(recording)`` in the reader's thread.

        Raises:
            RecordingError: There is no recording, or it cannot be read.
        """
        return await asyncio.wrap_future(self.submit(question))

    def submit(self, question: Callable[[Recording], T]) -> Future[T]:
        """As `call`, for any event loop."""
        return self.pool.submit(self._ask, question)

    def _ask(self, question: Callable[[Recording], T]) -> T:
        if not self._path:
            raise RecordingError("this run has no recording")
        try:
            if self._recording is None:
                self._recording = Recording.open(Path(self._path))
            return question(self._recording)
        except NodescopeError:
            raise
        except _FAULTS as error:
            fault = f"{type(error).__name__}: {error}"
            raise RecordingError(f"{self._path} cannot be read ({fault})") from error

    def end(self) -> None:
        """Close the file, in the reader's thread."""
        if self._recording is not None:
            self._recording.close()
            self._recording = None

    async def close(self) -> None:
        """Close the file; a running query is interrupted."""
        if self._recording is not None:
            self._recording.interrupt()
        await asyncio.get_running_loop().run_in_executor(self.pool, self.end)
        self.pool.shutdown(wait=False)


class Run:
    """One run and its followers.

    Args:
        pages: The pages that are open now, whichever run they show; the caller keeps it current.

    Attributes:
        info: As shown in lists; replaced as a whole.
        committed: The seq up to which the recording may be read.
        session: The debugger's state; None for a recording in which no breakpoint was set.
        peer: The connected program, if any.
        follow, query, study: Three readers, so that a long query does not delay the live picture,
            and a computing one does not delay values and moves.
        history: Cached knowledge of `query` about the past.
        book: Cached execution index of `study`.
        problems: Cached problems: NaN, Inf and errors.
        branches: The what-if branches.
        times: Cached step times of `study`.
        courses: Cached paths and memory of steps, of `study`.
        resumed_s: When the program continued after a stop, by the event loop's clock; 0 at a stop.
        held: A live value fetched while the program is stopped: value id, seq, array.
    """

    def __init__(self, info: RunInfo, pages: Set[RunObserver] = frozenset()) -> None:
        self.info = info
        self.committed = 0
        self.session: SessionInfo | None = None
        self.peer: Peer | None = None
        self.follow = Reader(info.recording)
        self.query = Reader(info.recording)
        self.study = Reader(info.recording)
        self.history: History | None = None
        self.book: ExecutionIndex | None = None
        self.problems: Problems | None = None
        self.branches = Branches()
        self.times = StepTimes()
        self.courses = StepCourses()
        self.held: tuple[int, int, Array] | None = None
        self.resumed_s = 0.0
        self._followers: set[RunObserver] = set()
        self._pages = pages
        self._ever_followed = False
        self._told_controllers = -1
        self._whole = asyncio.Event()  # set: no elements are owed
        self._whole.set()
        self._vouched: Vouched | None = None
        self._batches: dict[tuple[int, int], asyncio.Task[bytes]] = {}
        self._snapshot: tuple[_Moment, Future[bytes]] | None = None

    @property
    def over(self) -> bool:
        """Whether the program has gone and only the recording is left."""
        return self.info.state != "live" and bool(self.info.recording)

    @property
    def stopped(self) -> bool:
        """Whether its program is connected and stopped."""
        return (
            self.peer is not None and self.session is not None and self.session.phase == "stopped"
        )

    @property
    def _controllers(self) -> int:
        """The number of pages that the program stops for.

        Pages that show another run also hold a stop: they announce it, and their users can come
        back. A program that no page has followed yet waits for the first one by its own rules.
        """
        if self.stopped and self._ever_followed:
            return len(self._followers | self._pages)
        return len(self._followers)

    def add(self, follower: RunObserver) -> None:
        """Add a follower; the program is informed."""
        self._followers.add(follower)
        self._ever_followed = True
        self.tell_controllers()

    def remove(self, follower: RunObserver) -> None:
        """Remove a follower."""
        self._followers.discard(follower)
        self.tell_controllers()

    def join(self, peer: Peer) -> None:
        """Note the connection of the run's program."""
        self.peer = peer
        self._told_controllers = -1

    def tell_controllers(self) -> None:
        """Tell the program how many pages it has, if that changed."""
        count = self._controllers
        if self.peer is not None and count != self._told_controllers:
            self._told_controllers = count
            self.peer.attend(count)

    def commit(self, seq: int, *, owes: bool = False) -> None:
        """Allow the recording to be read up to ``seq``. If the program ``owes`` elements, some are
        still to be written.
        """
        if owes:
            self._whole.clear()
        else:
            self._whole.set()
        if seq > self.committed:
            self.committed = seq
            self._wake(urgent=False)

    async def whole(self) -> bool:
        """Wait for elements still to be written after a stop; return whether they arrived just
        now.
        """
        if self._whole.is_set() or self.peer is None:
            return False
        try:
            async with asyncio.timeout(WHOLE_S):
                await self._whole.wait()
        except TimeoutError:
            return False
        return True

    def update(self, session: SessionInfo) -> None:
        """Note a new state of the debugger."""
        was_stopped = self.stopped
        self.session = session
        if self.stopped or was_stopped:
            self.resumed_s = 0.0 if self.stopped else asyncio.get_running_loop().time()
        self.held = None
        self._wake(urgent=True)
        if self.stopped != was_stopped:
            self.tell_controllers()
            for page in self._pages - self._followers:
                page.wake(urgent=False)

    def change(self, info: RunInfo) -> None:
        """Note that the run ended, was lost or came back."""
        self.info = info
        self.held = None
        self.resumed_s = 0.0
        self._wake(urgent=True)

    def _wake(self, *, urgent: bool) -> None:
        for follower in self._followers:
            follower.wake(urgent=urgent)

    async def command(self, command: Command) -> None:
        """Have the program execute a command. For an ended run, breakpoints are accepted as well.

        Raises:
            LinkError: The program is gone or silent.
            UsageError: The session refused the command.
        """
        if isinstance(command, SetBreakpoints) and self.peer is None and self.over:
            before = self.session
            self.update(
                await self.query.call(lambda recording: session_with(recording, before, command))
            )
            return
        if self.peer is None:
            raise LinkError(
                "the program is not connected: it cannot be controlled",
                hint="a finished or recorded run can still be inspected",
            )
        answer = await self.peer.command(command)
        if answer.error:
            raise UsageError(answer.error, hint=answer.hint)

    async def snapshot(self, until: int, session: SessionInfo | None) -> bytes:
        """A `wire.Snapshot`, encoded; browsers at the same moment share the work."""
        # A browser that disconnects does not cancel the snapshot for the others.
        return await asyncio.shield(asyncio.wrap_future(self._snapshot_at(until, session)))

    def prepare(self) -> None:
        """Make the snapshot that the first page will need, while its browser starts."""
        self._snapshot_at(self.committed, self.session)

    def _snapshot_at(self, until: int, session: SessionInfo | None) -> Future[bytes]:
        moment = (until, session, self.info)
        if self._snapshot is not None:
            before, made = self._snapshot
            # The snapshot of a finished run stays for later browsers.
            useful = not made.done() or (self.over and made.exception() is None)
            if before == moment and useful:
                return made
        _, _, info = moment

        def ask(recording: Recording) -> bytes:
            return encode(convert.snapshot(recording, info, session, until))

        if until == 0 or not info.recording:
            made = Future()
            made.set_result(encode(_empty(info, session)))
        else:
            made = self.follow.submit(ask)
        self._snapshot = (moment, made)
        return made

    async def batch(self, after: int, until: int) -> bytes:
        """An encoded `wire.Records`. Browsers at the same seq share the work."""
        key = (after, until)
        task = self._batches.get(key)
        if task is None:
            run = self.info.id
            task = asyncio.ensure_future(
                self.follow.call(
                    lambda recording: encode(convert.records(recording, run, after, until))
                )
            )
            while len(self._batches) >= _SHARED_BATCHES:
                del self._batches[next(iter(self._batches))]
            self._batches[key] = task
        # A browser that disconnects does not cancel the batch for the others.
        return await asyncio.shield(task)

    async def loss_ending(self) -> BrokenLoss | None:
        """The state of the loss at the end of the recording, if not finite."""
        try:
            return await self.query.call(broken_loss)
        except RecordingError:
            return None

    async def fold(self) -> None:
        """Merge the recording into one portable file, after its writer has ended.

        The readers close the file for that; each opens it again for its next query.
        """
        if self.info.recording:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self.query.pool, self._fold)

    def _fold(self) -> None:
        # In one reader's thread, while the other readers' threads wait for it.
        self.query.end()
        self.study.pool.submit(self.study.end).result()
        self.follow.pool.submit(self._fold_alone).result()

    def _fold_alone(self) -> None:
        self.follow.end()
        if fold(Path(self.info.recording)):
            self._disown()

    def vouch(self) -> None:
        """Vouch for the recording: its program is connected, so the file is this user's own."""
        if self.info.recording and self._vouched is None:
            self._vouched = vouch(Path(self.info.recording))

    def _disown(self) -> None:
        release(self._vouched)
        self._vouched = None

    async def close(self) -> None:
        """Close the files."""
        await self.follow.close()
        await self.query.close()
        await self.study.close()
        if self.info.recording:
            await asyncio.to_thread(fold, Path(self.info.recording))
            self._disown()


class Runs:
    """All runs, by id, in order of arrival."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._watchers: set[RunObserver] = set()
        self._pages: set[RunObserver] = set()
        self.version = 0

    @property
    def watched(self) -> bool:
        """Whether any page is open."""
        return bool(self._watchers)

    def infos(self) -> tuple[RunInfo, ...]:
        """The list of runs."""
        return tuple(run.info for run in self._runs.values())

    def all(self) -> tuple[Run, ...]:
        """Every run."""
        return tuple(self._runs.values())

    async def drop(self, run_id: str) -> None:
        """Remove a run whose recording is to be deleted; its followers see it end."""
        run = self._runs.pop(run_id, None)
        if run is not None:
            self.changed()
            await run.close()

    def get(self, run_id: str) -> Run:
        """The run with this id.

        Raises:
            UnknownRunError: The run does not exist.
        """
        run = self._runs.get(run_id)
        if run is None:
            name = run_id if _ID.fullmatch(run_id) else "that"
            raise UnknownRunError(f"there is no run {name}", hint="see the list of runs")
        return run

    def find(self, run_id: str) -> Run | None:
        """The run with this id, or None."""
        return self._runs.get(run_id)

    def add(self, info: RunInfo) -> Run:
        """Add a run, or find the existing one with the id.

        Raises:
            UsageError: The id is not 16 hexadecimal digits.
        """
        if not _ID.fullmatch(info.id):
            raise UsageError("a run id must be 16 hexadecimal digits")
        run = self._runs.get(info.id)
        if run is None:
            run = self._runs[info.id] = Run(info, self._pages)
            self.changed()
        return run

    async def open(self, path: Path) -> Run:
        """Add a recording.

        Raises:
            RecordingError: The file is not a recording that can be read.
        """
        full = printable(str(path.resolve()))
        probe = Reader(full)
        try:
            info, last, broken = await probe.call(
                lambda recording: (recording.run(), recording.last_seq(), broken_loss(recording))
            )
        finally:
            await probe.close()
        killed = info.status is None and not still_runs(info, log_size(path))
        state: Literal["lost", "recorded"] = "lost" if killed else "recorded"
        info = msgspec.structs.replace(info, state=state, recording=full, broken_loss=broken)
        run = self.find(info.id) or self.add(info)
        run.commit(last)
        run.prepare()
        return run

    def watch(self, watcher: RunObserver) -> None:
        """Register to be woken when the list changes."""
        self._watchers.add(watcher)

    def unwatch(self, watcher: RunObserver) -> None:
        """Unregister a watcher."""
        self._watchers.discard(watcher)

    def attend(self, page: RunObserver) -> None:
        """Note that a page is open and answers."""
        self._pages.add(page)
        self._tell_controllers()

    def leave(self, page: RunObserver) -> None:
        """Note that a page is gone or no longer answers."""
        self._pages.discard(page)
        self._tell_controllers()

    def _tell_controllers(self) -> None:
        for run in self._runs.values():
            run.tell_controllers()

    def changed(self) -> None:
        """Announce that the list has changed."""
        self.version += 1
        for watcher in self._watchers:
            watcher.wake(urgent=True)

    async def close(self) -> None:
        """Close every file."""
        await asyncio.gather(*(run.close() for run in self._runs.values()))


def _empty(info: RunInfo, session: SessionInfo | None) -> wire.Snapshot:
    return wire.Snapshot(
        run=info,
        seq=0,
        last_event=0,
        time_ns=0,
        nodes=node_columns((), ()),
        values=value_columns((), ()),
        gradients=(),
        steps=(),
        logs=(),
        executions=convert.columns(()),
        dropped=Dropped(),
        session=session,
    )
