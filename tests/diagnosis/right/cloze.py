"""Words that are hidden are guessed from both sides; short sentences are padded."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(94)
WORDS, LENGTH, SIZE, PAD, HIDDEN = 10, 10, 16, 0, 1
words = nn.Embedding(WORDS, SIZE, rng=rng)
places = ns.parameter(rng.normal(0, 0.3, (LENGTH, SIZE)), name="places")
ask, key, value = (nn.Linear(SIZE, SIZE, rng=rng) for _ in range(3))
out = nn.Linear(2 * SIZE, WORDS, rng=rng)
layers = [p for m in (words, ask, key, value, out) for p in m.parameters()]
optimizer = ns.optim.Adam([places, *layers], lr=0.01)

for _ in ns.steps(range(300)):
    start = rng.integers(0, 8, (32, 1))
    whole = 2 + (start + np.arange(LENGTH)) % 8
    length = rng.integers(6, LENGTH + 1, (32, 1))
    whole = np.where(np.arange(LENGTH) < length, whole, PAD)
    hidden = (rng.random(whole.shape) < 0.2) & (whole != PAD)
    hidden[:, 2] = True
    shown = np.where(hidden, HIDDEN, whole)
    x = words(shown) + places
    scores = ask(x) @ np.swapaxes(key(x), 1, 2) / 4.0
    scores = np.where((shown != PAD)[:, None, :], scores, np.float32(-1e9))
    mixed = nn.softmax(scores, axis=-1) @ value(x)
    guess = out(np.concatenate([x, mixed], axis=-1))
    targets = np.where(hidden, whole, -1).reshape(-1)
    loss = nn.cross_entropy(guess.reshape(-1, WORDS), targets, ignore_index=-1)
    optimizer.minimize(loss)
print(f"loss {loss.item():.3f}")
