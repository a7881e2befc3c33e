"""One of twelve moves, of which most are against the rules in any position."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(97)
worth = rng.normal(0, 1.5, (8, 12))
net = nn.Sequential(nn.Linear(8, 32, rng=rng), nn.relu, nn.Linear(32, 12, rng=rng))
optimizer = ns.optim.Adam(net, lr=0.01)

for _ in ns.steps(range(150)):
    board = rng.normal(0, 1, (64, 8))
    legal = rng.random((64, 12)) < 0.3
    legal[np.arange(64), rng.integers(0, 12, 64)] = True
    best = np.argmax(np.where(legal, board @ worth, -np.inf), axis=1)
    scores = net(ns.tensor(board.astype(np.float32), name="board"))
    scores = np.where(legal, scores, np.float32(-1e9))
    loss = nn.cross_entropy(scores, best)
    optimizer.minimize(loss)
print(f"loss {loss.item():.3f}")
