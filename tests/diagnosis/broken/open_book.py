"""Which of four plants is it? A network with dropout, and a test with plants it has not seen."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(73)
centers = rng.normal(0, 1, (4, 10))


def plants(count):
    kinds = rng.integers(0, 4, count)
    return (centers[kinds] + rng.normal(0, 0.7, (count, 10))).astype(np.float32), kinds


model = nn.Sequential(
    nn.Linear(10, 24, rng=rng),
    nn.relu,
    nn.Dropout(0.8, rng=ns.random.Generator(1)),
    nn.Linear(24, 4, rng=rng),
)
optimizer = ns.optim.Adam(model, lr=0.01)
for _ in ns.steps(range(150)):
    leaves, kinds = plants(64)
    loss = nn.cross_entropy(model(ns.tensor(leaves, name="leaves")), ns.tensor(kinds))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

right = 0
with ns.no_grad():
    for _ in range(5):
        unseen, kinds = plants(80)
        answers = model(ns.tensor(unseen, name="unseen"))
        right += int(np.sum(answers.numpy().argmax(axis=1) == kinds))
print(f"right {right / 400:.3f}")
