"""Train a small network to read handwritten digits.

    python samples/digits_mlp.py [--epochs N] [--compiled]

Two hidden layers on the 8×8 images of the UCI digits. Run it plainly, under the debugger with
`nodescope run samples/digits_mlp.py`, or both ways side by side with
`nodescope compare samples/digits_mlp.py`. `--compiled` runs each training step as one static graph.

Invariant: the same seed gives the same weights, eager or compiled, observed or not.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import nodescope as ns
from nodescope import nn, optim

DATA = Path(__file__).resolve().parent / "data" / "digits.csv.gz"
HELD_OUT = 360
BATCH = 64


def load() -> tuple[np.ndarray, np.ndarray]:
    """Images as (1797, 64) float32 from 0 to 1, and their digits."""
    table = np.loadtxt(DATA, delimiter=",", dtype=np.float32)
    return table[:, :-1] / 16.0, table[:, -1].astype(np.int64)


class Classifier(nn.Module):
    def __init__(self, rng: np.random.Generator) -> None:
        self.hidden_1 = Hidden(64, 96, rng)
        self.hidden_2 = Hidden(96, 48, rng)
        self.output = nn.Linear(48, 10, rng=rng, init=nn.glorot)

    def forward(self, images: ns.Tensor) -> ns.Tensor:
        return self.output(self.hidden_2(self.hidden_1(images)))


class Hidden(nn.Module):
    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator) -> None:
        self.weight = ns.parameter(nn.he(rng, inputs, outputs), np.float32, name="weight")
        self.bias = ns.parameter(np.zeros(outputs), np.float32, name="bias")

    def forward(self, x: ns.Tensor) -> ns.Tensor:
        return np.maximum(x @ self.weight + self.bias, 0)


@ns.name_scope("loss")
def cross_entropy(logits: ns.Tensor, digits: np.ndarray) -> ns.Tensor:
    """Mean negative log-probability of the correct digit."""
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    log_total = np.log(np.sum(np.exp(shifted), axis=1))
    right = shifted[np.arange(len(digits)), digits]
    return np.mean(log_total - right)


def batches(images: np.ndarray, digits: np.ndarray, rng: np.random.Generator) -> Iterator:
    order = rng.permutation(len(images))
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        yield images[chosen], digits[chosen]


def accuracy(model: Classifier, images: np.ndarray, digits: np.ndarray) -> float:
    with ns.no_grad(), ns.name_scope("evaluation"):
        guesses = np.argmax(model(ns.tensor(images, name="images")), axis=1)
    return float(np.mean(guesses.numpy() == digits))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12, help="passes over the training images")
    parser.add_argument("--compiled", action="store_true", help="run steps as a static graph")
    options = parser.parse_args()
    ns.set_mode("compiled" if options.compiled else "eager")

    rng = np.random.default_rng(7)
    images, digits = load()
    order = rng.permutation(len(images))
    train, held_out = order[HELD_OUT:], order[:HELD_OUT]

    model = Classifier(rng)
    optimizer = optim.SGD(model, lr=0.1, momentum=0.9)

    @ns.compile
    def train_step(batch: ns.Tensor, labels: np.ndarray) -> ns.Tensor:
        optimizer.zero_grad()
        loss = cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        return loss

    for epoch in range(1, options.epochs + 1):
        losses = []
        for batch, labels in ns.steps(batches(images[train], digits[train], rng)):
            losses.append(train_step(ns.tensor(batch, name="images"), labels).item())
        print(f"epoch {epoch:2d}  loss {np.mean(losses):.4f}", flush=True)

    print(f"accuracy {accuracy(model, images[held_out], digits[held_out]):.4f}")


if __name__ == "__main__":
    main()
