"""What a compiled function became, whether or not that is what was asked for.

Invariant: a back end that did not run is never taken for one that did.
"""

from __future__ import annotations

from nodescope.engine.static.compiled import Compiled
from nodescope.engine.static.lowering import Lowering


def lowering_of(compiled: Compiled) -> Lowering:
    """What the last trace of a function became."""
    entries = [each.entry for each in compiled._records if each.entry is not None]
    found: Lowering = entries[-1].lowering
    return found


def not_as_asked(compiled: Compiled, backend: str) -> str:
    """Why a function that has run did so without the back end it was compiled for, or ``""``."""
    found = lowering_of(compiled)
    if found.runner is not None and found.backend == backend:
        return ""
    return found.reason or f"ran with {found.backend or 'no back end'}"
