"""Train a convolutional network to read handwritten digits.

    python samples/digits_cnn.py [--epochs N] [--compiled]

Two convolutions with batch normalisation on the 8×8 images of the UCI digits. `--compiled` runs
each training step as one static graph, optimizer included; the results are bit-identical.

Invariant: the same seed gives the same weights, eager or compiled, observed or not.
"""

from __future__ import annotations

import argparse

import numpy as np
from digits_mlp import HELD_OUT, batches, load

import nodescope as ns
from nodescope import nn, optim


class Classifier(nn.Module):
    def __init__(self, rng: np.random.Generator) -> None:
        self.block_1 = Block(1, 16, rng)
        self.block_2 = Block(16, 32, rng)
        self.output = nn.Linear(32 * 2 * 2, 10, rng=rng, init=nn.glorot)

    def forward(self, images: ns.Tensor) -> ns.Tensor:
        features = self.block_2(self.block_1(images))
        return self.output(features.reshape(len(features), -1))


class Block(nn.Module):
    """Convolution, normalisation, ReLU and max pooling, which halves height and width."""

    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator) -> None:
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, rng=rng)
        self.norm = nn.BatchNorm2d(outputs)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: ns.Tensor) -> ns.Tensor:
        return self.pool(nn.relu(self.norm(self.conv(x))))


def accuracy(model: Classifier, images: np.ndarray, digits: np.ndarray) -> float:
    model.eval()
    with ns.no_grad(), ns.name_scope("evaluation"):
        guesses = np.argmax(model(ns.tensor(images, name="images")), axis=1)
    model.train()
    return float(np.mean(guesses.numpy() == digits))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12, help="passes over the training images")
    parser.add_argument("--compiled", action="store_true", help="run steps as a static graph")
    options = parser.parse_args()
    ns.set_mode("compiled" if options.compiled else "eager")

    rng = np.random.default_rng(7)
    images, digits = load()
    images = images.reshape(-1, 1, 8, 8)
    order = rng.permutation(len(images))
    train, held_out = order[HELD_OUT:], order[:HELD_OUT]

    model = Classifier(rng)
    optimizer = optim.Adam(model, lr=2e-3)

    @ns.compile
    def step(batch: ns.Tensor, labels: ns.Tensor) -> ns.Tensor:
        optimizer.zero_grad()
        logits = model(batch)
        with ns.name_scope("loss"):
            loss = nn.cross_entropy(logits, labels)
        loss.backward()
        optimizer.step()
        return loss

    for epoch in range(1, options.epochs + 1):
        losses = []
        for batch, labels in ns.steps(batches(images[train], digits[train], rng)):
            losses.append(step(ns.tensor(batch, name="images"), ns.tensor(labels)).item())
        print(f"epoch {epoch:2d}  loss {np.mean(losses):.4f}", flush=True)

    print(f"accuracy {accuracy(model, images[held_out], digits[held_out]):.4f}")


if __name__ == "__main__":
    main()
