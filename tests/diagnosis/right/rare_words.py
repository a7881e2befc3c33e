"""Word vectors by skip-gram with negative samples: most words are seldom met."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(42)
WORDS, SIZE = 200, 6
frequency = 1 / np.arange(1, WORDS + 1) ** 1.2
frequency /= frequency.sum()
inside, outside = nn.Embedding(WORDS, SIZE, rng=rng), nn.Embedding(WORDS, SIZE, rng=rng)
optimizer = ns.optim.Adam([*inside.parameters(), *outside.parameters()], lr=0.05)

losses = []
for _ in ns.steps(range(120)):
    word = rng.choice(WORDS, 24, p=frequency)
    near = (word // 5) * 5 + rng.integers(0, 5, 24)  # words come in groups of five
    far = rng.choice(WORDS, (24, 3), p=frequency)
    with ns.name_scope("scores"):
        w = inside(ns.tensor(word, name="word"))
        good = np.sum(w * outside(ns.tensor(near, name="near")), axis=1)
        bad = np.sum(w[:, None] * outside(ns.tensor(far, name="far")), axis=2)
    loss = -np.mean(nn.logsigmoid(good)) - np.mean(nn.logsigmoid(-bad))
    optimizer.minimize(loss)
    losses.append(loss.item())
print(f"loss {np.mean(losses[-20:]):.3f}")
