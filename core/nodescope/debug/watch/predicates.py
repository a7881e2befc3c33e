"""Conditions of `nodescope.debug.expressions.compiler` evaluated on a sight.

Invariant: an array is requested only if the condition names it.
"""

from __future__ import annotations

from nodescope.arrays.lazy import HeldArray
from nodescope.debug.expressions.builtins import scene_of
from nodescope.debug.expressions.compiler import Condition, compile_condition
from nodescope.debug.watch.observation import MissingData, Sight
from nodescope.debug.watch.rule import WatchError
from nodescope.errors import ConditionError


def compiled(parameter: str, text: str) -> Condition:
    """Compile the condition given by a parameter.

    Raises:
        WatchError: The text is not a condition; the message gives the column within it.
    """
    try:
        return compile_condition(text)
    except ConditionError as error:
        place = f" at column {error.column + 1}" if error.column >= 0 else ""
        raise WatchError(f"{parameter}{place}: {error.message}", hint=error.hint) from None


def holds(condition: Condition, sight: Sight) -> bool:
    """Whether the condition holds. Raises `MissingData`, or `ConditionError` if it has no truth."""
    names = condition.names
    value = sight.readable if "value" in names else None
    inputs: tuple[HeldArray, ...] = ()
    if "inputs" in names:
        inputs = tuple(operand.readable for operand in sight.inputs)
        if not inputs:
            raise MissingData("the node has no inputs")
    gradient = None
    if "grad" in names:
        measured = sight.gradient
        if measured is None:
            raise MissingData("the gradient of the value is not known yet")
        gradient = measured.readable
    scene = scene_of(
        value,
        inputs,
        step=sight.step,
        elapsed=sight.time_ns / 1e9,
        node=sight.node.name,
        grad=lambda: gradient,
    )
    return condition(scene)
