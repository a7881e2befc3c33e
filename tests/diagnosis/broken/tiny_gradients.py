"""A pixel model in float16: squared errors of small numbers, averaged over many."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(76)
shine = rng.uniform(0, 1, (512, 6)).astype(np.float16)
colour = (shine.astype(np.float32) @ np.linspace(-1, 1, 6) * 0.01).astype(np.float16)

w = ns.parameter(np.zeros(6, np.float32), name="w")
SCALE = 1.0
for _ in ns.steps(range(100)):
    w.grad = None
    guess = ns.tensor(shine, name="shine") @ w.astype(np.float16)
    error = guess - ns.tensor(colour, name="colour")
    loss = np.mean((error * np.float16(0.01)) ** 2)
    (loss * np.float16(SCALE)).backward()
    with ns.no_grad():
        ns.assign(w, w - 1000.0 * w.grad / SCALE)
print(f"error {np.abs(error.numpy()).max():.5f}")
