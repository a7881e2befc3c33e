"""The back end ``numpy``: generated Python over NumPy, with planned memory.

The first call is observed (`observe`): each NumPy call that the graph expands to (`expand`), and
the layout of its result. Then values get places in one arena, and large kernels are cut into tiles
(`place`); the program is written as text and compiled (`text`), and runs on sets of buffers that
are kept from call to call (`runner`).

Invariant: results are bit-equal to running the graph node by node.
"""

from __future__ import annotations

from nodescope.engine.codegen.backend import Runner, backend
from nodescope.engine.codegen.numpy_backend.runner import NumpyRunner
from nodescope.passes.pipeline import Lowered


class NumpyBackend:
    """See `nodescope.engine.codegen.backend.Backend`."""

    name = "numpy"
    exact = True

    def missing(self) -> str:
        """Always ``""``: NumPy is available."""
        return ""

    def build(self, lowered: Lowered) -> Runner:
        """See `Backend.build`."""
        return NumpyRunner(lowered)


NUMPY = backend(NumpyBackend())
