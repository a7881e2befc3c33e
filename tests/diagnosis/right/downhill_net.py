"""A residual network whose shortcuts step over every second sample, as the branch does not."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(98)
branches = [nn.Conv1d(a, b, 3, stride=2, padding=1, rng=rng) for a, b in ((1, 8), (8, 8))]
shortcuts = [nn.Conv1d(a, b, 1, stride=2, rng=rng) for a, b in ((1, 8), (8, 8))]
out = nn.Linear(8 * 6, 2, rng=rng)
layers = [p for m in (*branches, *shortcuts, out) for p in m.parameters()]
optimizer = ns.optim.Adam(layers, lr=0.01)

for _ in ns.steps(range(120)):
    climbs = rng.integers(0, 2, 32)
    slope = np.where(climbs[:, None] > 0, 1.0, -1.0) * np.linspace(-1, 1, 24)
    track = (slope + rng.normal(0, 0.8, (32, 24))).astype(np.float32)
    h = ns.tensor(track[:, None, :], name="track")
    for branch, shortcut in zip(branches, shortcuts, strict=True):
        h = nn.relu(branch(h)) + shortcut(h)
    loss = nn.cross_entropy(out(nn.flatten(h, 1)), climbs)
    optimizer.minimize(loss)
print(f"loss {loss.item():.3f}")
