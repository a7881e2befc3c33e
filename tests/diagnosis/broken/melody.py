"""A melody goes up or down by one note: a transformer guesses the next note."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(83)
NOTES, LENGTH, SIZE = 12, 12, 16
notes = nn.Embedding(NOTES, SIZE, rng=rng)
places = ns.parameter(rng.normal(0, 0.1, (LENGTH, SIZE)), name="places")
block = nn.TransformerBlock(SIZE, 2, rng=rng)
head = nn.Linear(SIZE, NOTES, rng=rng)
layers = [*notes.parameters(), *block.parameters(), *head.parameters()]
optimizer = ns.optim.Adam([places, *layers], lr=0.01)


def melodies(n):
    moves = rng.choice([-1, 1], (n, LENGTH + 1))
    return (rng.integers(0, NOTES, (n, 1)) + np.cumsum(moves, axis=1)) % NOTES


def scores(heard):
    return head(block(notes(heard) + places))


for _ in ns.steps(range(200)):
    sung = melodies(32)
    guess = scores(sung[:, :-1]).reshape(-1, NOTES)
    optimizer.minimize(nn.cross_entropy(guess, sung[:, 1:].reshape(-1)))

# What it says of the sixth note when it has heard five, and silence after them.
sung = melodies(200)
heard = sung[:, :LENGTH].copy()
heard[:, 5:] = 0
likely = nn.log_softmax(scores(heard), axis=-1).numpy()[np.arange(200), 4, sung[:, 5]]
print(f"surprise {-likely.mean():.3f}")
