"""Wine by twelve measures: AdamW with weight decay against overfitting."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(35)
wine = rng.standard_normal((178, 12)).astype(np.float32)
sort = np.argmax(wine[:, :3] * 1.5 + 0.3 * rng.standard_normal((178, 3)), axis=1)

model = nn.Sequential(nn.Linear(12, 20, rng=rng), nn.gelu, nn.Linear(20, 3, rng=rng))
optimizer = ns.optim.AdamW(model, lr=0.02, weight_decay=20.0)
for _ in ns.steps(range(120)):
    rows = rng.choice(178, 48, replace=False)
    loss = nn.cross_entropy(model(ns.tensor(wine[rows], name="wine")), sort[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
