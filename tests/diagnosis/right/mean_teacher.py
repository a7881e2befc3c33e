"""Mean teacher: few labels, many unlabelled points; the teacher is an average of the student."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(5)


def moons(n):
    y = rng.integers(0, 2, n)
    a = rng.uniform(0, np.pi, n)
    x = np.stack([np.cos(a), np.sin(a)], 1) * np.where(y, 1, -1)[:, None] + np.where(y, 0, 1)[
        :, None
    ] * [[1, 0.5]]
    return (x + 0.1 * rng.standard_normal((n, 2))).astype(np.float32), y


def build():
    return nn.Sequential(nn.Linear(2, 32, rng=rng), nn.relu, nn.Linear(32, 2, rng=rng))


student, teacher = build(), build()
for p, q in zip(teacher.parameters(), student.parameters(), strict=True):
    ns.assign(p, q)
few_x, few_y = moons(20)
optimizer = ns.optim.Adam(student, lr=1e-2)
for step in ns.steps(range(150)):
    x, _ = moons(64)
    supervised = nn.cross_entropy(student(ns.tensor(few_x)), ns.tensor(few_y))
    with ns.no_grad():
        goal = nn.softmax(
            teacher(ns.tensor(x + 0.05 * rng.standard_normal(x.shape).astype(np.float32)))
        )
    agree = np.mean((nn.softmax(student(ns.tensor(x))) - goal) ** 2)
    loss = supervised + min(1.0, step / 100) * agree
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with ns.no_grad():
        for p, q in zip(teacher.parameters(), student.parameters(), strict=True):
            ns.assign(p, 0.95 * p + 0.05 * q)
x, y = moons(400)
right = (teacher(ns.tensor(x)).numpy().argmax(1) == y).mean()
print(f"right {right:.3f}")
