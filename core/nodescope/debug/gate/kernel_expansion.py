"""Kernel expansion: which compiled kernels run node by node for the breakpoints that are set.

Invariant: pure.
"""

from __future__ import annotations

from nodescope.debug.breakpoints.matching import covers
from nodescope.events import Opens
from nodescope.protocol import Breakpoint


def opened_by(active: tuple[Breakpoint, ...]) -> tuple[Opens, ...]:
    """Predicates that open the kernels covered by these breakpoints; see `Demand.opened`.

    Scope breakpoints need none: entering a scope shows at its kernels as well.
    """
    breakpoints = tuple(breakpoint for breakpoint in active if breakpoint.kind != "scope")
    if not breakpoints:
        return ()
    return (lambda node: any(covers(breakpoint, node) for breakpoint in breakpoints),)
