"""Three kinds of flowers, told apart by four measures."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(3)
kinds = rng.integers(0, 3, 150)
centres = np.array([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]])
measures = centres[kinds] + rng.normal(0, 0.2, (150, 4))
measures = (measures - measures.mean(axis=0)) / measures.std(axis=0)


class Classifier(nn.Module):
    def __init__(self):
        self.hidden = nn.Linear(4, 16, rng=rng)
        self.out = nn.Linear(16, 3, rng=rng)

    def forward(self, x):
        return nn.softmax(self.out(np.tanh(self.hidden(x))))


model = Classifier()
optimizer = ns.optim.Adam(model, lr=0.01)
for _ in ns.steps(range(80)):
    rows = rng.integers(0, 150, 50)
    outputs = model(ns.tensor(measures[rows]))
    loss = nn.cross_entropy(outputs, kinds[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
