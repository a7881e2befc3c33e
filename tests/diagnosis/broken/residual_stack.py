"""A stack of hidden layers that fits a two-dimensional spiral."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(15)


def spiral(n):
    label = rng.integers(0, 2, n)
    r = rng.uniform(0.1, 1, n)
    phi = 16 * r + np.pi * label
    return (np.stack([r * np.cos(phi), r * np.sin(phi)], axis=1)).astype(np.float32), label


class Net(nn.Module):
    def __init__(self, size=24, depth=4):
        self.embed = nn.Linear(2, size, rng=rng)
        self.layers = [nn.Linear(size, size, rng=rng) for _ in range(depth)]
        self.head = nn.Linear(size, 2, rng=rng)

    def forward(self, inputs):
        x = self.embed(inputs)
        for layer in self.layers:
            out = nn.relu(layer(x))
        return self.head(out)


x, y = spiral(400)
net = Net()
optimizer = ns.optim.Adam(net, lr=0.004)
for _epoch in ns.steps(range(220)):
    loss = nn.cross_entropy(net(ns.tensor(x, name="points")), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

with ns.no_grad():
    guess = net(ns.tensor(x)).numpy().argmax(axis=1)
print(f"accuracy {np.mean(guess == y):.4f}")
print(f"loss {loss.item():.4f}")
