"""The embedded eager engine: tensors, tape, NumPy dispatch, scopes, steps, tracer, nn and optim.

Invariant: results never depend on whether somebody observes.
"""
