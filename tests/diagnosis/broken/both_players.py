"""A generator learns a normal distribution from a critic of its samples."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(81)
generator = nn.Sequential(nn.Linear(2, 16, rng=rng), nn.relu, nn.Linear(16, 1, rng=rng))
critic = nn.Sequential(nn.Linear(1, 16, rng=rng), nn.leaky_relu, nn.Linear(16, 1, rng=rng))
opt_g = ns.optim.Adam(generator.parameters(), lr=0.005)
opt_d = ns.optim.Adam([*generator.parameters(), *critic.parameters()], lr=0.005)

for _step in ns.steps(range(300)):
    noise = rng.normal(0, 1, (64, 2)).astype(np.float32)
    real = rng.normal(3, 0.5, (64, 1)).astype(np.float32)

    opt_d.zero_grad()
    fake = generator(ns.tensor(noise, name="noise"))
    with ns.name_scope("judge"):
        on_real = critic(ns.tensor(real, name="real"))
        on_fake = critic(fake)
        loss_d = nn.binary_cross_entropy_with_logits(on_real, ns.ones_like(on_real))
        loss_d = loss_d + nn.binary_cross_entropy_with_logits(on_fake, ns.zeros_like(on_fake))
    loss_d.backward()
    opt_d.step()

    opt_g.zero_grad()
    fake = generator(ns.tensor(noise, name="noise"))
    with ns.name_scope("forge"):
        verdict = critic(fake)
        loss_g = nn.binary_cross_entropy_with_logits(verdict, ns.ones_like(verdict))
    loss_g.backward()
    opt_g.step()

with ns.no_grad():
    made = generator(ns.tensor(rng.normal(0, 1, (500, 2)).astype(np.float32))).numpy()
print(f"judge {loss_d.item():.3f} forger {loss_g.item():.3f} away {abs(made.mean() - 3):.3f}")
