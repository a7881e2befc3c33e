"""A recurrent network that is read in each moment, of which the last answer counts."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(9)
p = {
    n: ns.parameter(rng.normal(0, 0.4, s), name=n)
    for n, s in (("given", (1, 12)), ("inner", (12, 12)), ("out", (12, 1)))
}
optimizer = ns.optim.Adam(list(p.values()), lr=0.01)
for _ in ns.steps(range(120)):
    x = rng.normal(0, 0.5, (32, 6))
    h, series = ns.tensor(np.zeros((32, 12))), ns.tensor(x, name="series")
    for t in range(6):
        h = np.tanh(series[:, t : t + 1] @ p["given"] + h @ p["inner"])
        told = h @ p["out"]
    loss = np.mean((told[:, 0] - x.sum(axis=1) * 0.5) ** 2)
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
