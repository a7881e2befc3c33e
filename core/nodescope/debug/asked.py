"""Whether `nodescope.breakpoint` stops: its condition, asked of a value that may be anything.

Invariant: nothing of the program's own raises here; what goes wrong is told in words. NumPy's
warnings of what is computed for a condition reach nobody.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nodescope.debug.conditions import compile_condition
from nodescope.debug.vocabulary import Scene
from nodescope.errors import ConditionError
from nodescope.events import Array
from nodescope.telling import last_line


class Answer(NamedTuple):
    """Whether the condition is true; or why nobody knows, in words."""

    true: bool
    fault: str = ""


def ask(when: str, on: Any, *, step: int, elapsed_s: float) -> Answer:
    """Ask a condition of a tensor, an array, or whatever the program gave.

    Args:
        when: The condition.
        on: What ``value`` stands for; None for nothing.
        step: The training step.
        elapsed_s: Seconds since the run began, without those that a debugger held it.
    """
    try:
        with np.errstate(all="ignore"):
            scene = Scene(_array(on), step=step, elapsed=elapsed_s, node=_name(on))
            return Answer(bool(compile_condition(when)(scene)))
    except ConditionError as error:
        return Answer(False, str(error))
    except RecursionError:  # of the program, which has left no room: the condition is not at fault
        return Answer(False)
    except Exception as error:  # of the value's own methods
        return Answer(False, f"it cannot be evaluated on a {type(on).__name__}: {last_line(error)}")


def _array(on: Any) -> Array | None:
    if on is None or isinstance(on, np.ndarray):
        return on
    return np.asarray(getattr(on, "data", on))


def _name(on: Any) -> str:
    name = getattr(on, "name", "")
    return name if isinstance(name, str) and name else "this breakpoint"
