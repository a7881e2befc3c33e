"""A critic with clipped weights measures how far two heaps of points are apart."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(93)
critic = nn.Sequential(nn.Linear(2, 16, rng=rng), nn.relu, nn.Linear(16, 1, rng=rng))
mover = ns.parameter(np.zeros(2, np.float32), name="mover")
judge, move = ns.optim.SGD(critic, lr=0.05), ns.optim.SGD([mover], lr=0.5)

for number in ns.steps(range(240)):
    real = rng.normal(0, 0.3, (64, 2)).astype(np.float32) + np.float32([1.0, -1.0])
    drawn = rng.normal(0, 0.3, (64, 2)).astype(np.float32)
    made = ns.tensor(drawn, name="drawn") + mover
    if number % 4:
        apart = np.mean(critic(made.detach())) - np.mean(critic(ns.tensor(real, name="real")))
        judge.minimize(apart)
        for weight in critic.parameters():
            ns.assign(weight, np.clip(weight.numpy(), -0.3, 0.3))
    else:
        move.minimize(-np.mean(critic(made)))
print(f"off {np.abs(mover.numpy() - [1.0, -1.0]).max():.3f}")
