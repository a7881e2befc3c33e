"""bfloat16 weights with float32 masters: each step the masters are rounded, on purpose."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(18)
x = rng.normal(size=(128, 6)).astype(np.float32)
y = (x @ rng.normal(size=(6, 1))).astype(np.float32)
master = ns.variable(rng.normal(0, 0.3, (6, 1)).astype(np.float32), name="master")
w = ns.parameter(master.numpy().astype(np.float16), name="w")
for _ in ns.steps(range(200)):
    loss = np.mean((ns.tensor(x) @ ns.astype(w, ns.float32) - ns.tensor(y)) ** 2)
    loss.backward()
    with ns.no_grad():
        ns.assign(master, master - 0.01 * ns.astype(w.grad, ns.float32))
        ns.assign(w, ns.astype(master, ns.float16))
    w.grad = None
print(f"loss {loss.item():.5f}")
