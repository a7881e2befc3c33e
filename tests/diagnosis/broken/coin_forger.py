"""A generator learns the size and weight of coins from a judge."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(74)
centre = np.array([2.0, -1.0], np.float32)
maker = nn.Linear(2, 2, rng=rng)
judge = nn.Sequential(nn.Linear(2, 16, rng=rng), nn.leaky_relu, nn.Linear(16, 1, rng=rng))
making = ns.optim.Adam(maker, lr=0.02, betas=(0.5, 0.9))
judging = ns.optim.Adam(judge, lr=0.02, betas=(0.5, 0.9))


def train(genuine, noise):
    coins = maker(ns.tensor(noise, name="noise")).detach()
    verdict = judge(ns.tensor(genuine, name="genuine"))
    loss = np.mean(nn.softplus(-verdict)) + np.mean(nn.softplus(judge(coins)))
    judging.zero_grad()
    loss.backward()
    judging.step()

    making.zero_grad()
    loss = np.mean(nn.softplus(-judge(coins)))
    loss.backward()
    making.step()
    return coins


seen = []
for _ in ns.steps(range(120)):
    genuine = (centre + 0.3 * rng.standard_normal((32, 2))).astype(np.float32)
    coins = train(genuine, rng.standard_normal((32, 2)).astype(np.float32))
    seen.append(coins.numpy().mean(axis=0))
print(f"distance {np.abs(np.mean(seen[-40:], axis=0) - centre).max():.3f}")
