"""An LSTM that must keep one bit: its forget gate is set open, and stays there."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(45)
LENGTH, UNITS = 12, 8
cell = nn.LSTMCell(2, UNITS, rng=rng)
bias = dict(cell.named_parameters())["bias_ih"].numpy().copy()
bias[UNITS : 2 * UNITS] = 8.0
cell.bias_ih = ns.parameter(bias)
read = nn.Linear(UNITS, 1, rng=rng)
optimizer = ns.optim.Adam([*cell.parameters(), *read.parameters()], lr=0.03)
for _ in ns.steps(range(50)):
    bit = rng.integers(0, 2, 32)
    sequence = np.zeros((32, LENGTH, 2), np.float32)
    sequence[:, 0, 0] = 2 * bit - 1
    sequence[:, 1:, 1] = rng.normal(0, 0.3, (32, LENGTH - 1))
    state = None
    for moment in range(LENGTH):
        with ns.name_scope(f"moment_{moment}"):
            state = cell(ns.tensor(sequence[:, moment]), state)
    loss = nn.binary_cross_entropy_with_logits(read(state[0])[:, 0], bit.astype(np.float32))
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
