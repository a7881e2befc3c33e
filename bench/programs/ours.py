"""How a compiled function was lowered, and whether with the requested back end.

Invariant: a back end that did not run is never mistaken for one that did.
"""

from __future__ import annotations

from nodescope.engine.static.compiled import CompiledFunction
from nodescope.engine.static.lowering import Lowering


def lowering_of(compiled: CompiledFunction) -> Lowering:
    """The lowering of a function's latest trace."""
    entries = [record.entry for record in compiled._records if record.entry is not None]
    lowering: Lowering = entries[-1].lowering
    return lowering


def not_as_asked(compiled: CompiledFunction, backend: str) -> str:
    """Why a function ran without the back end that it was compiled for, or ``""``."""
    lowering = lowering_of(compiled)
    if lowering.runner is not None and lowering.backend == backend:
        return ""
    return lowering.reason or f"ran with {lowering.backend or 'no back end'}"
