"""Training with dropout and decay on a small set: validation stays above it."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(15)
x = rng.normal(size=(120, 20)).astype(np.float32)
y = (x[:, 0] + 0.8 * rng.normal(size=120) > 0).astype(int)


class Net(nn.Module):
    def __init__(self):
        self.a = nn.Linear(20, 64, rng=rng)
        self.drop = nn.Dropout(0.5, rng=rng)
        self.b = nn.Linear(64, 2, rng=rng)

    def forward(self, x):
        return self.b(self.drop(nn.relu(self.a(x))))


net = Net()
opt = ns.optim.AdamW(net, lr=0.003, weight_decay=0.1)
for _ in range(30):
    net.train()
    order = rng.permutation(80)
    for i in ns.steps(range(4)):
        rows = order[20 * i : 20 * i + 20]
        loss = nn.cross_entropy(net(ns.tensor(x[rows])), y[rows])
        opt.minimize(loss)
    net.eval()
    with ns.no_grad(), ns.name_scope("val"):
        v = nn.cross_entropy(net(ns.tensor(x[80:])), y[80:])
print(f"loss {loss.item():.3f} val {v.item():.3f}")
