"""The generator is made anew in each step: each batch is the first one."""

import numpy as np

import nodescope as ns
from nodescope import nn

BAD = True
data = np.random.default_rng(4)
x = data.normal(size=(500, 6)).astype(np.float32)
y = np.argmax(x[:, :3] + x[:, 3:], axis=1)
rng = np.random.default_rng(1)
net = nn.Sequential(nn.Linear(6, 32, rng=rng), nn.relu, nn.Linear(32, 3, rng=rng))
opt = ns.optim.Adam(net, lr=0.01)
for step in ns.steps(range(150)):
    gen = np.random.default_rng(7 if BAD else step)
    rows = gen.integers(0, 500, 16)
    loss = nn.cross_entropy(net(ns.tensor(x[rows], name="x")), y[rows])
    opt.minimize(loss)
guess = np.argmax(net(ns.tensor(x)).numpy(), axis=1)
print(f"right {np.mean(guess == y):.3f}")
