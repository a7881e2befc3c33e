"""Are two noisy pictures of the same thing? An encoder and the distance between its codes."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(7)
things = rng.standard_normal((12, 10))


def pairs(count):
    """Two arrays (count, 10), and whether both show the same thing."""
    left, right = rng.integers(0, 12, count), rng.integers(0, 12, count)
    right = np.where(rng.random(count) < 0.5, left, right)
    noise = rng.normal(0, 1.0, (2, count, 10)) * np.array([0.1] * 5 + [3.0] * 5)
    return things[left] + noise[0], things[right] + noise[1], (left == right).astype(float)


class Encoder(nn.Module):
    def __init__(self):
        self.project = nn.Linear(10, 8, rng=rng)

    def forward(self, picture):
        return np.tanh(self.project(ns.tensor(picture)))


encoder = Encoder()
threshold = ns.parameter(1.0, name="threshold")
optimizer = ns.optim.Adam([*encoder.parameters(), threshold], lr=0.03)
for _ in ns.steps(range(120)):
    left, right, same = pairs(64)
    codes = encoder(left), encoder(right)
    difference = ns.tensor(codes[0].numpy() - codes[1].numpy(), name="difference")
    logits = threshold - np.sum(difference**2, axis=1)
    loss = nn.binary_cross_entropy_with_logits(logits, ns.tensor(same, name="same"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
