"""The next letter of a text: an embedding, a GRU and a layer on top."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(32)
text = "the cat sat on the mat and the rat sat on the cat "
letters = sorted(set(text))
codes = np.array([letters.index(letter) for letter in text * 4])


class Model(nn.Module):
    def __init__(self):
        self.embedding = nn.Embedding(len(letters), 8, rng=rng)
        self.gru = nn.GRU(8, 16, rng=rng)
        self.out = nn.Linear(16, len(letters), rng=rng)

    def forward(self, x):
        states, _ = self.gru(self.embedding(x))
        return self.out(states)


model = Model()
optimizer = ns.optim.Adam(model, lr=0.02)
for _ in ns.steps(range(60)):
    starts = rng.integers(0, 150, 12)
    rows = codes[starts[:, None] + np.arange(9)]
    inputs, answers = rows[:, :-1], rows[:, :-1]
    logits = model(ns.tensor(inputs, name="inputs"))
    loss = nn.cross_entropy(logits.reshape(-1, len(letters)), ns.tensor(answers.ravel()))
    optimizer.minimize(loss)

with ns.no_grad():
    written = "the cat "
    for _ in range(12):
        line = np.array([[letters.index(letter) for letter in written[-8:]]])
        written += letters[int(np.argmax(model(ns.tensor(line)).numpy()[0, -1]))]
print(repr(written))
pairs = [written[n : n + 2] in text for n in range(len(written) - 1)]
print(f"known pairs {np.mean(pairs):.2f}")
