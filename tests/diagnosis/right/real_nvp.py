"""A normalising flow of four coupling layers, fitted to two moons."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(10)


def sample(n):
    a = rng.uniform(0, np.pi, n)
    k = rng.integers(0, 2, n)
    x = np.stack([np.cos(a) * (1 - 2 * k) + k, np.sin(a) * (1 - 2 * k) + k * 0.5], 1)
    return (x + 0.05 * rng.standard_normal(x.shape)).astype(np.float32)


class Coupling(nn.Module):
    def __init__(self, flip):
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 32, rng=rng), np.tanh, nn.Linear(32, 2, rng=rng))

    def forward(self, x):
        a, b = (x[:, 1:], x[:, :1]) if self.flip else (x[:, :1], x[:, 1:])
        out = self.net(a)
        s, t = np.tanh(out[:, :1]), out[:, 1:]
        b = b * np.exp(s) + t
        y = ns.concat([b, a], axis=1) if self.flip else ns.concat([a, b], axis=1)
        return y, s[:, 0]


layers = [Coupling(i % 2 == 1) for i in range(4)]
optimizer = ns.optim.Adam([p for layer in layers for p in layer.parameters()], lr=5e-3)
for _ in ns.steps(range(150)):
    z, logdet = ns.tensor(sample(128)), 0.0
    for layer in layers:
        z, s = layer(z)
        logdet = logdet + s
    loss = np.mean(0.5 * np.sum(z * z, axis=1) + np.log(2 * np.pi) - logdet)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"nll {loss.item():.3f}")
