"""The embedded engine: tensors, and the three roads of their operations.

They are run at once, run and observed, or recorded as the nodes of a graph.

Invariant: all three call the same impls on the same arrays in the same order.
"""
