"""Find a rod's heat conductivity from its final temperature, through an explicit solver."""

import numpy as np

import nodescope as ns

POINTS, DURATION = 21, 0.1
STEPS = 25
dx = 1.0 / (POINTS - 1)
grid = np.linspace(0, 1, POINTS)
start = np.sin(np.pi * grid) + 0.4 * np.sin(3 * np.pi * grid)
observed = np.exp(-0.5 * np.pi**2 * DURATION) * np.sin(np.pi * grid)
observed += 0.4 * np.exp(-0.5 * 9 * np.pi**2 * DURATION) * np.sin(3 * np.pi * grid)
noise = np.random.default_rng(1).normal(0, 1e-3, POINTS)


def simulate(conductivity, steps):
    """Forward in time, centred in space, ends held at zero."""
    dt = DURATION / steps
    u = ns.tensor(start + noise, name="u")
    inner = ns.tensor((grid > 0) & (grid < 1), name="inner")
    for _ in range(steps):
        curvature = (np.roll(u, 1) - 2 * u + np.roll(u, -1)) / dx**2
        u = np.where(inner, u + dt * conductivity * curvature, 0.0)
    return u


log_k = ns.parameter(np.log(0.8), name="log_k")
optimizer = ns.optim.Adam([log_k], lr=0.05)
for _iteration in ns.steps(range(45)):
    with ns.name_scope("solver"):
        final = simulate(np.exp(log_k), STEPS)
    loss = np.mean(np.square(final - observed))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
k = float(np.exp(log_k.numpy()))
print(f"conductivity {k:.4f}")
print(f"error {abs(k - 0.5):.4f}")
