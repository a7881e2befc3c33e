"""A small diffusion model: predict the noise that was added to points on a ring."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(1)
T = 50
betas = np.linspace(1e-4, 0.2, T)
kept = np.cumprod(1 - betas)


class Denoiser(nn.Module):
    def __init__(self):
        self.time = nn.Embedding(T, 64, rng=rng)
        self.first = nn.Linear(2, 64, rng=rng)
        self.second = nn.Linear(64, 64, rng=rng)
        self.last = nn.Linear(64, 2, rng=rng)

    def forward(self, x, t):
        h = nn.silu(self.first(x))
        h = h + self.time(t)
        return self.last(nn.silu(self.second(h)))


model = Denoiser()
optimizer = ns.optim.Adam(model, lr=2e-3)
losses = []
for _ in ns.steps(range(140)):
    angle = rng.uniform(0, 2 * np.pi, 128)
    x0 = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    t = rng.integers(0, T, 128)
    noise = rng.standard_normal(x0.shape)
    a = kept[t][:, None]
    noisy = np.sqrt(a) * x0 + np.sqrt(1 - a) * noise
    guess = model(ns.tensor(noisy.astype(np.float32)), ns.tensor(t))
    loss = nn.mse(guess, ns.tensor(noise.astype(np.float32)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"loss {np.mean(losses[-40:]):.3f}")
