"""Kernel regression of a yearly cycle: weights of the kernel by gradient descent."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(136)
day = np.sort(rng.uniform(0, 365, 60))
warmth = 10 * np.sin(2 * np.pi * day / 365) + rng.normal(0, 0.5, 60)
new_day = np.linspace(5, 360, 40)
WIDTH = 0.02
alpha = ns.parameter(np.zeros(60), name="alpha")


def kernel(a, b):
    gap = (a[:, None] - b[None, :]) / WIDTH
    return np.exp(-0.5 * gap**2)


here = ns.tensor(day, name="day")
optimizer = ns.optim.Adam([alpha], lr=0.3)
for _ in ns.steps(range(150)):
    with ns.name_scope("kernel"):
        guess = kernel(here, here) @ alpha
    loss = np.mean((guess - warmth) ** 2) + 1e-4 * np.sum(alpha**2)
    optimizer.minimize(loss)
with ns.no_grad(), ns.name_scope("new"):
    told = kernel(ns.tensor(new_day), here) @ alpha
error = np.mean((told.numpy() - 10 * np.sin(2 * np.pi * new_day / 365)) ** 2)
print(f"error {error:.4f}")
