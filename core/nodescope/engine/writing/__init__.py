"""Writing to tensors in place, and which tensors share memory.

Invariant: a write is correct for every tensor that sees it, or refused.
"""
