"""Heavy-tailed targets: every gradient is clipped to length 1, from the first step to the last."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(49)
x = rng.standard_normal((200, 4)).astype(np.float32)
y = (x @ [30.0, -20.0, 10.0, 5.0] + rng.standard_t(2, 200)).astype(np.float32)
model = nn.Linear(4, 1, rng=rng)
optimizer = ns.optim.SGD(model, lr=0.5)
for _ in ns.steps(range(110)):
    rows = rng.integers(0, 200, 40)
    loss = nn.huber_loss(model(ns.tensor(x[rows], name="x"))[:, 0], y[rows])
    optimizer.zero_grad()
    loss.backward()
    ns.optim.clip_grad_norm(model, 1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
