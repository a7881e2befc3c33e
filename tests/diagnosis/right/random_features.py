"""Random kitchen sinks: the first layer is random and stays so; only the read-out is learnt."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(1)
x = rng.uniform(-3, 3, (250, 1))
y = np.sin(2 * x[:, 0]) + 0.3 * x[:, 0] + rng.normal(0, 0.05, 250)

frequency = ns.parameter(rng.normal(0, 1.5, (1, 60)), name="frequency")
phase = ns.parameter(rng.uniform(0, 2 * np.pi, 60), name="phase")
readout = ns.parameter(np.zeros(60), name="readout")
optimizer = ns.optim.Adam([readout], lr=0.05)

inputs = ns.tensor(x, name="inputs")
for _step in ns.steps(range(200)):
    with ns.name_scope("features"):
        features = ns.stop_gradient(np.cos(inputs @ frequency + phase))
    loss = np.mean(np.square(features @ readout - y))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
