"""Self-training: a student on noisy inputs, a teacher that is its moving average."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(128)
x = rng.normal(0, 1, (200, 4)).astype(np.float32)
y = (x[:, 0] * x[:, 1] > 0).astype(int)


def build():
    return nn.Sequential(nn.Linear(4, 24, rng=rng), np.tanh, nn.Linear(24, 2, rng=rng))


student, teacher = build(), build()
teacher.load_state_dict(student.state_dict())
optimizer = ns.optim.Adam(student, lr=0.01)
for _ in ns.steps(range(200)):
    rows = rng.integers(0, 200, 50)
    noisy = x[rows] + 0.1 * rng.normal(0, 1, (50, 4)).astype(np.float32)
    scores = student(ns.tensor(noisy, name="noisy"))
    with ns.no_grad():
        wanted = nn.softmax(teacher(ns.tensor(x[rows])), axis=1)
    agree = np.mean((nn.softmax(scores, axis=1) - wanted) ** 2)
    loss = nn.cross_entropy(scores, y[rows]) + 0.1 * agree
    optimizer.minimize(loss)
    with ns.no_grad(), ns.name_scope("average"):
        for s, t in zip(student.parameters(), teacher.parameters(), strict=True):
            ns.assign(s, 0.99 * t + 0.01 * s)
print(f"loss {loss.item():.4f}")
