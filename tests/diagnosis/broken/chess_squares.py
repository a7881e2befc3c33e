"""Pieces on a board of 20 by 20: an embedding for every square, packed into small integers."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(71)
SIZE = 20
worth = rng.normal(0, 1, (SIZE, SIZE))
squares = nn.Embedding(SIZE * SIZE, 1, rng=rng)
optimizer = ns.optim.Adam(squares, lr=0.1)

for _ in ns.steps(range(150)):
    rows = rng.integers(0, SIZE, 128).astype(np.uint8)
    columns = rng.integers(0, SIZE, 128).astype(np.uint8)
    with ns.name_scope("square"):
        number = ns.tensor(rows, name="rows") * np.uint8(SIZE) + ns.tensor(columns, name="columns")
    guess = squares(number)[:, 0]
    loss = np.mean((guess - worth[rows, columns]) ** 2)
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
