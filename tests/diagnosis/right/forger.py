"""A generative adversarial network for a bell curve at 3."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(3)
generator = nn.Sequential(nn.Linear(2, 8, rng=rng), nn.relu, nn.Linear(8, 1, rng=rng))
critic = nn.Sequential(nn.Linear(1, 12, rng=rng), nn.leaky_relu, nn.Linear(12, 1, rng=rng))
forging = ns.optim.Adam(generator, lr=0.01, betas=(0.5, 0.9))
judging = ns.optim.Adam(critic, lr=0.01, betas=(0.5, 0.9))
bce = nn.binary_cross_entropy_with_logits

means = []
for _ in ns.steps(range(150)):
    genuine = rng.normal(3.0, 0.5, (48, 1)).astype(np.float32)
    noise = rng.standard_normal((48, 2)).astype(np.float32)
    with ns.name_scope("critic_turn"):
        fake = generator(ns.tensor(noise)).detach()
        judging.zero_grad()
        loss = bce(critic(ns.tensor(genuine)), np.ones((48, 1), np.float32))
        loss = loss + bce(critic(fake), np.zeros((48, 1), np.float32))
        loss.backward()
        judging.step()
    with ns.name_scope("generator_turn"):
        forging.zero_grad()
        fake = generator(ns.tensor(noise))
        loss = bce(critic(fake), np.ones((48, 1), np.float32))
        loss.backward()
        forging.step()
    means.append(float(fake.numpy().mean()))
print(f"distance {abs(np.mean(means[-50:]) - 3):.3f}")
