"""Writing to tensors in place, and who shares their memory.

Invariant: a write is right for everyone who sees it, or refused.
"""
