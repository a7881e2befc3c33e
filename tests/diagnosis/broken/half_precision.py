"""What each kind of goods costs, from bills, in half precision to save memory."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(9)
x = rng.uniform(-1, 1, (64, 4)).astype(np.float16)
true = 130 + np.array([-1.0, 1.2, -0.7, 0.9])
y = (x @ true).astype(np.float32)

w = ns.parameter(np.full(4, 130, np.float16), name="w")
for _ in ns.steps(range(100)):
    w.grad = None
    error = ns.tensor(x, name="x") @ w - y
    loss = np.mean(error * error)
    loss.backward()
    with ns.no_grad():
        ns.assign(w, w - 0.06 * w.grad)
print("w", w.numpy())
print(f"loss {float(loss):.4f}")
