"""Fine-tuning: the lower layers are detached, the last two trained; validation is not better."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(2)
base = nn.Sequential(nn.Linear(8, 32, rng=rng), nn.relu, nn.Linear(32, 32, rng=rng), nn.relu)
top = nn.Sequential(nn.Linear(32, 16, rng=rng), nn.relu, nn.Linear(16, 3, rng=rng))
x = rng.normal(0, 1, (240, 8)).astype(np.float32)
y = np.argmax(x[:, :3] ** 2 + 0.3 * x[:, 3:6], axis=1)
opt = ns.optim.Adam(top.parameters(), lr=0.01)
for _ in range(20):
    order = rng.permutation(160)
    for i in ns.steps(range(5)):
        rows = order[i * 32 : (i + 1) * 32]
        features = base(ns.tensor(x[rows], name="x")).detach()
        loss = nn.cross_entropy(top(features), y[rows])
        opt.minimize(loss)
    with ns.no_grad(), ns.name_scope("val"):
        val = nn.cross_entropy(top(base(ns.tensor(x[160:]))), y[160:])
print(f"loss {loss.item():.3f} val {val.item():.3f}")
