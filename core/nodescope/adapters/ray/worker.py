"""Worker: observes the tasks of a Ray worker process.

It reports the tasks that begin, end and are submitted there. Where the program may stop, it asks
the run and waits for the answer. While a task waits, its processors are free for other tasks.

Invariant: observation changes nothing about a task unless the user edits a value. A task waits only
for the run's answer, and goes on if the run is gone or silent for `SILENT_S`.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import itertools
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import ray

from nodescope.adapters.ray import compat, wire
from nodescope.adapters.ray.describing import describe, described, elements_of, restored
from nodescope.adapters.ray.submitting import Submissions
from nodescope.adapters.ray.wire import Content, Ran
from nodescope.errors import error_text
from nodescope.interactive import cell_name
from nodescope.origins import add_internal_package, is_users

SILENT_S: Final = 10.0
"""How long a task waits without a sign of life from the run, in seconds."""
_CONNECT_S: Final = 3.0
_SOON_S: Final = 0.02
_SLICE_S: Final = 0.1
_MOST_RESULTS: Final = 16
_MOST_FRAMES: Final = 50
_now = time.perf_counter_ns


class Call:
    """A task that runs here."""

    __slots__ = ("first", "is_async", "ran", "values")

    def __init__(self, ran: Ran, first: int, is_async: bool) -> None:
        self.ran, self.first, self.is_async = ran, first, is_async
        self.values: dict[str, Any] = {}


_running: contextvars.ContextVar[Call | None] = contextvars.ContextVar("_running", default=None)


class _Items:
    """What a generator has yielded: the number of items, and the first ones."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Any] = []

    def add(self, item: Any) -> None:
        """Count an item; items are kept only while there are few."""
        self.count += 1
        if self.count <= _MOST_RESULTS:
            self.first.append(item)
        else:
            self.first.clear()


class Question:
    """A task that waits for the run's answer."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.answered = threading.Event()
        self.edits: dict[str, Content] = {}


class _Received:
    """Reads messages of the run one by one."""

    def __init__(self) -> None:
        self.frames = wire.Frames()
        self._bodies: list[bytes] = []

    def next(self, connection: socket.socket) -> wire.FromRun | None:
        """The next message; None once the connection has ended."""
        while not self._bodies:
            data = connection.recv(1 << 20)
            if not data:
                return None
            self._bodies = self.frames.take(data)
        message: wire.FromRun = wire.from_run.decode(self._bodies.pop(0))
        return message


class Worker:
    """This worker's end of the connection to the run."""

    def __init__(self, connection: socket.socket, received: _Received, config: wire.Config) -> None:
        self.config = config
        self.sender = wire.Sender(connection)
        self._socket, self._received = connection, received
        self._alive_s = time.monotonic()
        self._numbers = itertools.count(1)
        self._questions: dict[int, Question] = {}
        self._local = threading.local()
        self._main = threading.main_thread()
        self.submissions = Submissions(self.sender.send, self._place, self._inline)  # type: ignore[arg-type]

    def begin(self) -> None:
        """Observe this process until it ends."""
        stack = contextlib.ExitStack()
        stack.enter_context(compat.executions_seen(self.wrap))
        stack.enter_context(compat.channelled_seen(self.wrap))
        stack.enter_context(compat.transfers_seen(self._transferred))
        stack.enter_context(self.submissions.seen())
        self._stack = stack.pop_all()
        threading.Thread(target=self._read, name="nodescope-ray", daemon=True).start()

    def _inline(self) -> int:
        return self.config.inline if self.config.arrays else -1

    # Executions

    def wrap(
        self, function: Callable[..., Any], name: str, owner: str, task: str = ""
    ) -> Callable[..., Any]:
        """The function that runs in place of a task's; ``task`` is its id, by default Ray's."""
        if compat.is_generator(function):
            return self._wrap_generator(function, name, owner)
        if compat.is_method_async(function):

            @functools.wraps(function)
            async def observed_async(*args: Any, **kwargs: Any) -> Any:
                call = self._begin(function, name, owner, is_async=True)
                if call is None:
                    return await function(*args, **kwargs)
                if self._asks(self.config.starts, call):
                    args, kwargs = await _aside(self._before, call, args, kwargs)
                try:
                    result = await function(*args, **kwargs)
                except BaseException as error:
                    await _aside(self._failed, call, args, kwargs, error)
                    raise
                if self._asks(self.config.ends, call):
                    return await _aside(self._ended, call, args, kwargs, result)
                return self._ended(call, args, kwargs, result)

            return observed_async

        @functools.wraps(function)
        def observed(*args: Any, **kwargs: Any) -> Any:
            call = self._begin(function, name, owner, task=task)
            if call is None:
                return function(*args, **kwargs)
            if self._asks(self.config.starts, call):
                args, kwargs = self._before(call, args, kwargs)
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                self._failed(call, args, kwargs, error)
                raise
            return self._ended(call, args, kwargs, result)

        return observed

    def _wrap_generator(
        self, function: Callable[..., Any], name: str, owner: str
    ) -> Callable[..., Any]:
        """As `wrap`, for a function that yields its results: only a few are kept to its end."""
        if compat.is_async_generator(function):

            @functools.wraps(function)
            async def observed_async(*args: Any, **kwargs: Any) -> Any:
                call = self._begin(function, name, owner, is_async=True)
                if call is not None and self._asks(self.config.starts, call):
                    args, kwargs = await _aside(self._before, call, args, kwargs)
                items = _Items()
                try:
                    async for item in function(*args, **kwargs):
                        items.add(item)
                        yield item
                except Exception as error:
                    if call is not None:
                        await _aside(self._failed, call, args, kwargs, error)
                    raise
                if call is not None:
                    await _aside(self._exhausted, call, args, kwargs, items)

            if hasattr(function, "method"):  # Ray reads the kind of method from it
                observed_async.method = observed_async  # type: ignore[attr-defined]
            return observed_async

        @functools.wraps(function)
        def observed(*args: Any, **kwargs: Any) -> Any:
            call = self._begin(function, name, owner)
            if call is not None and self._asks(self.config.starts, call):
                args, kwargs = self._before(call, args, kwargs)
            items = _Items()
            try:
                for item in function(*args, **kwargs):
                    items.add(item)
                    yield item
            except Exception as error:
                if call is not None:
                    self._failed(call, args, kwargs, error)
                raise
            if call is not None:
                self._exhausted(call, args, kwargs, items)

        return observed

    def _begin(
        self, function: Any, name: str, owner: str, *, is_async: bool = False, task: str = ""
    ) -> Call | None:
        if self.sender.broken:
            return None
        try:
            now = _now()
            context = ray.get_runtime_context()
            actor = context.get_actor_id() or ""
            creates = bool(actor) and name == "__init__"
            arrived, read = getattr(self._local, "transfer", None) or (now, now)
            self._local.transfer = None
            if is_async or task:
                arrived = read = now
            attempt = 0 if task else compat.attempt()
            task = task or (f"actor:{actor}" if creates else context.get_task_id() or "")
            ran = Ran(task, attempt, owner, name, actor, arrived, read - arrived, now)
            call = Call(ran, int(hasattr(function, "method")), is_async)
            _running.set(call)
            self.sender.send_soon(wire.Began(ran))
            return call
        except Exception:
            return None

    def _before(
        self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Ask the run before the function runs. Returns the arguments with the user's edits."""
        with _nothing_raised():
            values = _slots(call, args, kwargs)
            edits = self._ask(call, "before", values)
            if edits:
                changed = list(args)
                for slot, content in edits.items():
                    if slot.isdecimal():
                        at = int(slot) + call.first
                        changed[at] = restored(changed[at], content)
                    elif slot in kwargs:
                        kwargs = {**kwargs, slot: restored(kwargs[slot], content)}
                args = tuple(changed)
            # The time spent waiting does not count as the task's.
            call.ran = _replaced(call.ran, start_ns=_now())
        return args, kwargs

    def _ended(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        """Report the end, or ask the run there. Returns the result with the user's edits."""
        with _nothing_raised():
            end_ns = _now()
            outputs = self._outputs(result)
            if not self._asks(self.config.ends, call):
                self._tell_end(call, outputs, end_ns)
                return result
            values = {**_slots(call, args, kwargs), **_results(result)}
            edits = self._ask(call, "after", values, outputs, end_ns=end_ns)
            for slot, content in edits.items():
                if slot == ">":
                    result = restored(result, content)
                elif slot.startswith(">") and isinstance(result, list | tuple):
                    parts = list(result)
                    parts[int(slot[1:])] = restored(parts[int(slot[1:])], content)
                    result = type(result)(parts)
        _running.set(None)
        return result

    def _exhausted(
        self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], items: _Items
    ) -> None:
        """Report the end of a generator, or ask the run there."""
        with _nothing_raised():
            end_ns, config = _now(), self.config
            whole = Content("generator", text=f"{items.count:,} yielded")
            outputs: tuple[Content, ...] = (whole,)
            if items.count <= _MOST_RESULTS:
                outputs += tuple(
                    describe(item, config.inline, arrays=config.arrays) for item in items.first
                )
            if self._asks(config.ends, call):
                self._ask(call, "after", _slots(call, args, kwargs), outputs, end_ns=end_ns)
            else:
                self._tell_end(call, outputs, end_ns)
        _running.set(None)

    def _failed(
        self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], error: BaseException
    ) -> None:
        with _nothing_raised():
            end_ns = _now()
            text = error_text(error)
            cause = getattr(error, "cause", None)  # of a task whose result this one waited for
            if isinstance(error, ray.exceptions.RayTaskError) and cause is not None:
                text = f"{error_text(cause)} (raised by the task that it waited for)"
            if self.config.errors and isinstance(error, Exception):
                values = _slots(call, args, kwargs)
                frames = _frames_of(error)
                self._ask(call, "after", values, (), text, end_ns, frames)
            else:
                self._tell_end(call, (), end_ns, text)
        _running.set(None)

    def _tell_end(
        self, call: Call, outputs: tuple[Content, ...], end_ns: int = 0, error: str = ""
    ) -> None:
        self.sender.send(wire.Ended(call.ran, end_ns or _now(), outputs, error))
        self._local.transfer = None

    def _outputs(self, result: Any) -> tuple[Content, ...]:
        """The contents of the result, then those of its parts if it is a short tuple or list."""
        inline, arrays = self.config.inline, self.config.arrays
        whole = describe(result, inline, arrays=arrays)
        if type(result) in (tuple, list) and len(result) <= _MOST_RESULTS:
            return (whole, *(describe(part, inline, arrays=arrays) for part in result))
        return (whole,)

    def _asks(self, ops: tuple[str, ...] | None, call: Call) -> bool:
        if ops is None:
            return True
        if not ops:
            return False
        ran = call.ran
        op = f"{ran.owner}.{ran.name}" if ran.owner else ran.name
        return op in ops or f"ray::{op}" in ops or ran.owner in ops

    # Waiting

    def _ask(
        self, call: Call, when: str, values: dict[str, Any], outputs: tuple[Content, ...] = (),
        error: str = "", end_ns: int = 0, stack: tuple[tuple[str, int, str], ...] = (),
    ) -> dict[str, Content]:  # fmt: skip
        """Ask the run, and wait for its answer. Returns the edits by slot."""
        number, question = next(self._numbers), Question(values)
        self._questions[number] = question
        inline = self.config.inline
        inputs = {slot: describe(value, inline) for slot, value in values.items()
                  if not slot.startswith(">")}  # fmt: skip
        self._alive_s = time.monotonic()
        paused = False
        try:
            if not self.sender.send(
                wire.Asks(number, when, call.ran, inputs, outputs, error, end_ns, stack)
            ):
                return {}
            if question.answered.wait(_SOON_S):
                return question.edits
            paused = True
            task = "" if call.ran.actor else call.ran.task
            if task:
                compat.mark_paused(task, True)
            gives = bool(task) and threading.current_thread() is self._main
            while not question.answered.is_set():
                if self.sender.broken or time.monotonic() - self._alive_s > SILENT_S:
                    print("nodescope: the run does not answer; the task goes on", file=sys.stderr)
                    break
                if gives:
                    try:
                        compat.give_processor_back(task, _SLICE_S)
                    except Exception:  # the cluster is ending
                        gives = False
                else:
                    question.answered.wait(_SLICE_S)
            return question.edits
        finally:
            self._questions.pop(number, None)
            if paused and not call.ran.actor:
                compat.mark_paused(call.ran.task, False)

    def _fetch(self, message: wire.Fetch) -> None:
        question = self._questions.get(message.question)
        try:
            if question is None or message.slot not in question.values:
                raise LookupError("the task has gone on")
            array = elements_of(question.values[message.slot])
            if array is None:
                raise LookupError("it has no elements")
            if message.window is not None:
                array = array[tuple(slice(low, high) for low, high in message.window)]
            answer = wire.Fetched(message.number, described(array))
        except Exception as error:
            answer = wire.Fetched(message.number, error=str(error) or type(error).__name__)
        self.sender.send(answer)

    # The connection

    def _read(self) -> None:
        with contextlib.suppress(Exception):
            while (message := self._received.next(self._socket)) is not None:
                self._take(message)
        self.sender.broken = True
        self.submissions.off = True
        for question in list(self._questions.values()):
            question.answered.set()

    def _take(self, message: wire.FromRun) -> None:
        self._alive_s = time.monotonic()
        if isinstance(message, wire.Config):
            self.config = message
            self.sender.send(wire.Configured(message.number))
        elif isinstance(message, wire.Go):
            question = self._questions.get(message.number)
            if question is not None:
                question.edits = message.edits
                question.answered.set()
        elif isinstance(message, wire.Fetch):
            self._fetch(message)

    def _transferred(self, start: int, end: int) -> None:
        if getattr(self._local, "transfer", None) is None:
            self._local.transfer = (start, end)

    def _place(self) -> tuple[str, int]:
        call = _running.get()
        if call is not None:
            return call.ran.task, call.ran.attempt
        context = ray.get_runtime_context()
        return context.get_task_id() or "", 0


async def _aside(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function that may block on another thread; the actor's event loop goes on."""
    import asyncio

    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(
        None, functools.partial(context.run, function, *args)
    )


@contextlib.contextmanager
def _nothing_raised() -> Any:
    """Suppress nodescope's own exceptions."""
    try:
        yield
    except Exception as error:
        if os.environ.get("NODESCOPE_DEBUG"):
            print(f"nodescope: {type(error).__name__}: {error}", file=sys.stderr)


def _slots(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    positional = {str(at): value for at, value in enumerate(args[call.first :])}
    return {**positional, **kwargs}


def _results(result: Any) -> dict[str, Any]:
    slots = {">": result}
    if type(result) in (tuple, list) and len(result) <= _MOST_RESULTS:
        slots.update({f">{at}": part for at, part in enumerate(result)})
    return slots


def _replaced(ran: Ran, **changes: Any) -> Ran:
    import msgspec

    return msgspec.structs.replace(ran, **changes)


def _frames_of(error: BaseException) -> tuple[tuple[str, int, str], ...]:
    """The user's frames in an exception's traceback, innermost first."""
    frames: list[tuple[str, int, str]] = []
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_users(code.co_filename):
            frames.append((cell_name(code.co_filename), traceback.tb_lineno, code.co_qualname))
        traceback = traceback.tb_next
    return tuple(frames[::-1][:_MOST_FRAMES])


def observe(host: str, port: int, token: bytes) -> bool:
    """Connect this worker to the run, and observe it; False if the run cannot be reached."""
    connection = socket.create_connection((host, port), timeout=_CONNECT_S)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        received, nonce = _Received(), secrets.token_bytes(16)
        challenge = received.next(connection)
        if not isinstance(challenge, wire.Challenge):
            return False
        context = ray.get_runtime_context()
        connection.sendall(
            wire.frame(
                wire.Hello(
                    wire.proof(token, challenge.nonce, b"worker"), nonce, context.get_worker_id(),
                    context.get_node_id(), os.getpid(), _now(), wire.machine(),
                )
            )
        )  # fmt: skip
        welcome = received.next(connection)
        if not isinstance(welcome, wire.Welcome):
            return False
        if welcome.proof != wire.proof(token, nonce, b"run"):
            return False
    except OSError:
        connection.close()
        return False
    connection.settimeout(None)
    received.frames.most = wire.MAX_FRAME
    add_internal_package(ray.__file__)
    Worker(connection, received, welcome.config).begin()
    return True


def hook(host: str, port: int, token: bytes, then: Any) -> Callable[[], None]:
    """The set-up hook of workers: nodescope's, then the program's own, a function or its name.

    It is sent by value: a worker where nodescope is not installed runs unobserved.
    """

    def nodescope_worker() -> None:
        try:
            from nodescope.adapters.ray.worker import observe

            observe(host, port, token)
        except Exception:
            pass
        if isinstance(then, str):
            from ray._common.utils import load_class

            load_class(then)()
        elif then is not None:
            then()

    return nodescope_worker
