"""Find the right answer to a question among twelve: cosines over a small temperature."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(16)
answers = rng.standard_normal((12, 6)).astype(np.float32)
turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
right = rng.integers(0, 12, 200)
questions = (answers[right] @ turn + rng.normal(0, 0.4, (200, 6))).astype(np.float32)
TEMPERATURE = np.float32(0.01)

project = nn.Linear(6, 6, rng=rng, bias=False)
optimizer = ns.optim.Adam(project, lr=0.03)


def unit(v):
    return v / np.sqrt(np.sum(v * v, axis=1, keepdims=True))


np.seterr(divide="ignore", invalid="ignore")
for _ in ns.steps(range(80)):
    rows = rng.choice(200, 50, replace=False)
    cosine = unit(project(ns.tensor(questions[rows]))) @ unit(ns.tensor(answers)).T
    with ns.name_scope("softmax"):
        scores = cosine / TEMPERATURE
        powers = np.exp(scores - np.max(scores, axis=1, keepdims=True))
        p = powers / np.sum(powers, axis=1, keepdims=True)
    with ns.name_scope("loss"):
        loss = -np.mean(np.log(p)[np.arange(50), right[rows]])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
