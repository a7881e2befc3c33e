"""Step targets: where a command ends, and whether a node is that place.

Invariant: pure; a step belongs to one thread, and only nodes of that thread end it. A step from a
node of another process ends at the next node of any thread.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nodescope.debug.session.state import Goal
from nodescope.errors import UsageError
from nodescope.ir.graph import Node
from nodescope.ir.scopes import depth, is_within
from nodescope.protocol import (
    Command,
    NextStep,
    OfThread,
    StepIn,
    StepNode,
    StepOut,
    StepOver,
    Stop,
    StopReason,
    When,
)


def meets(goal: Goal, node: Node, when: When, step: int, thread: int) -> bool:
    """Whether the program has reached its goal."""
    if goal.thread is not None and thread != goal.thread and goal.thread >= 0:
        return False
    if goal.kind == "run_to":
        named = node.name == goal.node or (goal.by_end and node.name.endswith(f"/{goal.node}"))
        return when == "after" and named
    if goal.kind == "twin":
        return when == "after" and node.forward == goal.of
    if goal.kind == "forward":
        return when == "after" and node.id == goal.of
    if node.is_leaf:
        return False
    if goal.kind in ("entry", "pause"):
        return True
    if when != "after":
        return False
    match goal.kind:
        case "step_node":
            return True
        case "step_in":
            return not is_within(goal.scope, node.scope)
        case "inside":
            return is_within(node.scope, goal.scope)
        case "outside":
            return not is_within(node.scope, goal.scope)
        case "shallow":
            return depth(node.scope) <= depth(goal.scope)
        case "step":
            return step > goal.step
    return False


def goal_reason(goal: Goal, name: str, when: When) -> tuple[StopReason, str]:
    """The reason for stopping where a goal is met, and its description."""
    match goal.kind:
        case "entry":
            where = "Before" if when == "before" else "After"
            return "entry", f"{where} the first node: {name}"
        case "pause":
            return goal.reason, goal.text or f"Stopped at {name}"
        case "run_to":
            return "run_to", f"Ran to {name}"
        case "twin":
            return "run_to", f"Ran to {name}, a backward node of {goal.node}"
        case "step":
            return "step", f"Stepped to the next training step: {name}"
    return "step", f"Stepped to {name}"


def alone_of(command: Command, stop: Stop) -> tuple[int, ...]:
    """The threads that a command releases, none for all."""
    if not (isinstance(command, OfThread) and command.alone):
        return ()
    return (stop.thread if command.thread is None else command.thread,)


def seen_from(command: Command, stop: Stop, held_scopes: Mapping[int, str]) -> Stop:
    """The stop as if the stepping thread had stopped, at the node where it is held."""
    thread = command.thread if isinstance(command, OfThread) else None
    if thread is None or thread == stop.thread:
        return stop
    if thread not in held_scopes and not isinstance(command, StepNode):
        raise UsageError("this thread has not reached a node, so it is in no scope",
                         hint="step to its next node")  # fmt: skip
    return msgspec.structs.replace(stop, thread=thread, scope=held_scopes.get(thread, ""))


def twin_goal(node: Node) -> Goal:
    """The twin of a node: for a forward node its backward node, which comes later; for a backward
    node its forward node, which ran earlier, so that only looking back leads there.

    Raises:
        UsageError: The node has no twin; the message says why.
    """
    if node.is_leaf:
        raise UsageError(f"{node.name} has no backward node: it only holds data")
    if node.forward is not None:
        return Goal("forward", node=node.name, of=node.forward)
    if node.phase != "forward":
        raise UsageError(f"{node.name} belongs to phase {node.phase}: it has no counterpart")
    return Goal("twin", node=node.name, of=node.id)


def step_goal(command: Command, *, name: str, scope: str, step: int, thread: int) -> Goal | None:
    """The goal of a step from a node, live or in the recording; None for other commands.

    Args:
        name, scope: The node's name and scope.
        step, thread: The training step and the thread that it ran in.

    Raises:
        UsageError: The step leads nowhere from there.
    """
    match command:
        case StepNode():
            return Goal("step_node", thread=thread)
        case StepIn(scope=str() as into) if into:
            return Goal("inside", scope=into, thread=thread)
        case StepIn():
            return Goal("step_in", scope=scope, thread=thread)
        case StepOver(scope=str() as over) if over:
            return Goal("outside", scope=over, thread=thread)
        case StepOver():
            return Goal("shallow", scope=scope, thread=thread)
        case StepOut():
            if not scope:
                raise UsageError(f"{name} is in no scope to step out of", hint="continue instead")
            return Goal("outside", scope=scope, thread=thread)
        case NextStep():
            return Goal("step", step=step)
    return None
