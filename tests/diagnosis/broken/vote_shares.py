"""Seats from votes: shares of whole numbers, and a least-squares weight for each party."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(34)
votes = rng.integers(1_000, 90_000, (60, 4))
seats = 100 * votes / votes.sum(axis=1, keepdims=True) @ np.array([1.1, 0.9, 1.0, 0.8])

counted = ns.tensor(votes, name="votes")
weight = ns.parameter(np.ones(4), name="weight")
for _ in ns.steps(range(50)):
    with ns.name_scope("share"):
        share = counted // np.sum(counted, axis=1, keepdims=True)
    with ns.name_scope("fit"):
        expected = 100 * (share @ weight)
        loss = np.mean((expected - seats) ** 2)
    weight.grad = None
    loss.backward()
    with ns.no_grad():
        ns.assign(weight, weight - 1e-4 * weight.grad)
print(f"loss {loss.item():.3f}")
