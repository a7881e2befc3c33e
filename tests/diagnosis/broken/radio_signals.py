"""Classify noisy signals; validation after each epoch."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(5)


def signals(n):
    label = rng.integers(0, 3, n)
    t = np.linspace(0, 1, 16)
    x = np.sin(2 * np.pi * (label[:, None] + 1) * t + rng.uniform(0, 1, (n, 1)))
    return (200 + 80 * (x + rng.normal(0, 0.3, x.shape))).astype(np.float32), label


class Classifier(nn.Module):
    def __init__(self):
        self.norm_in = nn.BatchNorm1d(16)
        self.fc1 = nn.Linear(16, 32, rng=rng)
        self.norm = nn.BatchNorm1d(32)
        self.drop = nn.Dropout(0.2, rng=3)
        self.fc2 = nn.Linear(32, 3, rng=rng)

    def forward(self, x):
        x = nn.relu(self.norm(self.fc1(self.norm_in(x))))
        return self.fc2(self.drop(x))


def loader(x, y, size):
    order = rng.permutation(len(x))
    for at in range(0, len(x), size):
        yield x[order[at : at + size]], y[order[at : at + size]]


def validate(model, x, y):
    model.eval()
    with ns.no_grad(), ns.name_scope("validate"):
        scores = model(ns.tensor(x, name="x_valid")).numpy()
    return float(np.mean(scores.argmax(axis=1) == y))


x_train, y_train = signals(256)
x_valid, y_valid = signals(128)
model = Classifier()
optimizer = ns.optim.SGD(model, lr=0.02)
print(f"before {validate(model, x_valid, y_valid):.3f}")
for epoch in range(8):
    for x, y in ns.steps(loader(x_train, y_train, 32)):
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(ns.tensor(x, name="x")), ns.tensor(y, name="y"))
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f} accuracy {validate(model, x_valid, y_valid):.3f}")
