"""The last stretch is trained without dropout, and validated after each epoch."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(94)
x = rng.normal(0, 1, (320, 5)).astype(np.float32)
y = (np.sin(x[:, 0]) + 0.5 * x[:, 1]).astype(np.float32)[:, None]


class Net(nn.Module):
    def __init__(self):
        self.a = nn.Linear(5, 48, rng=rng)
        self.drop = nn.Dropout(0.2, rng=6)
        self.b = nn.Linear(48, 1, rng=rng)

    def forward(self, x):
        return self.b(self.drop(nn.tanh(self.a(x))))


net = Net()
optimizer = ns.optim.Adam(net, lr=0.01)
for epoch in range(12):
    net.train()
    if epoch >= 5:
        net.drop.p = 0.0
    for start in ns.steps(range(0, 256, 32)):
        batch = ns.tensor(x[start : start + 32], name="batch")
        loss = nn.mse_loss(net(batch), ns.tensor(y[start : start + 32], name="wanted"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with ns.no_grad(), ns.name_scope("validation"):
        error = nn.mse_loss(net(ns.tensor(x[256:], name="rest")), ns.tensor(y[256:])).item()
print(f"error {error:.4f}")
