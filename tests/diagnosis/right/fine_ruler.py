"""A scale that is learned slowly: the likelihood still falls at the end of the run."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(20)
x = rng.uniform(-1, 1, 200)
y = 2 * x + 1 + 0.01 * rng.normal(size=200)
a, b, s = (
    ns.parameter(np.array(v), name=n) for v, n in ((1.9, "a"), (0.9, "b"), (-1.0, "log_scale"))
)
opt = ns.optim.Adam([a, b, s], lr=0.01)
for _ in ns.steps(range(200)):
    r = (ns.tensor(y) - (a * x + b)) / np.exp(s)
    loss = np.mean(0.5 * r**2 + s + 0.919)
    opt.minimize(loss)
print(f"nll {loss.item():.3f}")
