"""Fine-tuning with a batch norm that stays as it was: its statistics are those of the data."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(92)
W = rng.normal(0, 1, (8, 3))


class Net(nn.Module):
    def __init__(self):
        self.hidden = nn.Linear(8, 24, rng=rng)
        self.norm = nn.BatchNorm1d(24)
        self.drop = nn.Dropout(0.1, rng=4)
        self.out = nn.Linear(24, 3, rng=rng)

    def forward(self, x):
        return self.out(self.drop(nn.relu(self.norm(self.hidden(x)))))


x = rng.normal(4, 2, (480, 8)).astype(np.float32)
y = ((x - 4) @ W).argmax(axis=1)
net = Net()
optimizer = ns.optim.Adam(net, lr=0.01)
for step in ns.steps(range(140)):
    net.train()
    if step >= 60:  # from here on in small batches, whose statistics would be noise
        net.norm.eval()
    rows = rng.choice(480, 64 if step < 60 else 16, replace=False)
    loss = nn.cross_entropy(net(ns.tensor(x[rows], name="batch")), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
net.eval()
with ns.no_grad(), ns.name_scope("evaluation"):
    right = np.mean(net(ns.tensor(x, name="all")).numpy().argmax(axis=1) == y)
print(f"accuracy {right:.4f}")
