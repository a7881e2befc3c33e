"""Logistic regression until nothing moves any more: Newton's method."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(1)
x = np.column_stack([rng.standard_normal((300, 3)), np.ones(300)])
labels = (rng.random(300) < 1 / (1 + np.exp(-(x @ [1.0, -2.0, 0.5, 0.2])))).astype(float)


def loss_of(w):
    z = ns.tensor(x) @ w
    return np.mean(np.logaddexp(0, z) - labels * z) + 0.005 * np.sum(w**2)


w = ns.parameter(np.zeros(4), name="w")
for _ in ns.steps(range(40)):
    loss, slope = ns.value_and_grad(loss_of)(w)
    curvature = ns.hessian(loss_of)(w)
    ns.assign(w, w.detach() - np.linalg.solve(curvature, slope))
print(f"loss {loss.item():.4f}")
print(f"slope {np.abs(slope.numpy()).max():.2e}")
