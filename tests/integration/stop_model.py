"""A simple model of where a program must stop, computed from the list of all its events.

The list comes from a run that reports everything and stops nowhere. The model shares no code with
the debugger: it implements the documentation's promises independently and simply.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nodescope.events import (
    Bus,
    Demand,
    Event,
    GradientReached,
    GraphExtended,
    NodeFailed,
    NodeFinished,
    NodeStarted,
    Opens,
)
from nodescope.ir.graph import Node
from nodescope.protocol import (
    Breakpoint,
    Command,
    Continue,
    Detach,
    NextStep,
    RunTo,
    SetBreakpoints,
    SetExceptions,
    StepIn,
    StepNode,
    StepOut,
    StepOver,
    StepTwin,
)

LEAVES = ("parameter", "tensor", "constant")

# Conditions as functions of value, inputs, gradient and step; None is an error.
CONDITIONS: dict[str, Callable[[Any, Any, Any, int], bool | None]] = {
    "step > 1": lambda value, inputs, grad, step: step > 1,
    "max(value) > 1": lambda value, inputs, grad, step: bool(np.max(value) > 1),
    "isnan(value).any()": lambda value, inputs, grad, step: bool(np.isnan(value).any()),
    "value > 0": lambda value, inputs, grad, step: bool(value > 0) if value.size == 1 else None,
    "step > 0 and max(abs(grad)) >= 0": lambda value, inputs, grad, step: bool(
        np.max(np.abs(grad)) >= 0
    ),
}


@dataclass
class Happened:
    """One event that a debugger may be told of.

    Attributes:
        what: ``before``, ``after``, ``failed`` or ``gradient``.
        node: The node that ran; for a gradient, the node that made it.
        of: For a gradient, the node whose output's gradient it is.
        inside: The kernels that must be opened for this event.
    """

    what: str
    node: Node
    step: int
    thread: int
    value: Any = None
    of: Node | None = None
    inside: tuple[Node, ...] = ()

    @property
    def when(self) -> str:
        return "before" if self.what == "before" else "after"


class Listening:
    """A probe that records everything."""

    def __init__(self, bus: Bus, *, opened: bool) -> None:
        self.bus = bus
        opens: tuple[Opens, ...] = (lambda node: True,) if opened else ()
        bus.want(self, Demand(starts=True, gradients=True, arrays=True, opened=opens))
        self.all: list[Happened] = []
        self._makers: dict[int, Node] = {}
        bus.add(self)

    def emit(self, event: Event) -> None:
        if isinstance(event, GraphExtended):
            for node in event.nodes:
                self._makers.update(dict.fromkeys(node.outputs, node))
        elif isinstance(event, NodeStarted):
            self.all.append(Happened("before", event.node, event.step, event.thread))
        elif isinstance(event, NodeFinished):
            value = np.copy(event.outputs[0]) if event.outputs else None
            self.all.append(Happened("after", event.node, event.step, event.thread, value))
        elif isinstance(event, NodeFailed):
            self.all.append(Happened("failed", event.node, event.step, event.thread))
        elif isinstance(event, GradientReached):
            of = self._makers.get(event.value)
            if of is not None:
                node = self._makers.get(event.gradient, of)
                gradient = Happened("gradient", node, event.step, event.thread, event.array, of)
                self.all.append(gradient)


def with_kernels(shut: list[Happened], opened: list[Happened]) -> list[Happened]:
    """The events with all kernels opened, each with the kernels around it."""
    always = {event.node.name for event in shut}
    waiting: list[Happened] = []
    for event in opened:
        if event.node.name not in always:
            waiting.append(event)
        elif waiting and event.what != "gradient":
            # The events inside a kernel come just before the kernel's own.
            nodes = {first.node.name: first.node for first in waiting}
            for first in waiting:
                first.inside = (event.node, *nodes.values())
            waiting = []
    assert not waiting
    return opened


def within(scope: str, around: str) -> bool:
    return around == "" or scope == around or scope.startswith(around + "/")


def levels(scope: str) -> int:
    return len([part for part in scope.split("/") if part])


def about(item: Breakpoint, node: Node) -> bool:
    """Whether a breakpoint's target matches a node."""
    if item.phase and item.phase != node.phase:
        return False
    match item.kind:
        case "node":
            return node.name == item.target
        case "op":
            return node.op == item.target
        case "glob":
            return fnmatch.fnmatchcase(node.name, item.target)
        case "regex":
            return re.fullmatch(item.target, node.name) is not None
        case "scope":
            return node.op not in LEAVES and within(node.scope, item.target)
        case "source":
            file, _, line = item.target.rpartition(":")
            at = node.source
            return (
                node.op not in LEAVES
                and at is not None
                and at.line == int(line)
                and at.file.endswith(f"/{file}")
            )
    raise AssertionError(item.kind)


def of_gradients(item: Breakpoint) -> bool:
    return "grad" in item.condition


def counted(wanted: str, hits: int) -> bool:
    match wanted.split():
        case ["==", count]:
            return hits == int(count)
        case [">=", count]:
            return hits >= int(count)
        case ["%", count]:
            return hits % int(count) == 0
    return True


@dataclass
class Armed:
    breakpoint: Breakpoint
    hits: int = 0
    on: bool = True


@dataclass
class Stopped:
    """A stop, as predicted by the model or reported by the debugger."""

    reason: str
    when: str
    name: str
    step: int
    breakpoint: int = 0


Goal = Callable[[Happened], bool]


@dataclass
class Model:
    """Where a program stops.

    Attributes:
        happened: The events from `with_kernels`.
        armed: The breakpoints, in the order in which they were set.
        entry: Whether to stop before the first node.
    """

    happened: list[Happened]
    armed: list[Armed]
    entry: bool = False
    exceptions: bool = True
    detached: bool = False
    reason: str = ""
    goal: Goal | None = None
    previous: dict[int, tuple[str, int]] = field(default_factory=dict)
    opened: bool = False
    log: list[int] = field(default_factory=list)
    """The breakpoints that logged, in order."""

    def stops(self, answers: Callable[[Stopped], Iterator[Command]]) -> list[Stopped]:
        """Predict the stops, given the commands at each of them."""
        results: list[Stopped] = []
        if self.entry:
            self.reason, self.goal = "entry", computes
        self.kernel: Node | None = None
        for event in self.happened:
            if not self._told(event):
                continue
            stop = self._meet(event)
            if stop is None:
                continue
            results.append(stop)
            self.goal, self.reason = None, ""
            self.previous[event.thread] = (event.node.scope, event.step)
            for command in answers(stop):
                self._take(command, event)
        return results

    def _told(self, item: Happened) -> bool:
        """Whether an event occurs with these breakpoints, and is reported."""
        if self.detached:
            return False
        on = [first.breakpoint for first in self.armed if first.on]
        if item.inside:
            if self.kernel is not item.inside[0]:
                # Whether a kernel is opened is decided when it begins.
                self.kernel = item.inside[0]
                self.opened = any(
                    about(first, node)
                    for first in on
                    if first.kind != "scope"
                    for node in item.inside
                )
            if not self.opened:
                return False
        elif item.what != "gradient":
            self.kernel = None
        if item.what == "before":
            return self.reason == "entry" or any(first.when == "before" for first in on)
        return True

    def _meet(self, event: Happened) -> Stopped | None:
        hits = [f for f in self.armed if self._counts(f, event)]
        stop: Stopped | None = None
        if event.what == "failed":
            if self.exceptions:
                stop = Stopped("exception", "after", event.node.name, event.step)
        elif hits:
            first = hits[0].breakpoint.id
            stop = Stopped("breakpoint", event.when, event.node.name, event.step, first)
        elif event.what != "gradient" and self.goal is not None and self.goal(event):
            stop = Stopped(self.reason, event.when, event.node.name, event.step)
        if event.what in ("after", "failed") and event.node.op not in LEAVES:
            self.previous[event.thread] = (event.node.scope, event.step)
        return stop

    def _counts(self, armed: Armed, at: Happened) -> bool:
        """Count a hit if a breakpoint holds here. Returns whether it stops the program."""
        item = armed.breakpoint
        node = at.node if at.of is None else at.of
        if (
            not armed.on
            or item.when != at.when
            or of_gradients(item) != (at.what == "gradient")
            or at.step < item.first_step
            or (item.last_step is not None and at.step > item.last_step)
            or not about(item, node)
        ):
            return False
        if item.kind == "scope" and at.what != "gradient":
            before = self.previous.get(at.thread)
            if before is not None and before[1] == at.step and within(before[0], item.target):
                return False
        if at.what == "failed":
            # Without a value, a condition cannot be evaluated; without a condition, the hit counts.
            if not item.condition and not item.log:
                armed.hits += 1
            return False
        if item.condition:
            holds = CONDITIONS[item.condition](at.value, None, at.value, at.step)
            if holds is None:
                armed.on = False
            if not holds:
                return False
        armed.hits += 1
        if not counted(item.hits, armed.hits):
            return False
        if item.once:
            armed.on = False
        if item.log:
            self.log.append(item.id)
            return False
        return True

    def _take(self, command: Command, at: Happened) -> None:
        scope, step = at.node.scope, at.step
        node_end: Goal = lambda item: computes(item) and item.what == "after"  # noqa: E731
        self.reason = "step"
        match command:
            case StepNode():
                self.goal = node_end
            case StepIn(scope=str(wanted)) if wanted:
                self.goal = lambda event: node_end(event) and within(event.node.scope, wanted)
            case StepIn():
                self.goal = lambda event: node_end(event) and not within(scope, event.node.scope)
            case StepOver(scope=str(wanted)) if wanted:
                self.goal = lambda event: node_end(event) and not within(event.node.scope, wanted)
            case StepOver():
                self.goal = lambda event: (
                    node_end(event) and levels(event.node.scope) <= levels(scope)
                )
            case StepOut():
                self.goal = lambda event: node_end(event) and not within(event.node.scope, scope)
            case NextStep():
                self.goal = lambda item: node_end(item) and item.step > step
            case RunTo(node=name):
                self.reason = "run_to"
                self.goal = lambda event: event.what == "after" and event.node.name == name
            case StepTwin():
                self.reason = "run_to"
                self.goal = self._twin(at.node)
            case SetBreakpoints(breakpoints=wanted_now):
                known = {first.breakpoint.id: first.hits for first in self.armed}
                self.armed = [
                    Armed(first, known.get(first.id, 0), first.enabled) for first in wanted_now
                ]
            case SetExceptions(stop=stop):
                self.exceptions = stop
            case Detach():
                self.detached = True
            case Continue():
                self.goal = None

    def _twin(self, node: Node) -> Goal:
        assert node.forward is None, "refused: a forward node ran before"
        return lambda event: event.what == "after" and event.node.forward == node.id


def computes(event: Happened) -> bool:
    return event.node.op not in LEAVES and event.what != "gradient"
