"""Fraud in payments: one in forty; the classes are weighted."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(60)
fraud = (rng.random(600) < 0.025).astype(np.int64)
payments = (rng.standard_normal((600, 5)) + 2.0 * fraud[:, None] * [1, 0, -1, 1, 0]).astype(
    np.float32
)
weight = np.where(fraud == 1, 0.5 / fraud.mean(), 0.5 / (1 - fraud.mean())).astype(np.float32)

model = nn.Sequential(nn.Linear(5, 8, rng=rng), nn.elu, nn.Linear(8, 2, rng=rng))
optimizer = ns.optim.Adam(model, lr=0.02)
for _ in ns.steps(range(100)):
    rows = rng.integers(0, 600, 100)
    log_p = nn.log_softmax(model(ns.tensor(payments[rows], name="payments")))
    chosen = np.take_along_axis(log_p, fraud[rows][:, None], axis=1)[:, 0]
    loss = -np.mean(weight[rows] * chosen)
    optimizer.minimize(loss)
with ns.no_grad(), ns.name_scope("validation"):
    answer = np.argmax(model(ns.tensor(payments)).numpy(), axis=1)
print(f"recall {np.mean(answer[fraud == 1]):.2f}, false {np.mean(answer[fraud == 0]):.3f}")
