"""The C back end: kernels compiled by the system's own compiler."""

from nodescope.engine.codegen.c_backend.backend import C

__all__ = ["C"]
