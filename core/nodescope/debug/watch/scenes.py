"""Conditions of `nodescope.debug.conditions` asked of a sight.

Invariant: a condition asks for an array only if it names one.
"""

from __future__ import annotations

from nodescope.debug.conditions import Condition, compile_condition
from nodescope.debug.vocabulary import Scene
from nodescope.debug.watch.rule import Unasked, WatchError
from nodescope.debug.watch.sight import Sight
from nodescope.errors import ConditionError
from nodescope.events import Array


def compiled(parameter: str, text: str) -> Condition:
    """The condition that a parameter holds.

    Raises:
        WatchError: It is none; the message has the column within it.
    """
    try:
        return compile_condition(text)
    except ConditionError as error:
        where = f" at column {error.column + 1}" if error.column >= 0 else ""
        raise WatchError(f"{parameter}{where}: {error.message}", hint=error.hint) from None


def holds(condition: Condition, sight: Sight) -> bool:
    """Whether it holds. Raises `Unasked`, and `ConditionError` where it makes no sense."""
    names = condition.names
    value = sight.array if "value" in names else None
    inputs: tuple[Array, ...] = ()
    if "inputs" in names:
        inputs = tuple(seen.array for seen in sight.inputs)
        if not inputs:
            raise Unasked("the node has no inputs")
    gradient = None
    if "grad" in names:
        found = sight.gradient
        if found is None:
            raise Unasked("no gradient of the value is known yet")
        gradient = found.array
    scene = Scene(
        value,
        inputs,
        step=sight.step,
        elapsed=sight.time_ns / 1e9,
        node=sight.node.name,
        grad=lambda: gradient,
    )
    return condition(scene)
