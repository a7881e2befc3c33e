"""PINN: a network that solves u'' = -u with u(0)=1, u'(0)=0 on [0, 2]; no data."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(4)
net = nn.Sequential(
    nn.Linear(1, 24, rng=rng),
    np.tanh,
    nn.Linear(24, 24, rng=rng),
    np.tanh,
    nn.Linear(24, 1, rng=rng),
)
optimizer = ns.optim.Adam(net, lr=5e-3)


def u(t):
    return net(t)


def du(t):
    return ns.grad(lambda s: np.sum(u(s)))(t)


def ddu(t):
    return ns.grad(lambda s: np.sum(du(s)))(t)


for _ in ns.steps(range(200)):
    t = ns.tensor(rng.uniform(0, 2, (32, 1)))
    zero = ns.tensor(np.zeros((1, 1)))
    residual = ddu(t) + u(t)
    loss = np.mean(residual**2) + 10 * np.mean((u(zero) - 1) ** 2) + np.mean(du(zero) ** 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
end = net(ns.tensor(np.array([[2.0]]))).item()
print(f"off by {abs(end - np.cos(2)):.3f}")
