"""Tasks: calls that run in other processes while the program continues.

A task is defined when it is submitted, and reported when it begins and ends, from any thread.

Invariant: no `Exception` of the bus or its probes reaches the caller.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from nodescope.emit.emitter import Edits, Emitter, Pending
from nodescope.emit.state import ThreadState
from nodescope.events import NodeFailed, NodeStarted
from nodescope.ir.graph import SourceLocation, Spec
from nodescope.ir.identity import UNROLLED, UNTOLD, Entry, NodeSpec

MOST: Final = 4096
"""The most nodes of one call site; further calls are executions of these nodes."""


class Remote:
    """A process that runs tasks, as the run sees it.

    Args:
        number: From 1 up; unique in the run.

    Attributes:
        state: The state of its thread, whose number is negative, unlike this process's threads.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = ThreadState()
        self.state.thread = -number


class Tasks:
    """The tasks of one run.

    Within a marked training step, the n-th task of an op in a scope is the n-th of the step before.
    Elsewhere each task has its own node.
    """

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self._counts: dict[tuple[Hashable, ...], int] = {}
        self._epoch: object = None
        self._lock = threading.RLock()

    @property
    def epoch(self) -> object:
        """The marked training step, within which value ids are valid; None outside of steps."""
        return self.emitter.epoch if self.emitter.stepped else None

    def define(
        self, op: str, role: str, inputs: tuple[int, ...], specs: Sequence[Spec],
        attrs: Mapping[str, Any], *, scope: str = "", label: str = "", native: str = "",
        dialect: str = "", family: str = "", device: str = "", control: tuple[int, ...] = (),
        source: SourceLocation | None = None, around: Hashable = None,
    ) -> Pending:  # fmt: skip
        """Give a submitted task its node, which is emitted if new.

        Args:
            op, role, inputs, specs, attrs, native, dialect, family, label: As in `Emitter.enter`.
            scope: The path of its scope.
            device: The device where it should run.
            control: Ids of nodes that run before it without passing a value.
            source: The line that submitted it.
            around: The execution within which calls are counted, such as one attempt of the calling
                task.

        Returns:
            The task, to be passed to `begin`, then to `Emitter.finish` or `fail`.
        """
        emitter = self.emitter
        identity, key = emitter.identity, f"{role}:{label or op}"
        with self._lock:
            epoch = self.epoch
            if epoch is not self._epoch:
                self._epoch, self._counts = epoch, {}
            entries = identity.entries(scope, key, "forward")
            count = (scope, key, around)
            nth = self._counts.get(count, 0)
            if nth >= len(entries):
                limit = MOST if epoch is None else UNROLLED
                site = identity.site(scope, key, "forward", str(source))
                known, new = site.again(inputs, identity.by_value, limit)
                if known is not None and not new:
                    return Pending(known, (), emitter.step, ThreadState(), 0, {})
                nth = nth if known is None else known.nth
            spec = NodeSpec(
                op=op, family=family or ("leaf" if role != "task" else "other"), inputs=inputs,
                specs=specs, attrs=dict(attrs), scope=scope, phase="forward", source=source,
                label=label, device=device, control_inputs=control, role=role,  # type: ignore[arg-type]
                dialect=dialect, native=native,
            )  # fmt: skip
            self._counts[count] = min(nth, len(entries)) + 1
            entry, values = identity.define(entries, nth, spec)
            self._tell(entry, values, str(source), key, scope)
        return Pending(entry, (), emitter.step, ThreadState(), 0, {})

    def _tell(self, entry: Entry, values: Any, source: str, key: str, scope: str) -> None:
        if entry.site is None:
            self.emitter.identity.site(scope, key, "forward", source).add(entry)
        if values is not None:
            try:
                self.emitter.tell(entry.node, values)
            except BaseException:
                entry.inputs = UNTOLD
                raise

    def begin(self, task: Pending, remote: Remote, arrays: tuple[Any, ...], start_ns: int) -> Edits:
        """Report that a task is about to run in a process that waits for this call.

        Returns:
            New contents of its operands, as in `Emitter.finish`.
        """
        bus = self.emitter.bus
        if not bus.demand.starts:
            return {}
        thread = remote.state.thread
        bus.emit(NodeStarted(task.node, arrays, task.step, thread, start_ns - bus.origin_ns))
        return self.emitter.edits(remote.state)

    def fail(
        self, task: Pending, remote: Remote | None, arrays: tuple[Any, ...], start_ns: int,
        error: str, *, late: bool, lane: int = 0,
    ) -> None:  # fmt: skip
        """Report that a task failed, or cannot run.

        Args:
            task: The task.
            remote: The process that ran it; None if none did.
            arrays: Its operands, as far as known.
            start_ns: By `time.perf_counter_ns`.
            error: The exception, as text.
            late: As in `Emitter.finish`.
            lane: As in `Emitter.finish`.
        """
        bus = self.emitter.bus
        number = 0 if remote is None else remote.number
        start = start_ns - bus.origin_ns
        thread = -number if number else threading.main_thread().ident or 0
        bus.emit(
            NodeFailed(task.node, arrays, task.step, thread, start, error,
                       worker=number, lane=lane, late=late)
        )  # fmt: skip
