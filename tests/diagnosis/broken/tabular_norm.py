"""Customers who leave: a network with its own layer norm; in use, customers come one at a time."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(10)
customers = rng.standard_normal((200, 6))
leaves = (customers[:, 0] - customers[:, 3] > 0).astype(np.float64)


class Normalise(nn.Module):
    def __init__(self, size):
        self.gain = ns.parameter(np.ones(size))
        self.shift = ns.parameter(np.zeros(size))

    def forward(self, h):
        centred = h - np.mean(h, axis=0, keepdims=True)
        spread = np.sqrt(np.mean(centred**2, axis=0, keepdims=True) + 1e-5)
        return centred / spread * self.gain + self.shift


class Net(nn.Module):
    def __init__(self):
        self.inner = nn.Linear(6, 16, rng=rng)
        self.norm = Normalise(16)
        self.outer = nn.Linear(16, 1, rng=rng)

    def forward(self, x):
        return self.outer(nn.relu(self.norm(self.inner(x))))[:, 0]


net = Net()
optimizer = ns.optim.Adam(net, lr=0.02)
for _ in ns.steps(range(60)):
    rows = rng.integers(0, 150, 32)
    optimizer.zero_grad()
    loss = nn.binary_cross_entropy_with_logits(net(ns.tensor(customers[rows])), leaves[rows])
    loss.backward()
    optimizer.step()

with ns.no_grad(), ns.name_scope("service"):
    answers = [net(ns.tensor(customers[row : row + 1])).item() > 0 for row in range(150, 200)]
print(f"right {np.mean(np.array(answers) == leaves[150:]):.2f}")
