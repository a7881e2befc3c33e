"""Contrastive learning: of 16 pictures, which is another view of this one? (InfoNCE)"""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(64)
mixing = rng.standard_normal((2, 4, 12))
online = nn.Linear(12, 4, rng=rng)
slow = {name: array.copy() for name, array in online.state_dict().items()}
momentum = nn.Linear(12, 4, rng=rng)
momentum.load_state_dict(slow)
optimizer = ns.optim.Adam(online, lr=0.02)


def unit(v):
    return v / (np.linalg.norm(v, axis=1, keepdims=True) + 1e-6)


losses = []
for _ in ns.steps(range(120)):
    things = rng.standard_normal((16, 4))
    left, right = (things @ mixing[0]).astype(np.float32), (things @ mixing[0]).astype(np.float32)
    left += rng.normal(0, 0.4, left.shape).astype(np.float32)
    right += rng.normal(0, 0.4, right.shape).astype(np.float32)
    query = unit(online(ns.tensor(left, name="left")))
    with ns.no_grad():
        key = unit(momentum(ns.tensor(right, name="right")))
    loss = nn.cross_entropy(query @ key.T / 0.2, np.arange(16))
    optimizer.minimize(loss)
    fresh = online.state_dict()
    slow = {name: (0.95 * slow[name] + 0.05 * fresh[name]).astype(np.float32) for name in slow}
    momentum.load_state_dict(slow)
    losses.append(loss.item())
print(f"loss {np.mean(losses[-20:]):.3f}")
