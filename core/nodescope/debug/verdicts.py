"""Verdicts: what the conditions and messages of breakpoints give at a node.

Invariant: reads live arrays and changes nothing; a condition that cannot be evaluated is an answer,
never an exception.
"""

from __future__ import annotations

from nodescope.debug.breakpoints import condition_of, message_of
from nodescope.debug.state import NodeReached, SessionState, Verdict
from nodescope.debug.vocabulary import Scene
from nodescope.errors import ConditionError
from nodescope.events import GradientReached, NodeFailed, NodeFinished, NodeStarted
from nodescope.protocol import Breakpoint

Reached = NodeStarted | NodeFinished | NodeFailed | GradientReached


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
        elapsed_s: Since the run began.
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
