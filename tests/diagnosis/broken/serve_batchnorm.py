"""Train a classifier with batch normalisation, then answer requests two at a time."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(27)
W = rng.normal(0, 1, (6, 3))


def records(n):
    x = rng.normal(1.0, 2.0, (n, 6))
    return x.astype(np.float32), ((x - 1.0) @ W + rng.normal(0, 0.3, (n, 3))).argmax(axis=1)


class Net(nn.Module):
    def __init__(self):
        self.hidden = nn.Linear(6, 32, rng=rng)
        self.norm = nn.BatchNorm1d(32)
        self.out = nn.Linear(32, 3, rng=rng)

    def forward(self, x):
        return self.out(nn.relu(self.norm(self.hidden(x))))


x, y = records(320)
net = Net()
optimizer = ns.optim.Adam(net, lr=0.01)
net.train()
for _step in ns.steps(range(120)):
    rows = rng.choice(len(x), 64, replace=False)
    logits = net(ns.tensor(x[rows], name="batch"))
    loss = nn.cross_entropy(logits, y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")

requests, answers = records(150)
correct = 0
with ns.no_grad(), ns.name_scope("serve"):
    for start in range(0, len(requests), 2):
        scores = net(ns.tensor(requests[start : start + 2], name="requests"))
        correct += int(np.sum(scores.numpy().argmax(axis=1) == answers[start : start + 2]))
print(f"accuracy {correct / len(answers):.4f}")
