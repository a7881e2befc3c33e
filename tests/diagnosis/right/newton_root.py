"""Newton's method for matrix square roots: after a few steps nothing changes any more."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(14)
m = rng.normal(0, 1, (6, 6))
a = ns.tensor(m @ m.T + np.eye(6), name="a")
y, z = a / np.linalg.norm(a), ns.tensor(np.eye(6), name="z")
scale = float(np.linalg.norm(a.numpy()))
for _step in ns.steps(range(40)):
    t = 0.5 * (3 * np.eye(6) - z @ y)
    y, z = y @ t, t @ z
    residual = np.max(np.abs(y @ y * scale - a))
root = y.numpy() * np.sqrt(scale)
print(f"residual {np.abs(root @ root - a.numpy()).max():.8f}")
