"""Which of forty sensors matter: a linear model whose weights should be few (lasso)."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(4)
sensors = rng.standard_normal((60, 40))
truth = np.zeros(40)
truth[[3, 17, 28]] = [2.0, -1.5, 1.0]
signal = sensors @ truth + rng.normal(0, 0.3, 60)

weights = ns.parameter(np.zeros(40), name="weights")
rate, strength = 0.05, 0.2
for _ in ns.steps(range(150)):
    weights.grad = None
    with ns.name_scope("fit"):
        residual = ns.tensor(sensors, name="sensors") @ weights - signal
        fit = np.mean(residual**2)
    with ns.name_scope("penalty"):
        penalty = strength * np.sum(np.abs(weights))
    with ns.name_scope("loss"):
        loss = 0.5 * fit
    loss.backward()
    with ns.no_grad():
        ns.assign(weights, weights - rate * weights.grad)

print(f"fit {fit.item():.3f}")
print(f"unused sensors' weight {np.abs(weights.numpy()[truth == 0]).sum():.3f}")
