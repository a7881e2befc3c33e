"""Checks of commands against the capabilities of the frameworks in a run.

Invariant: pure. A command that no framework of the run supports is refused in one line: what, why,
and what to use instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from nodescope.debug.breakpoints.matching import of_gradients
from nodescope.debug.breakpoints.syntax import describe
from nodescope.errors import BreakpointError, UsageError
from nodescope.ir.capabilities import Feature, Shortfall
from nodescope.protocol import Breakpoint, Command, NextStep, SetBreakpoints, StepIn

Lacks = Callable[[Feature], Shortfall | None]
"""Returns why a feature is not available in the run; None if it is."""


def breakpoint_shortfall(breakpoint: Breakpoint, lacks: Lacks) -> Shortfall | None:
    """Why a breakpoint can never stop the program; None if it can."""
    features: list[Feature] = []
    if breakpoint.when == "before":
        features.append("before")
    if of_gradients(breakpoint):
        features.append("gradients")
    if breakpoint.kind == "scope":
        features.append("scopes")
    return next((lack for feature in features if (lack := lacks(feature)) is not None), None)


def check_command(command: Command, lacks: Lacks, known: Collection[Breakpoint] = ()) -> None:
    """Refuse a command that no framework of the run supports.

    Args:
        command: The command.
        lacks: The run's missing features.
        known: The breakpoints that are already set; these are not refused again.

    Raises:
        UsageError, BreakpointError: The command is not supported; the hint says what to use
            instead.
    """
    if isinstance(command, SetBreakpoints):
        for breakpoint in command.breakpoints:
            lack = None if breakpoint in known else breakpoint_shortfall(breakpoint, lacks)
            if lack is not None:
                raise BreakpointError(f"{describe(breakpoint)}: {lack.text}", hint=lack.hint)
        return
    lack = None
    if isinstance(command, StepIn):
        lack = lacks("scopes")
    elif isinstance(command, NextStep):
        lack = lacks("steps")
    if lack is not None:
        raise UsageError(lack.text, hint=lack.hint)
