"""The weights of the best epoch are written back at the end; the rate was too high after it."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(96)
x = rng.uniform(-2, 2, (192, 1)).astype(np.float32)
y = np.cos(2 * x).astype(np.float32)
model = nn.Sequential(nn.Linear(1, 24, rng=rng), nn.tanh, nn.Linear(24, 1, rng=rng))
optimizer = ns.optim.Adam(model, lr=0.01)


def validate():
    with ns.no_grad(), ns.name_scope("validation"):
        return nn.mse_loss(model(ns.tensor(x, name="x")), ns.tensor(y, name="y")).item()


best, lowest = {}, np.inf
for _epoch in range(16):
    for start in ns.steps(range(0, 192, 16)):
        optimizer.zero_grad()
        guess = model(ns.tensor(x[start : start + 16], name="batch"))
        loss = nn.mse_loss(guess, ns.tensor(y[start : start + 16], name="wanted"))
        loss.backward()
        optimizer.step()
    if (error := validate()) < lowest:
        best = {name: weight.numpy().copy() for name, weight in model.named_parameters()}
        lowest = error
for name, weight in model.named_parameters():
    ns.assign(weight, best[name])
print(f"error {validate():.4f}")
