"""The condition of `nodescope.breakpoint`, evaluated on any value.

Invariant: no exception of the program's own objects propagates; errors are returned as text.
NumPy's warnings during the evaluation are suppressed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nodescope.arrays import OPAQUE, ops_of
from nodescope.console_output import last_line
from nodescope.debug.expressions.builtins import Scene
from nodescope.debug.expressions.compiler import compile_condition
from nodescope.errors import ConditionError
from nodescope.events import Array


class Answer(NamedTuple):
    """The truth of the condition, or the reason why it has none."""

    true: bool
    fault: str = ""


def ask(when: str, on: Any, *, step: int, elapsed_s: float) -> Answer:
    """Evaluate a condition on a tensor, an array, or any other object.

    Args:
        when: The condition.
        on: The object that ``value`` refers to, or None.
        step: The training step.
        elapsed_s: Seconds since the run began, without time held by the debugger.
    """
    try:
        with np.errstate(all="ignore"):
            scene = Scene(_array(on), step=step, elapsed=elapsed_s, node=_name(on))
            return Answer(bool(compile_condition(when)(scene)))
    except ConditionError as error:
        return Answer(False, str(error))
    except RecursionError:  # the program used up the stack; the condition is not at fault
        return Answer(False)
    except Exception as error:  # raised by the value's own methods
        return Answer(False, f"cannot be evaluated on a {type(on).__name__}: {last_line(error)}")


def _array(on: Any) -> Array | None:
    if on is None or isinstance(on, np.ndarray):
        return on
    ops = ops_of(on)
    return np.asarray(getattr(on, "data", on)) if ops is OPAQUE else ops.numpy(on)


def _name(on: Any) -> str:
    name = getattr(on, "name", "")
    return name if isinstance(name, str) and name else "this breakpoint"
