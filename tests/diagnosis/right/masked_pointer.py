"""Pick the largest valid number of a padded list: padding gets -inf before the softmax."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(4)
SLOTS = 8


def lists(n):
    values = rng.uniform(-1, 1, (n, SLOTS)).astype(np.float32)
    lengths = rng.integers(2, SLOTS + 1, n)
    valid = np.arange(SLOTS) < lengths[:, None]
    values[~valid] = 0.0
    return values, valid, np.where(valid, values, -9).argmax(axis=1)


class Pointer(nn.Module):
    def __init__(self):
        self.hidden = nn.Linear(1, 16, rng=rng)
        self.score = nn.Linear(16, 1, rng=rng)

    def forward(self, values, valid):
        scores = self.score(nn.tanh(self.hidden(values[:, :, None])))[:, :, 0]
        scores = np.where(valid, scores, -np.inf)
        return nn.softmax(scores, axis=1)


net = Pointer()
optimizer = ns.optim.Adam(net, lr=0.03)
for _step in ns.steps(range(150)):
    values, valid, answer = lists(64)
    chance = net(ns.tensor(values, name="values"), valid)
    loss = -np.mean(np.log(chance[np.arange(64), answer] + 1e-12))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
values, valid, answer = lists(400)
with ns.no_grad():
    guess = net(ns.tensor(values), valid).numpy().argmax(axis=1)
print(f"accuracy {np.mean(guess == answer):.4f}")
