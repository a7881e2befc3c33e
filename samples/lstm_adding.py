"""Train an LSTM to add two marked numbers in sequences of varying length.

    python samples/lstm_adding.py [--steps N]

Hochreiter and Schmidhuber's adding problem (1997): each element is a number and a mark, and the
answer is the sum of the two marked numbers. The length changes from batch to batch, and the graph
with it: a Python loop builds it in each step.

Invariant: the same seed gives the same weights, observed or not.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

import nodescope as ns
from nodescope import nn, optim

BATCH = 48
SHORTEST, LONGEST = 3, 10


class Adder(nn.Module):
    def __init__(self, rng: np.random.Generator) -> None:
        self.cell = nn.LSTMCell(2, 32, rng=rng)
        self.output = nn.Linear(32, 1, rng=rng, init=nn.glorot)

    def forward(self, sequence: ns.Tensor) -> ns.Tensor:
        """Maps sequences (batch, length, 2) to sums (batch,)."""
        state = None
        for time in range(sequence.shape[1]):
            with ns.name_scope(f"time_{time}"):
                state = self.cell(sequence[:, time], state)
        return self.output(state[0])[:, 0]


def batches(steps: int, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Sequences (BATCH, length, 2) and the sums of their marked numbers."""
    for _ in range(steps):
        length = int(rng.integers(SHORTEST, LONGEST + 1))
        numbers = rng.uniform(0, 1, (BATCH, length)).astype(np.float32)
        marks = np.zeros_like(numbers)
        for row in marks:
            row[rng.choice(length, 2, replace=False)] = 1
        yield np.stack([numbers, marks], axis=2), np.sum(numbers * marks, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=900, help="training steps")
    options = parser.parse_args()

    rng = np.random.default_rng(5)
    model = Adder(rng)
    optimizer = optim.Adam(model, lr=1e-2)
    losses: list[float] = []
    for number, (sequence, answer) in enumerate(ns.steps(batches(options.steps, rng)), 1):
        optimizer.zero_grad()
        guess = model(ns.tensor(sequence, name="sequence"))
        with ns.name_scope("loss"):
            loss = nn.mse(guess, answer)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if number % 100 == 0:
            print(f"step {number:4d}  error {np.mean(losses[-100:]):.4f}", flush=True)

    errors = {}
    with ns.no_grad(), ns.name_scope("evaluation"):
        for sequence, answer in batches(40, rng):
            guess = model(ns.tensor(sequence, name="sequence")).numpy()
            errors.setdefault(sequence.shape[1], []).append(float(np.mean((guess - answer) ** 2)))
    for length in sorted(errors):
        print(f"length {length:2d}  error {np.mean(errors[length]):.4f}")
    print(f"error {np.mean([error for row in errors.values() for error in row]):.4f}")


if __name__ == "__main__":
    main()
