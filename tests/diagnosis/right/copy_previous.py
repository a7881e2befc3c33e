"""Causal attention: each symbol is to be told from the one before it."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(6)
LENGTH, SYMBOLS, SIZE = 8, 5, 12
hidden_from = np.where(np.tri(LENGTH, dtype=bool), 0.0, -np.inf).astype(np.float32)


class Attention(nn.Module):
    def __init__(self):
        self.symbols = nn.Embedding(SYMBOLS, SIZE, rng=rng)
        self.places = nn.Embedding(LENGTH, SIZE, rng=rng)
        self.query = nn.Linear(SIZE, SIZE, rng=rng)
        self.key = nn.Linear(SIZE, SIZE, rng=rng)
        self.value = nn.Linear(SIZE, SIZE, rng=rng)
        self.out = nn.Linear(SIZE, SYMBOLS, rng=rng)

    def forward(self, text):
        x = self.symbols(text) + self.places(ns.tensor(np.arange(LENGTH)))
        scores = self.query(x) @ self.key(x).transpose(0, 2, 1) / np.sqrt(SIZE)
        return self.out(nn.softmax(scores + hidden_from, axis=-1) @ self.value(x))


model = Attention()
optimizer = ns.optim.Adam(model, lr=0.02)
for _ in ns.steps(range(100)):
    text = rng.integers(0, SYMBOLS, (24, LENGTH))
    logits = model(ns.tensor(text, name="text"))[:, 1:]
    loss = nn.cross_entropy(logits.reshape(-1, SYMBOLS), text[:, :-1].ravel())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
