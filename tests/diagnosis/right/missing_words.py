"""Masked modelling: a fifth of the words is predicted, the rest of the loss is masked."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(23)
emb = nn.Embedding(10, 16, rng=rng)
pos = ns.parameter(rng.normal(0, 0.1, (8, 16)).astype(np.float32), name="pos")
q, k, v = (nn.Linear(16, 16, rng=rng) for _ in range(3))
out = nn.Linear(16, 10, rng=rng)
opt = ns.optim.Adam([pos, *[p for m in (emb, q, k, v, out) for p in m.parameters()]], lr=0.02)
ls = []
for _ in ns.steps(range(150)):
    start = rng.integers(1, 9, 32)
    words = 1 + (start[:, None] - 1 + np.arange(8)) % 8
    length = rng.integers(3, 9, 32)
    pad = np.arange(8)[None] >= length[:, None]
    hidden = (rng.random((32, 8)) < 0.2) & ~pad
    ids = np.where(pad, 0, np.where(hidden, 9, words))
    h = emb(ids) + pos
    score = q(h) @ np.transpose(k(h), (0, 2, 1)) / 4
    score = np.where(pad[:, None, :], -1e9, score)
    h = h + nn.softmax(score, axis=-1) @ v(h)
    logp = nn.log_softmax(out(h), axis=-1)
    picked = np.take_along_axis(logp, words[..., None], axis=2)[..., 0]
    loss = -np.sum(picked * ns.tensor(hidden.astype(np.float32))) / max(hidden.sum(), 1)
    opt.minimize(loss)
    ls.append(loss.item())
print(f"loss {np.mean(ls[-20:]):.3f}")
