"""Train a small GPT in PyTorch to write Shakespeare, letter by letter.

    nodescope run samples/torch/gpt.py [--steps N]

Two blocks with causal attention over 32 letters of sixteen sonnets. The program does not import
nodescope.

Invariant: the same seed gives the same text, observed or not.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

TEXT = Path(__file__).resolve().parents[1] / "data" / "sonnets.txt"
LENGTH = 32
BATCH = 16
WIDTH = 64
HEADS = 4


class Attention(nn.Module):
    """Causal attention of several heads, written out."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        attention = F.softmax(scores.masked_fill(future, -math.inf), dim=-1)
        return self.output((attention @ v).transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    """Attention and two linear layers, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Maps letters to the logits of the letter after each of them."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(letters, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm = nn.LayerNorm(WIDTH)
        self.output = nn.Linear(WIDTH, letters, bias=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.letters(text) + self.positions(torch.arange(text.shape[1]))
        return self.output(self.norm(self.blocks(x)))


@torch.no_grad()
def write(model: GPT, text: torch.Tensor, count: int) -> torch.Tensor:
    """``text`` and ``count`` more letters, sampled from the model's predictions."""
    for _ in range(count):
        chances = F.softmax(model(text[None, -LENGTH:])[0, -1] / 0.5, dim=-1)
        text = torch.cat([text, torch.multinomial(chances, 1)])
    return text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--letters", type=int, default=200)
    options = parser.parse_args()
    torch.manual_seed(1)
    sonnets = TEXT.read_text()
    alphabet = sorted(set(sonnets))
    text = torch.tensor([alphabet.index(letter) for letter in sonnets])
    model = GPT(len(alphabet))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(options.steps):
        starts = torch.randint(len(text) - LENGTH, (BATCH,))
        letters = torch.stack([text[start : start + LENGTH + 1] for start in starts.tolist()])
        logits = model(letters[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), letters[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step:4}  loss {loss.item():.3f}", flush=True)
    print(f"loss {loss.item():.4f}")
    prompt = torch.tensor([alphabet.index(letter) for letter in "Shall I "])
    print("".join(alphabet[i] for i in write(model, prompt, options.letters).tolist()))


if __name__ == "__main__":
    main()
