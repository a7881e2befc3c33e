"""A transformer block for sums of digits; the learning rate rises from 0, then falls to 0."""

import math

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(48)
TOTAL, WARM = 90, 15
embedding = nn.Embedding(5, 12, rng=rng)
block = nn.TransformerBlock(12, 2, rng=rng)
head = nn.Linear(12, 1, rng=rng)
parameters = [*embedding.parameters(), *block.parameters(), *head.parameters()]
optimizer = ns.optim.AdamW(parameters, lr=0.0, weight_decay=0.01)
for step in ns.steps(range(TOTAL)):
    warm, part = step / WARM, (step - WARM) / (TOTAL - 1 - WARM)
    optimizer.lr = 0.02 * (warm if step < WARM else 0.5 * (1 + math.cos(math.pi * part)))
    digits = rng.integers(0, 5, (32, 4))
    states = block(embedding(ns.tensor(digits, name="digits")))
    guess = np.mean(head(states)[:, :, 0], axis=1)
    loss = nn.mse(guess, digits.mean(axis=1).astype(np.float32))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}, last rate {optimizer.lr:.6f}")
