"""A deep ReLU classifier whose weights are drawn without a scale."""

import numpy as np

import nodescope as ns

BAD = True
rng = np.random.default_rng(0)
x = rng.normal(size=(300, 24)).astype(np.float32)
y = np.argmax(x[:, :4], axis=1)
sizes = [24, 48, 48, 4]
scales = [1 if BAD else np.sqrt(2 / size) for size in sizes]
ws = [
    ns.parameter((scales[i] * rng.normal(size=sizes[i : i + 2])).astype(np.float32), name=f"w{i}")
    for i in range(3)
]
opt = ns.optim.Adam(ws, lr=0.003)
for _ in ns.steps(range(120)):
    rows = rng.integers(0, 300, 64)
    h = ns.tensor(x[rows], name="x")
    for w in ws[:-1]:
        h = ns.relu(h @ w)
    loss = ns.cross_entropy(h @ ws[-1], y[rows])
    opt.minimize(loss)
print(f"loss {loss.item():.4f}")
