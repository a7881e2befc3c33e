"""Pictures and captions in one space: a contrastive loss over the pairs of a batch."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(61)
to_picture, to_text = rng.normal(0, 1, (4, 10)), rng.normal(0, 1, (4, 7))
picture_side = nn.Linear(10, 6, rng=rng)
text_side = nn.Linear(7, 6, rng=rng)
optimizer = ns.optim.Adam([*picture_side.parameters(), *text_side.parameters()], lr=0.02)


def unit(v):
    return v / np.sqrt(np.sum(v**2, axis=1, keepdims=True) + 1e-6)


for _ in ns.steps(range(120)):
    theme = rng.normal(0, 1, (24, 4))
    pictures = (theme @ to_picture).astype(np.float32)
    texts = (theme @ to_text).astype(np.float32)
    a = unit(picture_side(ns.tensor(pictures, name="pictures")))
    b = unit(text_side(ns.tensor(texts, name="texts")))
    likeness = a @ b.T * 8.0
    loss = nn.cross_entropy(likeness, np.zeros(24, np.int64))
    optimizer.minimize(loss)
right = np.mean(np.argmax(likeness.numpy(), axis=1) == np.arange(24))
print(f"right {right:.3f}")
