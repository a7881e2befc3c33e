"""Breakpoints as text, parsed for the page's form.

Invariant: the syntax is that of the command line; parsing sets nothing.
"""

from __future__ import annotations

from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.errors import BreakpointError, ConditionError
from nodescope_server import wire


def read(request: wire.ReadBreakpoint) -> wire.BreakpointRead:
    """Answer `wire.ReadBreakpoint`."""
    try:
        return wire.BreakpointRead(parse_breakpoint(request.text))
    except (BreakpointError, ConditionError) as error:
        place = f" (column {error.column + 1})" if error.column >= 0 else ""
        return wire.BreakpointRead(None, f"{error}{place}")
