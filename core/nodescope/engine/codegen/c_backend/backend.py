"""The back end ``c``: whole plans in C, made by the system's compiler.

Invariant: a missing compiler is reported, not raised; the back end's modules are loaded on first
use.
"""

from __future__ import annotations

from nodescope.engine.codegen.backend import Runner, backend
from nodescope.passes.pipeline import Lowered


class CBackend:
    """See `nodescope.engine.codegen.backend.Backend`."""

    name = "c"
    exact = False

    def missing(self) -> str:
        """Why the C back end is unavailable here, or ``""``."""
        from nodescope.engine.codegen.c_backend import arrays, blas, toolchain

        return arrays.missing() or toolchain.unavailable() or blas.missing()

    def build(self, lowered: Lowered) -> Runner:
        """See `Backend.build`. Raises `CompilerError` if the compiler fails."""
        from nodescope.engine.codegen.c_backend.runner import CRunner

        return CRunner(lowered)


C = backend(CBackend())
