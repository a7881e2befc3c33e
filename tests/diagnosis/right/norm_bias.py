"""Layers with biases before batch norm, and a bias shared by all scores of a softmax."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(41)
x = rng.standard_normal((128, 6)).astype(np.float32)
labels = (x[:, 0] * x[:, 1] > 0).astype(np.int64) + (x[:, 2] > 0.5)


class Net(nn.Module):
    def __init__(self):
        self.first = nn.Linear(6, 24, rng=rng)
        self.norm = nn.BatchNorm1d(24)
        self.second = nn.Linear(24, 3, rng=rng)
        self.offset = ns.parameter(np.float32(0.3))

    def forward(self, x):
        return self.second(nn.relu(self.norm(self.first(x)))) + self.offset


net = Net()
optimizer = ns.optim.SGD(net, lr=0.2, momentum=0.9)
for _ in ns.steps(range(100)):
    optimizer.zero_grad()
    loss = nn.cross_entropy(net(ns.tensor(x)), labels)
    loss.backward()
    optimizer.step()
net.eval()
with ns.no_grad():
    right = np.mean(np.argmax(net(ns.tensor(x)).numpy(), axis=1) == labels)
print(f"right {right:.2f}")
