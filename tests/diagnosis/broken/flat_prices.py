"""Prices are scaled for training; the report is in euros."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(40)
flats = rng.uniform(0, 1, (300, 4)).astype(np.float32)
price = 180_000 + 250_000 * flats @ np.array([0.5, 0.3, 0.1, 0.1]) + rng.normal(0, 4000, 300)
mean, std = price[:220].mean(), price[:220].std()
train_x, train_y = flats[:220], ((price[:220] - mean) / std).astype(np.float32)
test_x, test_y = flats[220:], price[220:].astype(np.float32)

model = nn.Sequential(nn.Linear(4, 16, rng=rng), nn.relu, nn.Linear(16, 1, rng=rng))
opt = ns.optim.Adam(model, lr=0.01)
for _epoch in range(12):
    order = rng.permutation(220)
    for at in ns.steps(range(0, 220, 20)):
        rows = order[at : at + 20]
        loss = nn.mse_loss(
            model(ns.tensor(train_x[rows], name="flats"))[:, 0],
            ns.tensor(train_y[rows], name="price"),
        )
        opt.zero_grad()
        loss.backward()
        opt.step()
print(f"loss {loss.item():.4f}")

model.eval()
with ns.no_grad(), ns.name_scope("report"):
    guess = model(ns.tensor(test_x, name="flats"))[:, 0]
    wanted = ns.tensor(test_y, name="price")
    error = nn.l1_loss(guess, wanted)
print(f"off by {error.item():.1f}")
