"""One attention layer that predicts the next symbol: it must look back to find what followed."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(44)
SYMBOLS, LENGTH, SIZE = 8, 6, 16


def texts(n):
    """A symbol moves on by a stride that is the text's own, from the first two symbols on."""
    first, stride = rng.integers(0, SYMBOLS, (2, n, 1))
    return (first + stride * np.arange(LENGTH + 1)) % SYMBOLS


class Model(nn.Module):
    def __init__(self):
        self.token = nn.Embedding(SYMBOLS, SIZE, rng=rng)
        self.place = nn.Embedding(LENGTH, SIZE, rng=rng)
        self.query = nn.Linear(SIZE, SIZE, rng=rng)
        self.key = nn.Linear(SIZE, SIZE, rng=rng)
        self.value = nn.Linear(SIZE, SIZE, rng=rng)
        self.mix = nn.Linear(2 * SIZE, 32, rng=rng)
        self.out = nn.Linear(32, SYMBOLS, rng=rng)

    def forward(self, tokens):
        n = tokens.shape[1]
        x = self.token(tokens) + self.place(np.arange(n))
        scores = self.query(x) @ self.key(x).transpose(0, 2, 1) / SIZE**0.5
        mask = np.tril(np.ones((n, n), np.float32))
        scores = scores * mask
        h = nn.softmax(scores, axis=-1) @ self.value(x)
        return self.out(nn.relu(self.mix(np.concatenate([x, h], axis=2))))


model = Model()
optimizer = ns.optim.Adam(model, lr=1e-2)
for _step in ns.steps(range(300)):
    text = texts(20)
    logits = model(text[:, :-1])
    loss = nn.cross_entropy(logits.transpose(0, 2, 1)[:, :, 1:], text[:, 2:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

text = texts(100)
with ns.no_grad(), ns.name_scope("generate"):
    line = text[:, :3]
    for _ in range(LENGTH - 2):
        nxt = model(line).numpy()[:, -1].argmax(axis=1)
        line = np.concatenate([line, nxt[:, None]], axis=1)
print(f"loss {loss.item():.4f}")
print(f"accuracy {np.mean(line[:, 3:] == text[:, 3:]):.4f}")
