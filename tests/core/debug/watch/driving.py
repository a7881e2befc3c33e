"""Feeds the examples of rules to a watcher, as if a program ran them.

The events are those of the engine: parameters are leaves, and a gradient is a backward node that
`GradientComputed` announces after it has run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from nodescope.debug.watch.observation import Target
from nodescope.debug.watch.rule import Example, Rule
from nodescope.debug.watch.watch import Hit, Watch
from nodescope.debug.watch.watcher import Watcher
from nodescope.events import (
    Event,
    GradientComputed,
    GraphExtended,
    NodeFinished,
    StepFinished,
    StepStarted,
)
from nodescope.ir.graph import Node, TensorSpec, Value
from nodescope.ops import get

_OPS: dict[Target, str] = {
    "weights": "parameter",
    "activations": "relu",
    "losses": "mse",
    "inputs": "tensor",
    "values": "add",
    "gradients": "add",
    "weight_gradients": "add",
}


def array_of(content: Any) -> np.ndarray:
    """An array of the content; floats become float32, unless they are an array already."""
    if isinstance(content, np.ndarray):
        return content
    array = np.asarray(content)
    return array.astype(np.float32) if array.dtype == np.float64 else array


@dataclasses.dataclass
class Program:
    """The nodes of a program described by an example."""

    rule: Rule
    ops: Mapping[str, str]

    def __post_init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.inputs: dict[str, tuple[int, ...]] = {}
        self.events: list[Event] = []
        self.ids = 0
        self.seq = 0

    def value(self) -> int:
        self.ids += 1
        return self.ids

    def node(
        self,
        name: str,
        op: str,
        inputs: tuple[int, ...],
        phase: Any = "forward",
        dtype: str = "float32",
    ) -> Node:
        result = self.nodes.get(name)
        if result is not None:
            return result
        known = get(op)
        node = Node(
            len(self.nodes) + 1, name, op, known.family, inputs, outputs=(self.value(),),
            phase=phase, role=known.role, writes=known.writes,
        )  # fmt: skip
        self.nodes[name] = node
        value = Value(node.outputs[0], TensorSpec((), dtype), name)
        self.events.append(GraphExtended((node,), (value,)))
        return node

    def ran(self, node: Node, output: np.ndarray, inputs: tuple[Any, ...], at: Any) -> None:
        self.seq += 1
        step, time_ns = at
        self.events.append(
            NodeFinished(node, inputs, (output,), step, 1, start_ns=time_ns, end_ns=time_ns)
        )

    def see(self, name: str, content: Any, at: tuple[int, int]) -> None:
        given: tuple[Any, ...] = ()
        if isinstance(content, tuple):
            content, *rest = content
            given = tuple(map(array_of, rest))
        target = self.rule.applies[0] if self.rule.applies else "values"
        default = next(iter(sorted(self.rule.ops)), _OPS[target])
        op = self.ops.get(name, default)
        array = array_of(content)
        if target in ("gradients", "weight_gradients") and name not in self.ops:
            weight = self.node(f"{name}/w", "parameter", ())
            self.ran(weight, np.ones(array.shape, np.float32), (), at)
            known = f"backward/{name}" in self.nodes
            gradient = self.node(f"backward/{name}", op, weight.outputs, phase="backward")
            self.ran(gradient, array, (np.ones(1),), at)
            if not known:
                self.events.append(GradientComputed(weight.outputs[0], gradient.outputs[0]))
            return
        owner, colon, _ = name.partition(":")
        if colon:  # ``w:assign`` writes to the node ``w``.
            writer = self.node(name, op, self.nodes[owner].outputs)
            self.ran(writer, array_of(content), (array_of(content),), at)
            return
        names = [f"{name}_in_{port}" for port in range(len(given))]
        sources = [self.node(n, "tensor", ()) for n in names]
        values = tuple(node.outputs[0] for node in sources)
        for source, item in zip(sources, given, strict=True):
            self.ran(source, item, (), at)
        self.ran(self.node(name, op, values, dtype=array.dtype.name), array, given, at)


def events_of(rule: Rule, example: Example) -> list[Event]:
    """The events of a program that behaves like an example."""
    program = Program(rule, example.ops)
    for number, frame in enumerate(example.steps, 1):
        seconds = example.times_s[number - 1] if example.times_s else number
        at = (number, int(seconds * 1e9))
        program.events.append(StepStarted(number, at[1]))
        frames = frame if isinstance(frame, dict) else {"x": frame}
        for name, content in frames.items():
            program.see(name, content, at)
        program.events.append(StepFinished(number, at[1]))
    return program.events


def watched(events: list[Event], *watches: Watch) -> tuple[list[Hit], Watcher, list[str]]:
    """The hits, the watcher and the faults."""
    hits: list[Hit] = []
    faults: list[str] = []
    watcher = Watcher(watches, on_hit=hits.append, on_fault=faults.append)
    for event in events:
        watcher.emit(event)
    return hits, watcher, faults
