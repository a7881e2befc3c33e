"""Evaluation of breakpoints' conditions and messages at a node.

Invariant: reads live arrays and changes nothing; a condition that cannot be evaluated is a result,
never an exception.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nodescope.arrays.lazy import held
from nodescope.debug.breakpoints.breakpoint_set import Query
from nodescope.debug.breakpoints.matching import condition_of, message_of
from nodescope.debug.expressions.builtins import TRUTHS, Scene, are_ours, scene_of, truth
from nodescope.debug.session.state import ConditionResult, NodeReached, SessionState
from nodescope.errors import ConditionError
from nodescope.events import GradientReached, NodeFailed, NodeFinished, NodeStarted
from nodescope.ir.scopes import is_within
from nodescope.protocol import Breakpoint

_ndarray: Final = np.ndarray

Reached = NodeStarted | NodeFinished | NodeFailed | GradientReached


def passes(
    queries: tuple[Query, ...], event: NodeFinished, previous: tuple[str, int] | None
) -> bool:
    """Whether it is certain that none of the breakpoints counts at a node that has run.

    Args:
        queries: Queries of the breakpoints that cover the node.
        event: The node's end, with the live arrays.
        previous: Scope and step of the thread's previous node; None if unknown.
    """
    scene: Scene | None = None
    step = event.step
    for first, last, scope, condition, elapsed in queries:
        if step < first or step > last:
            continue
        if (
            scope is not None
            and previous is not None
            and previous[1] == step
            and (is_within(previous[0], scope))
        ):
            continue  # the thread is in the scope already
        if condition is None or elapsed:
            return False
        if scene is None:
            outputs = event.outputs
            value = outputs[0] if outputs else None
            inputs = event.inputs
            if value.__class__ is not _ndarray or (inputs and not are_ours(inputs)):
                return False  # evaluated once, by `judge`
            scene = Scene(value, inputs, step, event.node.name)
        try:
            result = condition(scene)
            if result if result.__class__ in TRUTHS else truth(result):
                return False
        except Exception:
            return False  # `judge` says what is wrong
    return True


def hits_of(state: SessionState, breakpoint: Breakpoint) -> int:
    """The hit count of a breakpoint."""
    counts = (status.hits for status in state.breakpoints if status.breakpoint.id == breakpoint.id)
    return next(counts, 0)


def judge(
    breakpoint: Breakpoint, event: Reached, at: NodeReached, hits: int, elapsed_s: float
) -> ConditionResult:
    """Evaluate a breakpoint's condition, and render its log message.

    Args:
        breakpoint: A breakpoint that covers the node.
        event: The event with the live arrays.
        at: The node reached.
        hits: Hit count before this one.
        elapsed_s: Seconds since the run began, without time held by the debugger.
    """
    if isinstance(event, NodeFailed):
        return ConditionResult(breakpoint.id)
    scene = _scene(event, at, elapsed_s)
    try:
        condition = condition_of(breakpoint)
        if condition is not None and not condition(scene):
            return ConditionResult(breakpoint.id)
    except ConditionError as error:
        return ConditionResult(breakpoint.id, error=str(error))
    message = message_of(breakpoint)
    node = at.gradient_of or at.node
    text = "" if message is None else message.render(scene, node, hits + 1)
    return ConditionResult(breakpoint.id, true=True, text=text)


def _scene(
    event: NodeStarted | NodeFinished | GradientReached, at: NodeReached, elapsed_s: float
) -> Scene:
    if isinstance(event, GradientReached):
        array = event.array
        name = (at.gradient_of or at.node).name
        return scene_of(
            array, step=event.step, elapsed=elapsed_s, node=name, grad=lambda: held(array)
        )
    outputs = event.outputs if isinstance(event, NodeFinished) else ()
    return scene_of(
        outputs[0] if outputs else None,
        event.inputs,
        step=event.step,
        elapsed=elapsed_s,
        node=at.node.name,
    )
