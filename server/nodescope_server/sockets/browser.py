"""The endpoint for browsers: ``/api/stream``.

Each browser has one task that checks how far its runs are committed, reads the records that it has
not sent yet, and sends them. So a slow browser has no queue that could grow; it gets fewer, larger
and thinned messages, and beyond `MAX_BEHIND` a new snapshot.

Invariant: at most one push and a few answers are in memory per browser, none of them waits longer
than the send deadline, and no browser can delay another or a program.
"""

from __future__ import annotations

import asyncio
import math

import msgspec
from starlette.websockets import WebSocket

from nodescope import protocol
from nodescope.errors import NodescopeError, RecordingError
from nodescope.processes import refused
from nodescope.protocol import RunInfo, SessionInfo
from nodescope.record.scope_facts import scope_facts
from nodescope_server import __version__, wire
from nodescope_server.handlers import (
    breakpoints,
    navigate,
    step_courses,
    step_times,
    value_diff,
    watches,
    what_if,
    why,
)
from nodescope_server.handlers.values import value_slice
from nodescope_server.runs.runs import Run, Runs, encode
from nodescope_server.sockets.io import SEND_DEADLINE_S, GoneError, close, first_of, receive, send
from nodescope_server.wire import (
    convert,
    diff_messages,
    timeline_messages,
    watch_messages,
    why_messages,
)

MAX_BROWSERS = 32
# The most records to replay; beyond it, a snapshot is shorter.
MAX_REPLAY = 20_000
# A live browser that is this far behind gets a new snapshot.
MAX_BEHIND = 200_000
# Every push makes pages draw, which takes processor time from the program.
PUSH_INTERVAL_S = 0.1
# After a program continues, pages get no push for this long; most steps end within it.
ALONE_S = 0.3
# Interval of heartbeats; silence after which a connected page no longer counts as a controller; and
# silence after which it is disconnected.
BEAT_S = 1.0
SILENT_S = 4.0
GONE_S = 30.0
HELLO_DEADLINE_S = 10.0
# Close codes: done; the server ends, so that the page does not wait for it to come back.
NORMAL, ENDING = 1000, 1012
PAGE = "page"
_QUERIES = 4
_REQUESTS = 256
# Requests answered from full arrays: they wait for elements still to be written after a stop.
_ABOUT_ELEMENTS = (
    wire.Move
    | watch_messages.AskWatch
    | why_messages.AskWhy
    | why_messages.AskSpread
    | why_messages.WhatIf
)

_decode = msgspec.msgpack.Decoder(wire.Request).decode


class _Numbered(msgspec.Struct):
    """The part of an invalid request that is needed to answer it."""

    id: int


_decode_number = msgspec.msgpack.Decoder(_Numbered).decode


class _Subscription:
    """A browser's progress in one run; ``sent`` is -1 if it needs a snapshot."""

    def __init__(self, run: Run, sent: int) -> None:
        self.run = run
        self.sent = sent
        self.session: SessionInfo | None = None
        self.info: RunInfo = run.info


class Stream:
    """Serves browsers."""

    def __init__(self, runs: Runs, *, send_deadline_s: float = SEND_DEADLINE_S) -> None:
        self._runs = runs
        self._deadline_s = send_deadline_s
        self._browsers: set[_Browser] = set()
        self._ending = False

    async def __call__(self, socket: WebSocket) -> None:
        """Serve one connection to its end."""
        await socket.accept()
        if self._ending:
            await close(socket, ENDING)
            return
        if len(self._browsers) >= MAX_BROWSERS:
            await close(socket, 1013, f"{MAX_BROWSERS} pages are open already; close one")
            return
        browser = _Browser(socket, self._runs, self._deadline_s)
        self._browsers.add(browser)
        try:
            await browser.serve()
        finally:
            self._browsers.discard(browser)

    def is_up_to_date(self) -> bool:
        """Whether every browser is up to date; wakes those that are not."""
        behind = [browser for browser in self._browsers if not browser.is_up_to_date()]
        for browser in behind:
            browser.wake(urgent=True)
        return not behind

    def end(self) -> None:
        """Close every connection, and any new one, with `ENDING`."""
        self._ending = True
        for browser in self._browsers:
            browser.end()


class _Browser:
    """One connection; a `runs.RunObserver`."""

    def __init__(self, socket: WebSocket, runs: Runs, deadline_s: float) -> None:
        self._socket = socket
        self._runs = runs
        self._deadline_s = deadline_s
        self._subscriptions: dict[str, _Subscription] = {}
        self._moved = asyncio.Event()
        self._urgent = asyncio.Event()
        self._sending = asyncio.Lock()
        self._queries = asyncio.Semaphore(_QUERIES)
        self._tasks: set[asyncio.Task[None]] = set()
        self._gone = asyncio.Event()
        self._code = NORMAL
        self._runs_version = runs.version
        self._stopped_elsewhere: tuple[wire.StoppedRun, ...] = ()
        self._client = ""
        self._heard = 0.0
        self._silent = False

    def wake(self, *, urgent: bool) -> None:
        """Check for news."""
        self._moved.set()
        if urgent:
            self._urgent.set()

    def is_up_to_date(self) -> bool:
        """Whether this page has been sent everything known about the runs that it follows."""
        return all(
            subscription.sent >= subscription.run.committed
            and subscription.info is subscription.run.info
            and subscription.session is (subscription.run.session or subscription.session)
            for subscription in self._subscriptions.values()
        )

    def end(self) -> None:
        """Close the connection, because the server ends."""
        self._code = ENDING
        self._gone.set()

    async def serve(self) -> None:
        """Serve until the page is gone, or `end`."""
        try:
            async with asyncio.timeout(HELLO_DEADLINE_S):
                initialized = await self._initialize()
            if initialized:
                self._runs.watch(self)
                parts = [self._pump(), self._listen(), self._watch_gone()]
                if self._client == PAGE:
                    self._runs.attend(self)
                    parts.append(self._beat())
                await first_of(*parts)
        except TimeoutError:
            await close(self._socket, 1002, "no request received")
        except GoneError:
            pass
        finally:
            self._runs.unwatch(self)
            self._runs.leave(self)
            for subscription in self._subscriptions.values():
                subscription.run.remove(self)
            for task in self._tasks:
                task.cancel()
            await close(self._socket, self._code)

    async def _watch_gone(self) -> None:
        await self._gone.wait()

    async def _beat(self) -> None:
        """Send heartbeats: a frozen page keeps its connection, but must not hold the program."""
        loop = asyncio.get_running_loop()
        self._heard = loop.time()
        beat = encode(wire.Heartbeat())
        while (quiet := loop.time() - self._heard) < GONE_S:
            if quiet >= SILENT_S and not self._silent:
                self._silent = True
                self._runs.leave(self)
                for subscription in self._subscriptions.values():
                    subscription.run.remove(self)
            await self._send(beat)
            await asyncio.sleep(BEAT_S)

    def _hear(self) -> None:
        self._heard = asyncio.get_running_loop().time()
        if self._silent:
            self._silent = False
            self._runs.attend(self)
            for subscription in self._subscriptions.values():
                subscription.run.add(self)
            self.wake(urgent=True)

    async def _send(self, data: bytes) -> None:
        try:
            async with self._sending:
                await send(self._socket, data, self._deadline_s)
        except GoneError:
            self._gone.set()
            raise

    async def _answer(self, number: int, body: wire.ResponseBody) -> None:
        await self._send(encode(wire.Response(number, body)))

    # ------------------------------------------------------------ requests

    async def _next(self) -> wire.Request | None:
        """The next valid request; None at the end."""
        while (data := await receive(self._socket)) is not None:
            self._hear()
            try:
                return _decode(data)
            except (msgspec.MsgspecError, RecursionError, ValueError) as error:
                fault = str(error)
            try:
                number = _decode_number(data).id
            except (msgspec.MsgspecError, RecursionError, ValueError):
                await close(self._socket, 1007, f"not a request: {fault}")
                return None
            await self._answer(number, wire.Failed(f"the request cannot be read: {fault}"))
        return None

    async def _initialize(self) -> bool:
        request = await self._next()
        if request is None:
            return False
        body = request.body
        if not isinstance(body, wire.Initialize):
            await self._answer(request.id, wire.Failed("the first request must be initialize"))
            await close(self._socket, 1002, "the first request must be initialize")
            return False
        ours = protocol.PROTOCOL_VERSION
        if body.protocol != ours:
            message = f"the page speaks protocol {body.protocol}, the server protocol {ours}"
            hint = f"reload the page; the server is nodescope {__version__}"
            await self._answer(request.id, wire.Failed(message, hint))
            await close(self._socket, 1002, message)
            return False
        self._client = body.client
        answer = wire.Initialized(__version__, ours, self._runs.infos())
        await self._answer(request.id, answer)
        return True

    async def _listen(self) -> None:
        while (request := await self._next()) is not None:
            if isinstance(request.body, wire.Alive):
                continue
            if isinstance(request.body, wire.Subscribe | wire.Unsubscribe | wire.Initialize):
                await self._handle(request)  # in order: they change the subscriptions
                continue
            if len(self._tasks) >= _REQUESTS:
                await close(self._socket, 1008, "too many requests without waiting for answers")
                return
            task = asyncio.ensure_future(self._handle(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _handle(self, request: wire.Request) -> None:
        """Answer one request, whatever happens."""
        try:
            if isinstance(request.body, wire.Control):
                body = await self._perform(request.body)  # never behind a long query
            else:
                if isinstance(request.body, _ABOUT_ELEMENTS):
                    await self._runs.get(request.body.run).whole()
                async with self._queries:
                    body = await self._perform(request.body)
        except NodescopeError as error:
            body = wire.Failed(error.message, error.hint)
        except Exception as error:  # an error in one request must not end the page
            reason = refused(error)
            body = wire.Failed(
                reason or f"nodescope failed here ({type(error).__name__}: {error})",
                "try again later" if reason else "",
            )
        try:
            await self._answer(request.id, body)
        except GoneError:
            return
        if isinstance(request.body, wire.Subscribe | wire.Unsubscribe) and isinstance(
            body, wire.Done
        ):
            self.wake(urgent=True)

    async def _perform(self, body: wire.RequestBody) -> wire.ResponseBody:
        if isinstance(body, wire.Initialize):
            return wire.Failed("initialize comes once, at the start")
        if isinstance(body, wire.Alive):
            return wire.Done()
        run = self._runs.get(body.run)
        match body:
            case wire.Subscribe():
                await self._subscribe(run, body.seq)
            case wire.Unsubscribe():
                run.remove(self)
                self._subscriptions.pop(body.run, None)
            case wire.ReadBreakpoint():
                return breakpoints.read(body)
            case wire.Control():
                await run.command(body.command)
            case wire.GetState():
                return await run.query.call(
                    lambda recording: convert.state_at(recording, body.seq, body.since)
                )
            case wire.GetValue():
                return await value_slice(run, body)
            case wire.GetHistory():
                return await run.query.call(lambda recording: convert.history(recording, body))
            case wire.GetTimeline():
                return await run.query.call(lambda recording: convert.timeline(recording, body))
            case wire.GetSource():
                text = await run.query.call(lambda recording: recording.source(body.file))
                return wire.Source(body.file, text or "", text is not None)
            case wire.GetScope():
                facts = await run.query.call(lambda recording: scope_facts(recording, body.scope))
                if facts is None:
                    return wire.ScopeFacts(body.scope)
                return wire.ScopeFacts(body.scope, facts.kind, facts.attrs)
            case wire.Move():
                return await navigate.move(run, body)
            case diff_messages.CompareMoments():
                return await value_diff.compare(run, body)
            case diff_messages.GetAttributes():
                return await value_diff.attributes(run, body)
            case diff_messages.GetMemory():
                return await value_diff.memory(run, body)
            case diff_messages.GetStatistics():
                return await value_diff.statistics(run, body)
            case timeline_messages.GetStepTimes():
                return await step_times.step_times(run, body)
            case timeline_messages.GetCriticalPath():
                return await step_courses.critical_path(run, body)
            case timeline_messages.GetStepMemory():
                return await step_courses.step_memory(run, body)
            case diff_messages.GetProblems():
                return await value_diff.problems(run)
            case watch_messages.GetRules():
                return await watches.rules(run)
            case watch_messages.ReadWatch():
                return watches.read(body)
            case watch_messages.AskWatch():
                return await watches.ask(run, body)
            case why_messages.AskWhy():
                return await (what_if.why_in if body.branch else why.why)(run, body)
            case why_messages.AskSpread():
                return await why.spread(run, body)
            case why_messages.WhatIf():
                return await what_if.make_branch(run, body)
            case why_messages.GetBranches():
                return await what_if.listed(run)
            case why_messages.GetBranch():
                return await what_if.detail(run, body.branch)
            case why_messages.RenameBranch():
                return await what_if.rename(run, body.branch, body.name)
            case why_messages.DropBranch():
                return await what_if.drop(run, body.branch)
        return wire.Done()

    async def _subscribe(self, run: Run, seq: int) -> None:
        if run.committed:
            # An unreadable recording fails here, where the request can be answered with the reason.
            await run.follow.call(lambda recording: recording.last_seq())
        near = 0 < seq <= run.committed and run.committed - seq <= MAX_REPLAY
        self._subscriptions[run.info.id] = _Subscription(run, seq if near else -1)
        run.add(self)

    # ------------------------------------------------------------ pushes

    async def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._moved.wait()
            await self._left_alone()
            self._moved.clear()
            self._urgent.clear()
            if self._runs_version != self._runs.version:
                self._runs_version = self._runs.version
                await self._send(encode(wire.RunsChanged(self._runs.infos())))
            for subscription in list(self._subscriptions.values()):
                await self._push(subscription)
            await self._push_stopped_elsewhere()
            # News within the interval goes into one message, unless a user is waiting for it.
            try:
                async with asyncio.timeout_at(loop.time() + PUSH_INTERVAL_S):
                    await self._urgent.wait()
            except TimeoutError:
                pass

    async def _left_alone(self) -> None:
        """Wait while a followed program has only just continued."""
        loop = asyncio.get_running_loop()
        while (left := self._until_alone() - loop.time()) > 0:
            self._urgent.clear()
            try:
                async with asyncio.timeout(left):
                    await self._urgent.wait()
            except TimeoutError:
                return

    def _until_alone(self) -> float:
        followed = [sub for sub in self._subscriptions.values() if sub.sent >= 0]
        return max(
            (sub.run.resumed_s + ALONE_S for sub in followed if sub.run.resumed_s), default=0
        )

    async def _push_stopped_elsewhere(self) -> None:
        """Send the list of stopped programs that the page does not follow, if it changed."""
        stopped = tuple(
            wire.StoppedRun(run.info.id, run.info.name, run.session.stop.node_name)
            for run in self._runs.all()
            if run.stopped and run.info.id not in self._subscriptions
            and run.session is not None and run.session.stop is not None
        )  # fmt: skip
        if stopped != self._stopped_elsewhere:
            self._stopped_elsewhere = stopped
            await self._send(encode(wire.StoppedElsewhere(stopped)))

    async def _push(self, subscription: _Subscription) -> None:
        """Bring one subscription up to date: records, then the session, then the run's state."""
        run = subscription.run
        # Read first: everything that this state refers to was committed before it arrived.
        session, info, until = run.session, run.info, run.committed
        behind = until - subscription.sent if subscription.sent >= 0 else math.inf
        try:
            if behind > MAX_BEHIND:
                data = await run.snapshot(until, session)
            elif behind > 0:
                data = await run.batch(subscription.sent, until)
            else:
                data = b""
        except RecordingError as error:
            self._subscriptions.pop(info.id, None)
            run.remove(self)
            await self._send(
                encode(wire.RunChanged(msgspec.structs.replace(info, error=str(error))))
            )
            return
        if self._subscriptions.get(info.id) is not subscription:
            return  # unsubscribed, or subscribed again, during the read
        if data:
            await self._send(data)
            if behind > MAX_BEHIND:
                subscription.session, subscription.info = session, info
            subscription.sent = until
        if session is not None and session is not subscription.session:
            await self._send(encode(wire.SessionChanged(info.id, session)))
            subscription.session = session
        if info is not subscription.info:
            await self._send(encode(wire.RunChanged(info)))
            subscription.info = info
