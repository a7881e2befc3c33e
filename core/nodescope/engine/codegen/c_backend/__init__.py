"""The C back end: kernels that the system's own compiler makes."""

from nodescope.engine.codegen.c_backend.backend import C

__all__ = ["C"]
