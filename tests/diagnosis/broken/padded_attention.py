"""Sentences of several lengths, padded: attention over the words that are there."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(19)
WORDS, LENGTH, SIZE = 20, 6, 8
lengths = rng.integers(1, LENGTH + 1, 40)
lengths[7] = 0
text = rng.integers(1, WORDS, (40, LENGTH)) * (np.arange(LENGTH) < lengths[:, None])
positive = (np.sum(np.isin(text, [3, 4, 5, 6, 7, 8, 9, 10]), axis=1) > 0).astype(np.float64)


class Pooled(nn.Module):
    def __init__(self):
        self.words = nn.Embedding(WORDS, SIZE, rng=rng)
        self.score = nn.Linear(SIZE, 1, rng=rng)
        self.out = nn.Linear(SIZE, 1, rng=rng)

    def forward(self, text):
        x = self.words(text)
        scores = self.score(x)[:, :, 0]
        scores = np.where(text == 0, -np.inf, scores)
        share = nn.softmax(scores, axis=1)
        return self.out(np.sum(share[:, :, None] * x, axis=1))[:, 0]


model = Pooled()
optimizer = ns.optim.Adam(model, lr=0.05)
with np.errstate(invalid="ignore"):
    for step in ns.steps(range(60)):
        rows = np.arange(step % 4 * 10, step % 4 * 10 + 10)
        logits = model(ns.tensor(text[rows], name="text"))
        loss = nn.binary_cross_entropy_with_logits(logits, positive[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.4f}")
