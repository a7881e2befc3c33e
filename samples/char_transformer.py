"""Train a small transformer to write Shakespeare, letter by letter.

    python samples/char_transformer.py [--steps N] [--letters N] [--compiled]

Two pre-norm blocks with causal attention over 32 letters of sixteen sonnets. After training, the
model writes a few lines. `--compiled` runs each training step as one static graph.

Invariant: the same seed gives the same text, eager or compiled, observed or not.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import nodescope as ns
from nodescope import nn, optim

TEXT = Path(__file__).resolve().parent / "data" / "sonnets.txt"
LENGTH = 32
BATCH = 16
WIDTH = 64
HEADS = 4


class Writer(nn.Module):
    """Maps letters to the logits of the letter after each of them."""

    def __init__(self, letters: int, rng: np.random.Generator) -> None:
        self.letters = nn.Embedding(letters, WIDTH, rng=rng)
        self.positions = nn.Embedding(LENGTH, WIDTH, rng=rng)
        self.block = [nn.TransformerBlock(WIDTH, HEADS, rng=rng, causal=True) for _ in range(2)]
        self.norm = nn.LayerNorm(WIDTH)
        self.output = nn.Linear(WIDTH, letters, rng=rng, init=nn.glorot)

    def forward(self, text: ns.Tensor) -> ns.Tensor:
        x = self.letters(text) + self.positions(np.arange(text.shape[1]))
        for block in self.block:
            x = block(x)
        return self.output(self.norm(x))


def batches(text: np.ndarray, steps: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Batches of (BATCH, LENGTH + 1) letters from random positions of the text."""
    for _ in range(steps):
        starts = rng.integers(0, len(text) - LENGTH, BATCH)
        yield text[starts[:, None] + np.arange(LENGTH + 1)]


def write(model: Writer, prompt: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """``prompt`` and ``count`` more letters, sampled from the model's predictions."""
    text = prompt
    with ns.no_grad(), ns.name_scope("writing"):
        for _ in range(count):
            logits = model(ns.tensor(text[None, -LENGTH:], name="text"))[0, -1]
            chances = nn.softmax(logits / 0.5).numpy().astype(np.float64)
            text = np.append(text, rng.choice(len(chances), p=chances / chances.sum()))
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400, help="training steps")
    parser.add_argument("--letters", type=int, default=160, help="letters to write at the end")
    parser.add_argument("--compiled", action="store_true", help="run steps as a static graph")
    options = parser.parse_args()
    ns.set_mode("compiled" if options.compiled else "eager")

    rng = np.random.default_rng(11)
    alphabet = sorted(set(TEXT.read_text()))
    text = np.array([alphabet.index(letter) for letter in TEXT.read_text()])
    model = Writer(len(alphabet), rng)
    optimizer = optim.AdamW(model, lr=3e-3)

    @ns.compile
    def step(letters: ns.Tensor, following: ns.Tensor) -> ns.Tensor:
        optimizer.zero_grad()
        logits = model(letters)
        with ns.name_scope("loss"):
            loss = nn.cross_entropy(logits.reshape(-1, len(alphabet)), following.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    losses: list[float] = []
    for number, chosen in enumerate(ns.steps(batches(text, options.steps, rng)), 1):
        losses.append(step(ns.tensor(chosen[:, :-1], name="text"), ns.tensor(chosen[:, 1:])).item())
        if number % 50 == 0:
            print(f"step {number:4d}  loss {np.mean(losses[-50:]):.4f}", flush=True)

    print(f"loss {np.mean(losses[-20:]):.4f}")
    prompt = np.array([alphabet.index(letter) for letter in "Shall I "])
    print("".join(alphabet[letter] for letter in write(model, prompt, options.letters, rng)))


if __name__ == "__main__":
    main()
