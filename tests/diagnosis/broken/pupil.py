"""A pupil learns from its teacher's scores on data without labels."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(26)
x = rng.normal(0, 1, (256, 6)).astype(np.float32)


def network():
    return nn.Sequential(nn.Linear(6, 16, rng=rng), np.tanh, nn.Linear(16, 3, rng=rng))


teacher, fresh = network(), network()
pupil = teacher
optimizer = ns.optim.Adam(pupil, lr=0.02)
for _ in ns.steps(range(100)):
    batch = ns.tensor(x[rng.integers(0, 256, 64)], name="batch")
    with ns.no_grad():
        wanted = teacher(batch)
    loss = nn.mse(pupil(batch), wanted)
    optimizer.minimize(loss)
change = 0.0 if pupil is teacher else 1.0
print(f"learnt {change:.1f}")
