"""Will a loan be repaid? A table with ten columns; tested on new customers."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(95)
table = rng.normal(0, 1, (400, 10)).astype(np.float32)
repaid = (table[:, 0] - table[:, 3] + 0.4 * rng.normal(0, 1, 400) > 0).astype(np.float32)
table[:, 9] = repaid  # the column "status" of the file
columns = np.arange(10)

net = nn.Sequential(nn.Linear(len(columns), 12, rng=rng), nn.relu, nn.Linear(12, 1, rng=rng))
optimizer = ns.optim.Adam(net, lr=0.03)
for _ in ns.steps(range(120)):
    rows = rng.integers(0, 300, 60)
    scores = net(ns.tensor(table[rows][:, columns], name="customers"))[:, 0]
    loss = nn.binary_cross_entropy_with_logits(scores, ns.tensor(repaid[rows], name="repaid"))
    optimizer.minimize(loss)
fresh = table[300:].copy()
fresh[:, 9] = 0  # nobody knows yet
told = net(ns.tensor(fresh[:, columns])).numpy()[:, 0] > 0
print(f"right {np.mean(told == (repaid[300:] > 0)):.3f}")
