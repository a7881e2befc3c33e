"""Attention over words; the mask lets only the padding through."""

import numpy as np

import nodescope as ns
from nodescope import nn

BAD = True
rng = np.random.default_rng(6)
emb = nn.Embedding(11, 16, rng=rng)
key, out = nn.Linear(16, 1, rng=rng), nn.Linear(16, 2, rng=rng)
opt = ns.optim.Adam([p for m in (emb, key, out) for p in m.parameters()], lr=0.02)
for _ in ns.steps(range(150)):
    n = rng.integers(2, 8, 48)
    ids = rng.integers(1, 11, (48, 9))
    pad = np.arange(9)[None] >= n[:, None]
    ids[pad] = 0
    label = ((ids == 3).any(axis=1)).astype(int)
    h = emb(ns.tensor(ids, name="ids"))
    score = key(h)[:, :, 0]
    keep = pad if BAD else ~pad
    score = np.where(keep, score, -1e9)
    a = nn.softmax(score, axis=1)
    loss = nn.cross_entropy(out(np.sum(a[:, :, None] * h, axis=1)), label)
    opt.minimize(loss)
print(f"loss {loss.item():.4f}")
