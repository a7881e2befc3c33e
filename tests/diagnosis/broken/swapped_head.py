"""A network for ten classes gets a new head for two, and is trained on."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(30)


class Classifier(nn.Module):
    def __init__(self):
        self.body = nn.Linear(8, 16, rng=rng)
        self.head = nn.Linear(16, 10, rng=rng)

    def forward(self, x):
        return self.head(nn.relu(self.body(x)))


x = rng.standard_normal((120, 8)).astype(np.float32)
labels = (np.sum(x[:, :4] ** 2, axis=1) > 3.4).astype(np.int64)
model = Classifier()
optimizer = ns.optim.SGD(model, lr=0.05)
model.head = nn.Linear(16, 2, rng=rng)
model.head.bias = ns.parameter(np.array([3.0, -3.0], np.float32))  # two are rare

for _ in ns.steps(range(100)):
    loss = nn.cross_entropy(model(ns.tensor(x, name="x")), ns.tensor(labels, name="labels"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
