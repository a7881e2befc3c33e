"""The embedded engine: tensors, and the three modes of operations.

Operations run at once, run observed, or are recorded as the nodes of a graph.

Invariant: all three call the same impls on the same arrays in the same order.
"""

from __future__ import annotations

# Importing any part of the engine yields complete tensors, registered with NumPy.
from nodescope.engine import dispatch, freed_memory, methods, operators  # noqa: F401

freed_memory.keep()
