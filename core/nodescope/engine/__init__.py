"""The embedded engine: tensors, and the three modes of their operations.

They run at once, run observed, or are recorded as the nodes of a graph.

Invariant: all three call the same impls on the same arrays in the same order.
"""

from __future__ import annotations

# Whoever imports any part of it gets tensors that are whole, and known to NumPy.
from nodescope.engine import dispatch, methods, operators  # noqa: F401
