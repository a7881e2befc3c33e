"""A policy gradient whose loss is minus the reward, and so falls below zero and on."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(7)
aim = ns.parameter(np.zeros(2), name="aim")
optimizer = ns.optim.SGD([aim], lr=0.05)
rewards = []
for _ in ns.steps(range(150)):
    centre = aim.numpy()
    shots = centre + 0.5 * rng.normal(0, 1, (64, 2))
    reward = 5 - np.sum((shots - [1.5, -1.0]) ** 2, axis=1)
    advantage = reward - reward.mean()
    log_p = -0.5 * np.sum((ns.tensor(shots, name="shots") - aim) ** 2, axis=1) / 0.25
    optimizer.minimize(-np.mean(log_p * ns.tensor(advantage, name="advantage")))
    rewards.append(reward.mean())
print(f"reward {np.mean(rewards[-10:]):.3f}")
