"""Mirror: the nodes of a worker as nodes of the program's run.

A node is identified by its name in the worker, so a later worker with the same number, such as that
of the next epoch, executes the nodes of the earlier one.

Invariant: called by one thread at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from nodescope.adapters.torch.loading.messages import Defined, InWorker, Ran
from nodescope.emit.emitter import Edits, Emitter, Pending
from nodescope.emit.tasks import Remote, Tasks
from nodescope.ir.graph import Node, ScopeDescribed, Value
from nodescope.ir.identity import Entry, NodeSpec
from nodescope.ir.scopes import join

_MOST_KEPT: Final = 4096


class Mirror:
    """The nodes of one worker.

    Args:
        emitter: The run's emitter.
        remote: The worker, as the run sees it.
        scope: The scope of everything that the worker runs.
    """

    def __init__(self, emitter: Emitter, remote: Remote, scope: str) -> None:
        self._emitter = emitter
        self._tasks = Tasks(emitter)
        self._remote, self._scope = remote, scope
        self._entries: dict[int, Entry] = {}  # by the worker's id
        self._values: dict[int, int] = {}
        self._makers: dict[int, tuple[int, int]] = {}  # by the worker's value: node and port
        self._newest: OrderedDict[int, InWorker] = OrderedDict()

    def define(self, message: Defined) -> None:
        """Define nodes of the worker in the run, or update the specs of their values."""
        specs = {value.id: value for value in message.values}
        for node in message.nodes:
            self._define(node, specs)
        if not message.nodes:
            self._respecify(message.values)

    def _define(self, node: Node, known: dict[int, Value]) -> None:
        emitter, identity = self._emitter, self._emitter.identity
        before = self._entries.get(node.id)
        values = [known.get(id) for id in node.outputs]
        if before is None and None in values:
            return  # its definition was lost
        scope = join(self._scope, node.scope).rstrip("/")
        label = node.name.removeprefix(f"{node.scope}/") if node.scope else node.name
        entries = identity.entries(scope, f"worker:{label}", node.phase)
        forward = self._entries.get(node.forward) if node.forward is not None else None
        spec = NodeSpec(
            op=node.op, family=node.family, inputs=tuple(self._values.get(id, 0)
                                                         for id in node.inputs),
            specs=[value.spec for value in values if value is not None], attrs=dict(node.attrs),
            scope=scope, phase=node.phase, source=node.source,
            forward=None if forward is None else forward.node.id, label=label,
            device=node.device, role=node.role, dialect=node.dialect, native=node.native,
            writes=node.writes,
        )  # fmt: skip
        entry, told = identity.define(entries, 0, spec)
        self._entries[node.id] = entry
        for port, (id, here) in enumerate(zip(node.outputs, entry.outputs, strict=False)):
            self._values[id] = here
            self._makers[id] = (node.id, port)
        if told is not None:
            emitter.tell(entry.node, told)
        elif len(spec.specs) == len(entry.outputs):
            emitter.respecify(entry, spec.specs)  # type: ignore[arg-type]

    def _respecify(self, values: Sequence[Value]) -> None:
        for value in values:
            maker = self._makers.get(value.id)
            entry = None if maker is None else self._entries.get(maker[0])
            if maker is not None and entry is not None:
                specs: list[Any] = [known.spec for known in entry.values]
                specs[maker[1]] = value.spec
                self._emitter.respecify(entry, specs)

    def describe(self, message: ScopeDescribed) -> None:
        """Emit the description of a module in the worker."""
        scope = join(self._scope, message.scope).rstrip("/")
        self._emitter.bus.emit(msgspec.structs.replace(message, scope=scope))

    def ran(self, message: Ran, worker: Any) -> Edits:
        """Emit an execution. Blocks while the debugger holds the worker, if the worker waits.

        Args:
            message: The execution.
            worker: The worker, if it waits for an answer; else None.

        Returns:
            The user's edits: new contents of values, by their ids in the run.
        """
        entry = self._entries.get(message.node)
        if entry is None:
            return {}
        emitter, remote, late = self._emitter, self._remote, worker is None
        call = Pending(entry, (), emitter.step, remote.state, 0, {})
        outputs = tuple(
            InWorker(value, worker, -1 - port) for port, value in enumerate(message.outputs)
        )
        inputs: tuple[Any, ...] = tuple(
            InWorker(value, worker, port) for port, value in enumerate(message.inputs)
        )
        if late:
            inputs = tuple(self._newest.get(id) for id in entry.inputs)
        origin = emitter.bus.origin_ns
        start, end = message.start_ns + origin, message.end_ns + origin
        if message.error:
            self._tasks.fail(call, remote, inputs, start, message.error, late=late,
                             lane=remote.number)  # fmt: skip
            return emitter.edits(remote.state)
        if message.when == "before":
            return self._tasks.begin(call, remote, inputs, start)
        for id, output in zip(entry.outputs, outputs, strict=False):
            self._keep(id, output)
        return emitter.finish(
            call, outputs, start, end, arrays=inputs, attrs=message.attrs, worker=remote.number,
            lane=remote.number, late=late,
        )  # fmt: skip

    def ports(self, message: Ran, edits: Edits) -> dict[int, Any]:
        """Edits by port, numbered as in `messages.Fetch`."""
        entry = self._entries.get(message.node)
        if entry is None or not edits:
            return {}
        places = {id: port for port, id in enumerate(entry.inputs)}
        if message.when == "after":
            places |= {id: -1 - port for port, id in enumerate(entry.outputs)}
        return {places[id]: array for id, array in edits.items() if id in places}

    def _keep(self, value: int, array: InWorker) -> None:
        """Keep the newest elements of a value, for the nodes that take it as input."""
        self._newest.pop(value, None)
        if array.sent.data is not None and len(array.sent.data) <= _MOST_KEPT:
            self._newest[value] = InWorker(array.sent)
            if len(self._newest) > _MOST_KEPT:
                self._newest.popitem(last=False)
