"""Ridge regression in half precision, to save memory."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(9)
x = rng.uniform(-1, 1, (64, 4)).astype(np.float16)
true = np.array([1.5, 2.2, 0.9, 1.1], np.float16)
y = x @ true

w = ns.parameter(np.full(4, 1.4, np.float16), name="w")
for _ in ns.steps(range(100)):
    w.grad = None
    error = ns.tensor(x, name="x") @ w - y
    loss = np.mean(error * error)
    loss.backward()
    with ns.no_grad():
        ns.assign(w, w - np.float16(1e-3) * w.grad)
print("w", w.numpy())
print(f"loss {float(loss):.4f}")
