"""Breakpoints as people write them, read for the page's form.

Invariant: one syntax, that of the command line; reading sets nothing.
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
