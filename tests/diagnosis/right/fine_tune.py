"""A trained body with a new head: only the head is given to the optimizer."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(5)


class Body(nn.Module):
    def __init__(self):
        self.one = nn.Linear(5, 24, rng=rng)
        self.two = nn.Linear(24, 24, rng=rng)

    def forward(self, x):
        return np.tanh(self.two(np.tanh(self.one(x))))


body = Body()  # as it was loaded from elsewhere
body.eval()
head = nn.Linear(24, 3, rng=rng)
optimizer = ns.optim.AdamW(head.parameters(), lr=0.02, weight_decay=1e-4)
x = rng.standard_normal((180, 5)).astype(np.float32)
labels = np.argmax(x[:, :3] + 0.2 * x[:, 2:5], axis=1)
for _ in ns.steps(range(100)):
    rows = rng.integers(0, 150, 32)
    with ns.no_grad(), ns.name_scope("body"):
        features = body(ns.tensor(x[rows]))
    with ns.name_scope("head"):
        loss = nn.cross_entropy(head(features), labels[rows])
    optimizer.minimize(loss)
with ns.no_grad():
    guess = np.argmax(head(body(ns.tensor(x[150:]))).numpy(), axis=1)
print(f"accuracy {np.mean(guess == labels[150:]):.2f}")
