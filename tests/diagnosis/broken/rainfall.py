"""Temperature anomalies from station data: a two-layer regression, functional style."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(5)
stations = rng.normal(0, 1, (200, 5))
anomaly = stations @ rng.normal(0, 1, 5) * 0.8 + 0.1 * rng.normal(0, 1, 200)

w1 = ns.parameter(rng.normal(0, 0.5, (5, 16)), name="w1")
b1 = ns.parameter(np.zeros(16), name="b1")
w2 = ns.parameter(rng.normal(0, 0.5, (16, 1)), name="w2")
b2 = ns.parameter(np.ones(1), name="b2")


def predict(x):
    hidden = ns.relu(x @ w1 + b1)
    return ns.relu(hidden @ w2 + b2)[:, 0]


optimizer = ns.optim.Adam([w1, b1, w2, b2], lr=0.01)
for _ in ns.steps(range(150)):
    loss = np.mean((predict(ns.tensor(stations, name="stations")) - anomaly) ** 2)
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
