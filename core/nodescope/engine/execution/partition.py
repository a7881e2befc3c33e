"""Partition: a graph cut by device and worker, with send and receive nodes on the cut edges.

Partitions run in parallel, as threads; each runs its own nodes in order. A `Partition` can be
pickled, as text and arrays.

Invariant: no deadlock. All nodes have a common order: the graph's, with each send directly after
the node that makes its value, and each receive directly before the first node that uses it, so that
a receive comes after its send. A partition runs its nodes in that order, and sending never waits.
If all unfinished partitions were waiting, consider the one whose receive comes first in that order:
the partition with its send has not reached it, so it waits at an earlier receive, which contradicts
the choice.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from nodescope.engine.execution.executor import Effects, run_calls
from nodescope.ir.graph import Graph, Node, TensorSpec, Value, usual_role
from nodescope.ir.text import parse_graph, print_graph
from nodescope.ops.calls import Call
from nodescope.ops.op import Array
from nodescope.ops.plan import Plan


class Cancelled(Exception):
    """Another partition failed; its error is the one to report."""


@dataclass(frozen=True, eq=False)
class Partition:
    """The part of a graph that runs in one place.

    Attributes:
        device: The place: ``cpu:0``, ``worker:1/cpu:0``.
        graph: Its nodes, send and receive nodes among them; value ids are those of the whole graph.
        arrays: Constants by value id.
        fed: Value ids that must be fed.
        outputs: Value ids that it returns.
    """

    device: str
    graph: Graph
    arrays: Mapping[int, Array]
    fed: tuple[int, ...]
    outputs: tuple[int, ...]

    def __reduce__(self) -> Any:
        parts = (self.device, print_graph(self.graph), dict(self.arrays), self.fed, self.outputs)
        return _rebuilt, parts

    def plan(self) -> Plan:
        """The partition, ready to run."""
        all_ids = tuple(node.id for node in self.graph.nodes)
        return Plan(self.graph, self.arrays, self.outputs, self.fed, all_ids)


def _rebuilt(
    device: str, text: str, arrays: Mapping[int, Array], fed: tuple[int, ...],
    outputs: tuple[int, ...],
) -> Partition:  # fmt: skip
    return Partition(device, parse_graph(text), arrays, fed, outputs)


def canonical(device: str) -> str:
    """One name for each place: ``cpu`` is ``cpu:0``, ``worker:1`` its first CPU."""
    parts = device.split("/")
    if parts[-1].startswith("worker"):
        parts.append("cpu")
    if ":" not in parts[-1]:
        parts[-1] += ":0"
    return "/".join(parts)


def cut(plan: Plan, home: Mapping[int, int] | None = None) -> tuple[Partition, ...]:
    """Cut a plan's nodes by device, in order of first use.

    Constants and fed values go where they are used; every other value is sent once to each place
    that uses it.

    Args:
        plan: The plan to run.
        home: For nodes that are placed with another node, that node's id: reads and updates of a
            variable are placed with the variable.
    """
    return _Cut(plan, home or {}).partitions()


class _Cut:
    def __init__(self, plan: Plan, home: Mapping[int, int]) -> None:
        self.plan = plan
        self.fed = set(plan.fed)
        graph = plan.graph
        self.spec = {value.id: value for value in graph.values}
        self.nodes = _waiting(plan)
        by_id = plan.by_id
        self.place = {
            node.id: canonical(by_id[home.get(node.id, node.id)].device) for node in plan.nodes
        }
        self.next_node = max((node.id for node in graph.nodes), default=0) + 1
        self.next_value = max(self.spec, default=0) + 1
        self.lists: dict[str, list[Node]] = {self.place[node.id]: [] for node in self.nodes}
        self.values: dict[str, dict[int, Value]] = {place: {} for place in self.lists}
        # Transfers: (value or node, place), and the receive node once it exists.
        self.receivers: dict[int, list[str]] = {}
        self.waited: dict[int, list[str]] = {}
        self.there: dict[tuple[str, int, str], int] = {}

    def partitions(self) -> tuple[Partition, ...]:
        self._find_cuts()
        for node in self.nodes:
            place = self.place[node.id]
            waits = [
                self._receive("control", control, place, node)
                if self._away(control, place)
                else control
                for control in node.control_inputs
                if control in self.place and self.plan.by_id[control].op != "constant"
            ]
            for value in node.inputs:
                if value in self.receivers and place in self.receivers[value]:
                    self._receive("value", value, place, node)
                elif value in self.plan.constants and value not in self.fed:
                    self._constant(value, place)
            self._append(place, _changed(node, tuple(waits)))
            self._send_all(node, place)
        return tuple(self._partition(place) for place in self.lists)

    def _away(self, node: int, place: str) -> bool:
        return self.place[node] != place

    def _find_cuts(self) -> None:
        for node in self.nodes:
            place = self.place[node.id]
            for value in node.inputs:
                maker = self.plan.producer(value)
                if value in self.fed or value in self.plan.constants or maker is None:
                    continue
                if self._away(maker.id, place) and place not in self.receivers.get(value, ()):
                    self.receivers.setdefault(value, []).append(place)
            for control in node.control_inputs:
                if control not in self.place or self.plan.by_id[control].op == "constant":
                    continue
                if self._away(control, place) and place not in self.waited.get(control, ()):
                    self.waited.setdefault(control, []).append(place)

    def _append(self, place: str, node: Node) -> None:
        self.lists[place].append(node)
        for value in (*node.inputs, *node.outputs):
            self.values[place].setdefault(value, self.spec[value])

    def _constant(self, value: int, place: str) -> None:
        node = self.plan.producer(value)
        assert node is not None
        if all(n.id != node.id for n in self.lists[place]):
            self._append(place, _changed(node, ()))

    def _send_all(self, node: Node, place: str) -> None:
        for value in node.outputs:
            for target in self.receivers.get(value, ()):
                self._send("value", value, node, (value,), place, target)
        for target in self.waited.get(node.id, ()):
            self._send("control", node.id, node, (), place, target)

    def _send(
        self,
        kind: str,
        value_or_node: int,
        node: Node,
        inputs: tuple[int, ...],
        place: str,
        target: str,
    ) -> None:
        name = f"send/{node.name}" + (f"_{value_or_node}" if kind == "value" else "_control")
        self._append(place, self._node(
            f"{name}/to/{target}", "send", inputs, () if inputs else (node.id,), (),
            {"key": _key(kind, value_or_node, target), "to": target}, node, place,
        ))  # fmt: skip

    def _receive(self, kind: str, value_or_node: int, place: str, user: Node) -> int:
        """The id of the receive node, which is created before the first user."""
        done = self.there.get((kind, value_or_node, place))
        if done is not None:
            return done
        maker = (
            self.plan.producer(value_or_node) if kind == "value" else self.plan.by_id[value_or_node]
        )
        assert maker is not None
        if kind == "value":
            value, spec = value_or_node, self.spec[value_or_node].spec
        else:
            value, spec = self.next_value, TensorSpec((), "bool")
            self.next_value += 1
            self.spec[value] = Value(value, spec, f"control/{maker.name}/at/{place}")
        attrs = {
            "key": _key(kind, value_or_node, place),
            "source": self.place[maker.id],
            "shape": spec.shape,
            "dtype": spec.dtype,
        }
        suffix = f"_{value_or_node}" if kind == "value" else "_control"
        name = f"receive/{maker.name}{suffix}/at/{place}"
        node = self._node(name, "receive", (), (), (value,), attrs, user, place)
        self._append(place, node)
        self.there[kind, value_or_node, place] = node.id
        return node.id

    def _node(
        self, name: str, op: str, inputs: tuple[int, ...], waits: tuple[int, ...],
        outputs: tuple[int, ...], attrs: dict[str, Any], like: Node, place: str,
    ) -> Node:  # fmt: skip
        id, self.next_node = self.next_node, self.next_node + 1
        return Node(
            id=id, name=name, op=op, family="control", inputs=inputs, control_inputs=waits,
            role=usual_role(op, "control"),
            outputs=outputs, attrs=attrs, scope=name.rpartition("/")[0], phase=like.phase,
            device=place, source=like.source, origin=(like.id,),
        )  # fmt: skip

    def _partition(self, place: str) -> Partition:
        nodes, values = self.lists[place], self.values[place]
        produced = {value for node in nodes for value in node.outputs}
        home = {value for node in nodes if node.op != "receive" for value in node.outputs}
        fed = tuple(value for value in self.plan.fed if value in values and value not in produced)
        outputs = tuple(
            value for value in self.plan.outputs if value in home and value not in self.fed
        )
        arrays = {
            value: self.plan.constants[value]
            for node in nodes
            if node.op == "constant"
            for value in node.outputs
        }
        graph = Graph(
            self.plan.graph.id, "static", fed, outputs, tuple(nodes),
            tuple(values[value] for value in sorted(values)), tuple(arrays),
        )  # fmt: skip
        return Partition(place, graph, arrays, fed, outputs)


def _waiting(plan: Plan) -> list[Node]:
    """The nodes that run, each waiting itself for everything that its constants wait for."""
    through: dict[int, tuple[int, ...]] = {}
    changed = []
    for node in plan.nodes:
        waits = list(node.control_inputs)
        for value in node.inputs:
            maker = plan.producer(value)
            if maker is not None:
                waits.extend(through.get(maker.id, ()))
        waits = [inner for wait in waits for inner in through.get(wait, (wait,))]
        if node.op == "constant":
            through[node.id] = tuple(dict.fromkeys(waits))
        else:
            changed.append(_changed(node, tuple(dict.fromkeys(waits))))
    return changed


def _changed(node: Node, waits: tuple[int, ...]) -> Node:
    return msgspec.structs.replace(node, control_inputs=waits)


def _key(kind: str, value_or_node: int, place: str) -> str:
    return f"{kind} {value_or_node} to {place}"


class Rendezvous:
    """Where values wait for their receivers.

    A failure wakes all receivers, so that none waits for a value that will never come.
    """

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._changed = threading.Condition()
        self._failed = False

    def send(self, key: str, value: Any) -> None:
        """Leave a value; never blocks."""
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def receive(self, key: str) -> Any:
        """Take a value once it is available. Raises `Cancelled` after a failure."""
        with self._changed:
            self._changed.wait_for(lambda: self._failed or key in self._values)
            if key not in self._values:
                raise Cancelled
            return self._values.pop(key)

    def fail(self) -> None:
        """Wake all receivers after a failure."""
        with self._changed:
            self._failed = True
            self._changed.notify_all()


def run_partitions(
    partitions: Sequence[Partition],
    plans: Sequence[Plan],
    feeds: Mapping[int, Array],
    effects: Effects,
    measure: Callable[[int], None] | None = None,
) -> dict[int, Array]:
    """Run partitions as threads; return the outputs by value id.

    Raises:
        A node's exception, with its name and line; if several fail, the first in order.
    """
    meeting = Rendezvous()

    def send(call: Call, args: list[Any]) -> tuple[Any, ...]:
        meeting.send(call.attrs["key"], args[0] if args else np.True_)
        return ()

    def receive(call: Call, args: list[Any]) -> tuple[Any, ...]:
        return (np.asarray(meeting.receive(call.attrs["key"])),)

    local_effects = Effects(effects.before, effects.after, effects.around,
                   {**effects.instead, "send": send, "receive": receive})  # fmt: skip
    results: dict[int, Array] = {}
    errors: dict[int, BaseException] = {}
    peaks: list[int] = []

    def run(number: int) -> None:
        part, plan = partitions[number], plans[number]
        try:
            arrays = run_calls(
                plan, [feeds[value] for value in plan.fed], effects=local_effects,
                measure=None if measure is None else peaks.append,
            )  # fmt: skip
            results.update(zip(part.outputs, arrays, strict=True))
        except BaseException as error:
            errors[number] = error
            meeting.fail()

    contexts = [contextvars.copy_context() for _ in partitions[1:]]  # keeps np.errstate
    threads = [
        threading.Thread(target=context.run, args=(run, i), name=f"nodescope {part.device}",
                         daemon=True)
        for i, (part, context) in enumerate(zip(partitions[1:], contexts, strict=True), 1)
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    run(0)
    for thread in threads:
        thread.join()
    real_errors = [errors[i] for i in sorted(errors) if not isinstance(errors[i], Cancelled)]
    if real_errors:
        raise real_errors[0]
    if measure is not None:
        measure(sum(peaks))
    return results
