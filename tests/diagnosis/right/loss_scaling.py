"""Mixed precision as it is meant: float16 where it is fast, float32 weights, a scaled loss."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(8)
x = rng.standard_normal((96, 6)).astype(np.float16)
y = np.tanh(x.astype(np.float32) @ rng.normal(0, 0.7, (6, 2)).astype(np.float32))

w1 = ns.parameter(rng.normal(0, 0.4, (6, 16)).astype(np.float32), name="w1")
w2 = ns.parameter(rng.normal(0, 0.3, (16, 2)).astype(np.float32), name="w2")
optimizer = ns.optim.SGD([w1, w2], lr=0.1, momentum=0.9)
scale, clean = 2.0**18, 0
for _ in ns.steps(range(100)):
    optimizer.zero_grad()
    hidden = np.tanh(ns.tensor(x) @ w1.astype(np.float16))
    out = hidden @ w2.astype(np.float16)
    error = out.astype(np.float32) - y
    loss = np.mean(error * error)
    with np.errstate(over="ignore", invalid="ignore"):
        (loss * np.float32(scale)).backward()
    if not all(np.isfinite(w.grad.numpy()).all() for w in (w1, w2)):
        scale, clean = scale / 2, 0  # this step is left out
        continue
    for w in (w1, w2):
        w.grad = w.grad / np.float32(scale)
    optimizer.step()
    clean += 1
print(f"loss {loss.item():.4f}")
