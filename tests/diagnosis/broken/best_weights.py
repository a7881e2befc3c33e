"""Fit a curve in noisy steps; the best weights are kept and restored at the end."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(51)
x = rng.uniform(-2, 2, (160, 1)).astype(np.float32)
y = np.sin(2 * x).astype(np.float32)
x_valid = np.linspace(-2, 2, 50, dtype=np.float32)[:, None]
y_valid = np.sin(2 * x_valid)
model = nn.Sequential(nn.Linear(1, 24, rng=rng), nn.tanh, nn.Linear(24, 1, rng=rng))
opt = ns.optim.Adam(model, lr=0.01)


def validate():
    with ns.no_grad(), ns.name_scope("valid"):
        return nn.mse_loss(model(ns.tensor(x_valid, name="x")), ns.tensor(y_valid)).item()


best, lowest = None, np.inf
for epoch in range(24):
    if epoch == 20:
        opt.lr = 3.0  # a last stretch with a high rate, to look for another valley
    for start in ns.steps(range(0, 160, 16)):
        opt.zero_grad()
        loss = nn.mse_loss(
            model(ns.tensor(x[start : start + 16], name="x")),
            ns.tensor(y[start : start + 16], name="y"),
        )
        loss.backward()
        opt.step()
    error = validate()
    if error < lowest:
        best, lowest = dict(model.named_parameters()), error

for name, parameter in model.named_parameters():
    ns.assign(parameter, best[name])
print(f"lowest {lowest:.4f} restored {validate():.4f}")
