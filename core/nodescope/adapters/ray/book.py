"""Book: the tasks of a run, built from submissions and from workers' reports.

Invariant: each execution is emitted once. A task whose argument failed never runs; its error names
the task that failed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nodescope.adapters.ray import compat, wire
from nodescope.adapters.ray.describing import described, stack_of
from nodescope.adapters.ray.distant import live, spec_of, window_of
from nodescope.adapters.ray.hub import Connection
from nodescope.adapters.ray.wire import Argument, Content, Ran, Submitted
from nodescope.arrays import Window
from nodescope.emit.emitter import NOT_KNOWN_YET, Edits, Emitter, Pending
from nodescope.emit.state import current
from nodescope.emit.tasks import Tasks
from nodescope.errors import ArrayError
from nodescope.events import Array, Gone
from nodescope.ir.device_times import DeviceRan
from nodescope.ir.graph import SourceLocation, Spec

_KNOWN: Final = 500_000
"""The largest number of objects whose producers are remembered."""
_STRANGE_S: Final = 1.0
"""How long a worker's message waits until the submission of its task is known, in seconds."""
_ASKED_AT_ONCE: Final = 500
_SMALL: Final = 4096
_now = time.perf_counter_ns


class Task:
    """A submitted task.

    Attributes:
        id: Its id, as in `Submitted`.
        call: Its node.
        slots: The slot of the argument at each input port; ``""`` for an object in a container.
        makers: The tasks whose results it takes as arguments.
        users: The tasks that take its results as arguments.
        began: Its latest attempt, or None.
        ended_ns: When it ended, or 0.
        failed: Why it failed for good, or ``""``.
        root: The task whose failure is the cause, maybe itself; None if it has not failed.
    """

    __slots__ = (
        "actor", "attempt", "attrs", "began", "call", "ended_ns", "failed", "id", "makers",
        "refs", "retries", "retries_errors", "root", "slots", "submitted_ns", "users", "values",
        "worker",
    )  # fmt: skip

    def __init__(self, id: str, call: Pending, submitted: Submitted) -> None:
        self.id, self.call = id, call
        self.actor = submitted.actor
        self.attrs: dict[str, Any] = {}
        self.slots: tuple[str, ...] = ()
        self.values: tuple[Any, ...] = ()
        self.refs = submitted.refs
        self.retries, self.retries_errors = submitted.retries, submitted.retries_errors
        self.submitted_ns = submitted.time_ns
        self.makers: list[Task] = []
        self.users: list[Task] = []
        self.worker: Connection | None = None
        self.attempt = -1
        self.began: Ran | None = None
        self.ended_ns = 0
        self.failed = ""
        self.root: Task | None = None


class Book:
    """The tasks of one run.

    Args:
        emitter: Takes the nodes and their executions.
        several: Whether the cluster has several nodes.
        failures: See `compat.failures`.
    """

    def __init__(
        self,
        emitter: Emitter,
        several: Callable[[], bool] = lambda: False,
        failures: Callable[[list[bytes]], dict[bytes, str]] = lambda results: {},
    ) -> None:
        self._emitter = emitter
        self._tasks = Tasks(emitter)
        self._several, self._failures = several, failures
        self._lock = threading.RLock()  # reentrant: signal handlers may submit here
        self._known: OrderedDict[str, Task] = OrderedDict()
        self._due: dict[str, Task] = {}
        self._asked_s = 0.0
        self._objects: OrderedDict[bytes, tuple[int, object, Task | None]] = OrderedDict()
        self._newest: OrderedDict[int, Any] = OrderedDict()
        self._running: dict[Connection, dict[str, Task]] = {}
        self._actors: dict[str, str] = {}
        self._of_actor: dict[str, dict[str, Task]] = {}
        self._named: set[Connection] = set()
        self._scopes: dict[tuple[str, Any], int] = {}
        self._strange: list[tuple[float, Connection, wire.FromWorker]] = []
        self._machines: list[str] = []
        self._submitter: Connection | None = None
        self._held, self._held_until_s = 0, 0.0
        self.off = False

    # Submissions

    def submitted(self, message: Submitted, worker: Connection | None = None) -> tuple[int, ...]:
        """Define the node of a submission. Returns the ids of the node and of its inputs."""
        if self.off:
            return ()
        with self._lock:
            return self._submit(message, worker)

    def _submit(self, message: Submitted, worker: Connection | None) -> tuple[int, ...]:
        parent = self._known.get(message.parent)
        scope = current().scope if worker is None else ""  # the scope open at the call
        scope = parent.call.node.name if parent is not None else scope
        attempt: Any = (message.parent, message.attempt) if message.parent else None
        drawn = message.graph is not None and not message.graph[1]  # not submitted yet
        if message.graph is not None:
            scope, attempt = message.graph[0], message.graph
        place = message.source
        source = None if place is None else SourceLocation(*place)
        op = f"{message.owner}.{message.name}" if message.owner else message.name
        label = message.label or message.name
        now = message.time_ns if worker is None else worker.here_ns(message.time_ns)
        self._submitter = worker
        if message.kind == "actor":
            scope = self._actor_scope(message, scope)
            label = message.name
        elif message.kind == "method":
            within = self._actors.get(message.actor, message.owner)
            inside = scope and (within == scope or within.startswith(f"{scope}/"))
            scope = f"{scope}/{within}" if message.graph and not inside else within
        inputs: list[int] = []
        slots: list[str] = []
        makers: list[Task] = []
        attrs: dict[str, Any] = {}
        values: list[Any] = []
        family = {"task": "task", "put": "leaf"}.get(message.kind, "actor")
        for argument in message.arguments:
            if argument.refs:
                for ref in argument.refs:
                    value, maker = self._value_of(ref, argument, scope, source, attempt)
                    inputs.append(value)
                    slots.append(argument.slot if argument.itself else "")
                    values.append(self._newest.get(value))
                    if argument.itself and maker is not None:
                        makers.append(maker)
                if not argument.itself:
                    attrs[argument.name] = argument.text
            elif message.kind != "put" and (argument.content is not None or argument.unknown):
                array = None if argument.content is None else live(argument.content)
                value = self._leaf(argument, f"{label}.{argument.name}", array, scope, source,
                                   attempt, now, drawn)  # fmt: skip
                inputs.append(value)
                slots.append(argument.slot)
                values.append(array)
            else:
                attrs[argument.name] = argument.text
        if message.kind == "put":
            self._put(message, scope, source, attempt, now)
            return ()
        creation = self._known.get(f"actor:{message.actor}") if message.kind == "method" else None
        control = () if creation is None else (creation.call.node.id,)
        call = self._tasks.define(
            op, "task", tuple(inputs), [NOT_KNOWN_YET] * max(1, len(message.refs)),
            {**attrs, **message.options}, scope=scope, label=label, native=f"ray::{op}",
            dialect="ray", family=family, control=control, source=source, around=attempt,
        )  # fmt: skip
        nodes = (call.node.id, *inputs)
        if drawn:
            for ref, value in zip(message.refs, call.outputs, strict=False):
                self._objects[ref] = (value, self._tasks.epoch, None)
            return nodes
        task = Task(message.task, call, message)
        task.submitted_ns = now
        task.attrs = {**attrs, **message.options}
        task.slots, task.makers, task.values = tuple(slots), makers, tuple(values)
        epoch = self._tasks.epoch
        for ref, value in zip(message.refs, call.outputs, strict=False):
            self._objects[ref] = (value, epoch, task)
        while len(self._objects) > _KNOWN:
            self._objects.popitem(last=False)
        while len(self._known) > _KNOWN // 10 and next(iter(self._known.values())).ended_ns:
            self._known.popitem(last=False)
        if message.actor:
            self._of_actor.setdefault(message.actor, {})[message.task] = task
        if message.task:
            self._known[message.task] = task
            if worker is None and message.refs and not message.channelled:
                self._due[message.task] = task
        broken = next((maker for maker in makers if maker.failed), None)
        for maker in makers:
            if maker.failed or not maker.ended_ns:
                maker.users.append(task)
        if broken is None and creation is not None and creation.failed:
            broken = creation
        if broken is not None:
            self._cannot_run(task, broken)
        due, self._strange = self._strange, []
        for since, sender, waiting in due:
            self._take(sender, waiting, since)
        return nodes

    def _actor_scope(self, message: Submitted, scope: str) -> str:
        name = message.label or message.owner
        path = f"{scope}/{name}" if scope else name
        key = (path, message.graph)  # each execution of a bind graph counts its own actors
        nth = self._scopes.get(key, 0)
        self._scopes[key] = nth + 1
        path = f"{path}_{nth}" if nth else path
        self._actors[message.actor] = path
        return path

    def _value_of(
        self, ref: bytes, argument: Argument, scope: str, source: SourceLocation | None, around: Any
    ) -> tuple[int, Task | None]:
        """The value of an object reference, and the task that makes it, if known."""
        known = self._objects.get(ref)
        epoch = self._tasks.epoch
        if known is None and (yields := self._known.get(compat.task_of(ref))) is not None:
            known = self._objects.get(yields.refs[0]) if yields.refs else None  # of a generator
        if known is not None and known[1] is epoch:
            return known[0], known[2]
        # Made in an earlier step, or by an unobserved task: it becomes an input node.
        leaf = self._tasks.define(
            "object", "input", (), [NOT_KNOWN_YET], {"object": ref.hex()}, scope=scope,
            label=argument.name, native="ray::object", dialect="ray", source=source, around=around,
        )  # fmt: skip
        maker = None if known is None else known[2]
        self._objects[ref] = (leaf.outputs[0], epoch, maker)
        return leaf.outputs[0], maker

    def _leaf(
        self, argument: Argument, label: str, array: Any, scope: str, source: SourceLocation | None,
        around: Any, now: int, drawn: bool,
    ) -> int:  # fmt: skip
        """The value of an argument that is passed by value; a drawing may not know its elements."""
        content = argument.content
        spec = NOT_KNOWN_YET if content is None else spec_of(content)
        leaf = self._tasks.define(
            "argument", "input", (), [spec], {}, scope=scope, label=label, native="ray::argument",
            dialect="ray", source=source, around=around,
        )  # fmt: skip
        if content is None:
            return leaf.outputs[0]
        if not drawn:
            self._given(leaf, array, spec, now)
        self._keep(leaf.outputs[0], array)
        return leaf.outputs[0]

    def _put(
        self, message: Submitted, scope: str, source: SourceLocation | None, around: Any, now: int
    ) -> None:
        argument = message.arguments[0] if message.arguments else None
        content = None if argument is None else argument.content
        content = content or Content("object", text="" if argument is None else argument.text)
        spec = spec_of(content)
        attrs = {"value": content.text} if content.text else {}
        leaf = self._tasks.define(
            "put", "input", (), [spec], attrs, scope=scope, native="ray::put", dialect="ray",
            source=source, around=around,
        )  # fmt: skip
        array = live(content)
        self._given(leaf, array, spec, now)
        self._keep(leaf.outputs[0], array)
        self._objects[message.refs[0]] = (leaf.outputs[0], self._tasks.epoch, None)

    def _given(self, leaf: Pending, array: Any, spec: Spec, now: int) -> None:
        """Emit the execution of an input node: the submitter passed its data."""
        worker = self._submitter
        number = 0 if worker is None else worker.remote.number
        leaf.state = current() if worker is None else worker.remote.state
        self._emitter.finish(leaf, (array,), now, now, specs=[spec], worker=number, lane=number,
                             late=True)  # fmt: skip

    # Workers

    def joined(self, worker: Connection) -> None:
        """Note that a worker has connected."""
        hello = worker.hello
        assert hello is not None
        self._running[worker] = {}
        if hello.node not in self._machines:
            self._machines.append(hello.node)

    def _name(self, worker: Connection, what: str) -> None:
        hello = worker.hello
        assert hello is not None
        where = f"node {self._machines.index(hello.node) + 1} · " if self._several() else ""
        times = np.empty((0, 4), np.int64)
        name = f"{where}{what} {hello.pid}"
        self._emitter.bus.emit(DeviceRan(worker.remote.number, name, times))

    def take(self, worker: Connection, message: wire.FromWorker) -> None:
        """Take a worker's message."""
        if not self.off:
            self._take(worker, message, time.monotonic())

    def look(self) -> None:
        """Stop waiting for unobserved submissions, and ask Ray about tasks that do not begin."""
        now = time.monotonic()
        due = [item for item in self._strange if now - item[0] > _STRANGE_S]
        if due:
            self._strange = [item for item in self._strange if now - item[0] <= _STRANGE_S]
            for since, worker, message in due:
                self._take(worker, message, since)
        if now - self._asked_s > _STRANGE_S:
            self._asked_s = now
            self.ask_ray(_now() - int(_STRANGE_S * 1e9), _ASKED_AT_ONCE)

    def ask_ray(self, before_ns: int, most: int) -> None:
        """Ask Ray whether tasks failed that no worker has reported.

        Args:
            before_ns: Only tasks submitted before this time are asked about.
            most: The largest number of tasks to ask about.
        """
        with self._lock:
            due = [task for task in self._due.values()
                   if task.submitted_ns < before_ns and not task.failed
                   and all(maker.ended_ns or maker.failed for maker in task.makers)]  # fmt: skip
        if not due:
            return
        tasks = {task.refs[0]: task for task in due[:most]}
        for ref, error in self._failures(list(tasks)).items():
            task = tasks[ref]
            with self._lock:
                if self._due.pop(task.id, None) is None or task.failed:
                    continue  # a worker has reported it meanwhile
                if error:
                    self._tasks.fail(task.call, None, task.values, _now(), error, late=True)
                    self._fails_for_good(task, error)

    def _take(self, worker: Connection, message: wire.FromWorker, since: float) -> None:
        with self._lock:
            self._take_locked(worker, message, since)

    def _take_locked(self, worker: Connection, message: wire.FromWorker, since: float) -> None:
        if isinstance(message, Submitted):
            parent = message.parent
            if parent and parent not in self._known and time.monotonic() - since < _STRANGE_S:
                self._strange.append((since, worker, message))
            else:
                self.submitted(message, worker)
            return
        if not isinstance(message, wire.Began | wire.Ended | wire.Asks):
            return
        ran = message.ran
        task = self._known.get(ran.task)
        if task is None:
            if time.monotonic() - since < _STRANGE_S:
                self._strange.append((since, worker, message))
                return
            task = self._unseen(worker, ran)
        if isinstance(message, wire.Began):
            self._began(worker, task, ran)
        elif isinstance(message, wire.Ended):
            self._ended(worker, task, message)
        else:
            worker.waiting += 1
            self._held += 1
            worker.stand_in(lambda: self._asked(worker, task, message))

    def _unseen(self, worker: Connection, ran: Ran) -> Task:
        """Define a task whose submission was not observed."""
        self.submitted(
            Submitted(
                "method" if ran.actor else "task", ran.task, "", 0, ran.owner, ran.name, "",
                ran.actor, (), (), 0, False, {}, None, ran.arrived_ns,
            ),
            worker,
        )  # fmt: skip
        return self._known[ran.task]

    def _began(self, worker: Connection, task: Task, ran: Ran) -> None:
        task.worker, task.began, task.attempt = worker, ran, ran.attempt
        self._due.pop(task.id, None)
        self._running.setdefault(worker, {})[task.id] = task
        if worker not in self._named:
            self._named.add(worker)
            scope = self._actors.get(ran.actor, ran.owner) if ran.actor else "worker"
            self._name(worker, scope.rpartition("/")[2])

    def _times(self, worker: Connection, task: Task, ran: Ran, end: int) -> dict[str, Any]:
        """The attributes of an execution: those of the call, and its times in seconds."""
        start, arrived = worker.here_ns(ran.start_ns), worker.here_ns(ran.arrived_ns)
        ready = max([task.submitted_ns, *(maker.ended_ns for maker in task.makers)])
        arrived = max(arrived, ready)
        times = {
            "waiting_s": ready - task.submitted_ns,
            "scheduling_s": arrived - ready,
            "transfer_s": ran.transfer_ns,
            "execution_s": end - start,
        }
        attrs = {**task.attrs, **{name: round(ns / 1e9, 6) for name, ns in times.items()}}
        if ran.attempt:
            attrs["attempt"] = ran.attempt + 1
        return attrs

    def _ended(self, worker: Connection, task: Task, message: wire.Ended) -> None:
        self._running.get(worker, {}).pop(task.id, None)
        ran = message.ran
        start, end = worker.here_ns(ran.start_ns), worker.here_ns(message.end_ns)
        task.ended_ns = end
        if message.error:
            self._tasks.fail(task.call, worker.remote, task.values, start, message.error, late=True,
                             lane=worker.remote.number)  # fmt: skip
            self._failed(task, message.error, ran.attempt)
            return
        contents = self._results(task, message.outputs)
        outputs = tuple(live(content) for content in contents)
        self._finish(worker, task, ran, end, contents, outputs, task.values, late=True)

    def _results(self, task: Task, outputs: tuple[Content, ...]) -> tuple[Content, ...]:
        """The contents by output port. ``outputs`` has the whole result first, then its parts."""
        count = len(task.call.outputs)
        if count > 1 and len(outputs) == count + 1:
            return outputs[1:]
        return outputs[:1]

    def _finish(
        self, worker: Connection, task: Task, ran: Ran, end: int, contents: tuple[Content, ...],
        outputs: tuple[Any, ...], inputs: tuple[Any, ...], *, late: bool,
    ) -> Edits:  # fmt: skip
        call, lane = task.call, worker.remote.number
        call.state = worker.remote.state
        with self._lock:
            attrs = self._times(worker, task, ran, end)
            self._over(task)
        texts = [content.text for content in contents if content.text]
        if texts:
            attrs["result"] = ", ".join(texts)
        specs = [spec_of(content) for content in contents]
        specs += [NOT_KNOWN_YET] * (len(call.outputs) - len(specs))
        for value, output in zip(call.outputs, outputs, strict=False):
            self._keep(value, output)
        return self._emitter.finish(
            call, outputs, worker.here_ns(ran.start_ns), end, arrays=inputs, specs=specs,
            attrs=attrs, worker=lane, lane=lane, late=late,
        )  # fmt: skip

    def _over(self, task: Task) -> None:
        """Release what a task needs only until it ends."""
        task.makers, task.users, task.values = [], [], ()
        if not task.id.startswith("actor:"):
            self._of_actor.get(task.actor, {}).pop(task.id, None)

    def _keep(self, value: int, array: Any) -> None:
        """Keep a value's newest array, if small or distant, as an input of later tasks."""
        self._newest.pop(value, None)
        if not isinstance(array, np.ndarray) or array.nbytes <= _SMALL:
            self._newest[value] = array
            if len(self._newest) > _KNOWN // 10:
                self._newest.popitem(last=False)

    # Failures

    def _failed(self, task: Task, error: str, attempt: int) -> None:
        """Note that an attempt raised; after the last, tasks that need its result cannot run."""
        if task.retries_errors and (task.retries < 0 or attempt < task.retries):
            return
        self._fails_for_good(task, error)

    def _fails_for_good(self, task: Task, error: str) -> None:
        task.failed, task.root = error, task
        for user in self._needing(task):
            self._cannot_run(user, task)

    def _needing(self, task: Task) -> list[Task]:
        creates = task.id.startswith("actor:")
        methods = self._of_actor.get(task.actor, {}).values() if creates else ()
        return [*task.users, *(other for other in methods if other is not task)]

    def _cannot_run(self, task: Task, cause: Task) -> None:
        if task.failed or task.ended_ns or task.began is not None:
            return
        root = cause.root or cause
        task.failed, task.root = root.failed, root
        text = f"not run, because {root.call.node.name} failed: {root.failed}"
        self._tasks.fail(task.call, None, (), _now(), text, late=True)
        for user in self._needing(task):
            self._cannot_run(user, task)

    def left(self, worker: Connection) -> None:
        """Handle the end of a worker's process: the tasks that ran there have failed."""
        self._emitter.bus.gone.add(worker.remote.state.thread)
        with self._lock:
            self._left(worker)

    def _left(self, worker: Connection) -> None:
        running = self._running.pop(worker, {})
        hello = worker.hello
        if self.off or hello is None:
            return
        for task in running.values():
            again = task.retries < 0 or task.attempt < task.retries
            what = f"its worker (pid {hello.pid}) died while it ran"
            if task.attempt or task.retries:
                what += f", attempt {task.attempt + 1}"
                what += f" of {task.retries + 1}" if task.retries >= 0 else ""
            error = f"WorkerDied: {what}"
            start = worker.here_ns(task.began.start_ns) if task.began is not None else _now()
            self._tasks.fail(task.call, worker.remote, task.values, start, error, late=True,
                             lane=worker.remote.number)  # fmt: skip
            task.began = None
            if not again:
                self._fails_for_good(task, error)

    # Stops

    def held(self, within_s: float) -> bool:
        """Whether a task waits for the run, or did within the last ``within_s`` seconds."""
        return self._held > 0 or time.monotonic() - self._held_until_s < within_s

    def _asked(self, worker: Connection, task: Task, message: wire.Asks) -> None:
        """Let the run stop at a waiting task, then let the task go on."""
        bus, edits = self._emitter.bus, {}
        try:
            edits = self._hold(worker, task, message)
        except Gone:
            return
        finally:
            bus.stacks.pop(worker.remote.state.thread, None)
            worker.waiting -= 1
            with self._lock:
                self._held, self._held_until_s = self._held - 1, time.monotonic()
            worker.sender.send(wire.Go(message.number, edits))

    def _hold(self, worker: Connection, task: Task, message: wire.Asks) -> dict[str, Content]:
        call, ran, remote = task.call, message.ran, worker.remote
        self._emitter.bus.stacks[remote.state.thread] = stack_of(message.stack, call.node.source)
        call.state = remote.state

        def held(content: Content, slot: str) -> Any:
            def fetch(window: Window | None) -> Array:
                part = window_of(window, content.shape)
                fetched = worker.fetch(message.number, slot, part)
                if fetched.content is None:
                    raise ArrayError(fetched.error)
                array = live(fetched.content)
                assert not hasattr(array, "content")
                return array  # type: ignore[no-any-return]

            return live(content, fetch)

        inputs = tuple(
            held(message.inputs[slot], slot) if slot in message.inputs else known
            for slot, known in zip(task.slots, task.values, strict=False)
        )
        start = worker.here_ns(ran.start_ns)
        if message.when == "before":
            edits = self._tasks.begin(call, remote, inputs, start)
            return self._edited(edits, dict(zip(call.node.inputs, task.slots, strict=False)))
        self._running.get(worker, {}).pop(task.id, None)
        task.ended_ns = end = worker.here_ns(message.end_ns)
        if message.error:
            self._tasks.fail(call, remote, inputs, start, message.error, late=False,
                             lane=remote.number)  # fmt: skip
            self._failed(task, message.error, ran.attempt)
            return {}
        contents = self._results(task, message.outputs)
        names = [">"] if len(contents) == 1 else [f">{at}" for at in range(len(contents))]
        outputs = tuple(map(held, contents, names))
        edits = self._finish(worker, task, ran, end, contents, outputs, inputs, late=False)
        for value, array in edits.items():
            self._keep(value, array)
        return self._edited(edits, dict(zip(call.outputs, names, strict=False)))

    @staticmethod
    def _edited(edits: Edits, slots: dict[int, str]) -> dict[str, Content]:
        return {slots[value]: described(array) for value, array in edits.items()
                if slots.get(value)}  # fmt: skip

    # The end

    def end(self) -> None:
        """Process what is pending, and ignore all later messages."""
        with contextlib.suppress(Exception):
            strange, self._strange = self._strange, []
            for since, worker, message in strange:
                self._take(worker, message, since - 2 * _STRANGE_S)
            self.ask_ray(_now(), 10 * _ASKED_AT_ONCE)
        self.off = True
