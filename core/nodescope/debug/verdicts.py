"""Verdicts: what the conditions and messages of breakpoints give at a node.

Invariant: reads live arrays and changes nothing; a condition that cannot be evaluated is an answer,
never an exception.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from nodescope.debug.breakpoints import condition_of, message_of
from nodescope.debug.conditions import Condition
from nodescope.debug.state import NodeReached, SessionState, Verdict
from nodescope.debug.vocabulary import Scene
from nodescope.errors import ConditionError
from nodescope.events import GradientReached, NodeFailed, NodeFinished, NodeStarted
from nodescope.ir.scopes import is_within
from nodescope.protocol import Breakpoint

Reached = NodeStarted | NodeFinished | NodeFailed | GradientReached


class Asked(NamedTuple):
    """What an armed breakpoint asks at a node that it covers, ready to be asked often."""

    first_step: int
    last_step: float
    scope: str | None
    condition: Condition | None
    elapsed: bool


def asked_of(breakpoint: Breakpoint) -> Asked:
    """What a breakpoint asks. Raises `ConditionError`."""
    last = breakpoint.last_step
    condition = condition_of(breakpoint)
    return Asked(
        breakpoint.first_step,
        math.inf if last is None else last,
        breakpoint.target if breakpoint.kind == "scope" else None,
        condition,
        condition is not None and "elapsed" in condition.names,
    )


def passes(asked: tuple[Asked, ...], event: NodeFinished, previous: tuple[str, int] | None) -> bool:
    """Whether surely none of the breakpoints counts at a node that has run.

    Args:
        asked: Of the breakpoints that cover it.
        event: With the live arrays.
        previous: Where the thread's node before was: (scope, step), or None if unknown.
    """
    scene: Scene | None = None
    step = event.step
    for first, last, scope, condition, elapsed in asked:
        if step < first or step > last:
            continue
        if (
            scope is not None
            and previous is not None
            and previous[1] == step
            and (is_within(previous[0], scope))
        ):
            continue  # inside already
        if condition is None or elapsed:
            return False
        if scene is None:
            outputs = event.outputs
            value = outputs[0] if outputs else None
            scene = Scene(value, event.inputs, step, event.node.name)
        try:
            if condition(scene):
                return False
        except ConditionError:
            return False
    return True


def hits_of(state: SessionState, breakpoint: Breakpoint) -> int:
    """How often a breakpoint has counted so far."""
    found = (each.hits for each in state.breakpoints if each.breakpoint.id == breakpoint.id)
    return next(found, 0)


def judge(
    breakpoint: Breakpoint, event: Reached, at: NodeReached, hits: int, elapsed_s: float
) -> Verdict:
    """Ask a breakpoint's condition, and render what it logs.

    Args:
        breakpoint: That covers the node.
        event: With the live arrays.
        at: The node.
        hits: How often it has counted before.
        elapsed_s: Since the run began, without what was held.
    """
    if isinstance(event, NodeFailed):
        return Verdict(breakpoint.id)
    scene = _scene(event, at, elapsed_s)
    try:
        condition = condition_of(breakpoint)
        if condition is not None and not condition(scene):
            return Verdict(breakpoint.id)
    except ConditionError as error:
        return Verdict(breakpoint.id, error=str(error))
    message = message_of(breakpoint)
    about = at.gradient_of or at.node
    text = "" if message is None else message.render(scene, about, hits + 1)
    return Verdict(breakpoint.id, true=True, text=text)


def _scene(
    event: NodeStarted | NodeFinished | GradientReached, at: NodeReached, elapsed_s: float
) -> Scene:
    if isinstance(event, GradientReached):
        array = event.array
        name = (at.gradient_of or at.node).name
        return Scene(array, step=event.step, elapsed=elapsed_s, node=name, grad=lambda: array)
    outputs = event.outputs if isinstance(event, NodeFinished) else ()
    return Scene(
        outputs[0] if outputs else None,
        event.inputs,
        step=event.step,
        elapsed=elapsed_s,
        node=at.node.name,
    )
