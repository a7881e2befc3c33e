"""Extragradient on a bilinear game: one side's loss goes up while the other's goes down."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(3)
A = rng.normal(0, 1, (4, 4)) + 2 * np.eye(4)
b = rng.normal(0, 1, 4)


def payoff(x, y):
    with ns.name_scope("payoff"):
        return x @ ns.tensor(A) @ y + np.sum(b * (x - y)) + 0.05 * (np.sum(x**2) - np.sum(y**2))


slopes = ns.grad(payoff, argnums=(0, 1))
x, y = ns.tensor(np.ones(4), name="x"), ns.tensor(-np.ones(4), name="y")
rate = 0.15
for _step in ns.steps(range(300)):
    gx, gy = slopes(x, y)
    half_x, half_y = x - rate * gx, y + rate * gy
    gx, gy = slopes(half_x, half_y)
    x, y = x - rate * gx, y + rate * gy

gx, gy = slopes(x, y)
distance = float(np.linalg.norm(gx.numpy()) + np.linalg.norm(gy.numpy()))
print(f"payoff {payoff(x, y).item():.4f}")
print(f"residual {distance:.5f}")
