"""A normalising flow of affine couplings in float32 for points on a ring."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(20)
angle = rng.uniform(0, 2 * np.pi, 200)
points = (np.stack([np.cos(angle), np.sin(angle)], axis=1) * 12).astype(np.float32)
points += rng.normal(0, 0.6, (200, 2)).astype(np.float32)


class Coupling(nn.Module):
    def __init__(self, flip):
        self.flip = flip
        self.inner = nn.Linear(1, 16, rng=rng)
        self.outer = nn.Linear(16, 2, rng=rng)

    def forward(self, x):
        a, b = (x[:, 1:], x[:, :1]) if self.flip else (x[:, :1], x[:, 1:])
        out = self.outer(nn.relu(self.inner(a)))
        log_scale, shift = out[:, :1], out[:, 1:]
        b = b * np.exp(log_scale) + shift
        return np.concatenate([b, a] if self.flip else [a, b], axis=1), np.sum(log_scale, axis=1)


flow = [Coupling(False), Coupling(True), Coupling(False)]
optimizer = ns.optim.Adam([p for layer in flow for p in layer.parameters()], lr=0.02)
np.seterr(all="ignore")
for _ in ns.steps(range(100)):
    z, log_det = ns.tensor(points, name="points"), 0.0
    for layer in flow:
        z, change = layer(z)
        log_det = log_det + change
    loss = np.mean(0.5 * np.sum(z**2, axis=1) - log_det)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
