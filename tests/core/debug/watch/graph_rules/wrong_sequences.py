"""Models of sequences and sets that are wrong; see `wrong`."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import LENGTH, ROWS, SIZE, WORDS, tokens

_rng = np.random.default_rng(13)


# ---------------------------------------------------------------- attention_over_batch


def pooling_over_the_batch() -> None:
    query = ns.parameter(np.ones(SIZE, "f"), name="query")
    out = nn.Linear(SIZE, 1, rng=_rng)
    optimizer = optim.SGD([query, *out.parameters()], lr=0.05)
    for _ in ns.steps(range(3)):
        x = ns.tensor(_rng.standard_normal((ROWS, LENGTH, SIZE)).astype("f"))
        optimizer.zero_grad()
        weights = nn.softmax(x @ query, axis=0)  # hit: attention_over_batch
        pooled = np.sum(weights[:, :, None] * x, axis=1)
        nn.mse_loss(out(pooled), np.ones((ROWS, 1), "f")).backward()
        optimizer.step()


def queries_and_keys_over_the_batch() -> None:
    project = nn.Linear(SIZE, SIZE, rng=_rng)
    optimizer = optim.SGD(project, lr=0.05)
    for _ in ns.steps(range(3)):
        x = ns.tensor(_rng.standard_normal((ROWS, LENGTH, SIZE)).astype("f"))
        optimizer.zero_grad()
        weights = nn.softmax(project(x) @ x.transpose(0, 2, 1), axis=0)  # hit: attention_over_batch
        nn.mse_loss(weights @ x, np.ones((ROWS, LENGTH, SIZE), "f")).backward()
        optimizer.step()


# ---------------------------------------------------------------- targets_are_inputs


def nobody_shifted() -> None:
    """Causal attention with a residual path: each place sees the answer."""
    words, out = nn.Embedding(WORDS, SIZE, rng=_rng), nn.Linear(SIZE, WORDS, rng=_rng)
    optimizer = optim.SGD([*words.parameters(), *out.parameters()], lr=0.05)
    hidden = np.triu(np.full((LENGTH, LENGTH), -1e9, "f"), 1)
    for number in ns.steps(range(6)):
        text = tokens(number)
        optimizer.zero_grad()
        x = words(ns.tensor(text))
        x = x + nn.softmax(x @ x.transpose(0, 2, 1) + hidden, axis=-1) @ x
        loss = nn.cross_entropy(out(x).reshape(-1, WORDS), text.ravel())  # hit: targets_are_inputs
        loss.backward()
        optimizer.step()


def nobody_shifted_for_the_recurrent_one() -> None:
    words, out = nn.Embedding(WORDS, SIZE, rng=_rng), nn.Linear(SIZE, WORDS, rng=_rng)
    cells = nn.GRU(SIZE, SIZE, rng=_rng)
    parameters = [*words.parameters(), *cells.parameters(), *out.parameters()]
    optimizer = optim.SGD(parameters, lr=0.05)
    for number in ns.steps(range(6)):
        text = tokens(number)
        optimizer.zero_grad()
        logits = out(cells(words(ns.tensor(text)))[0]).reshape(-1, WORDS)
        loss = nn.cross_entropy(logits, text.ravel())  # hit: targets_are_inputs
        loss.backward()
        optimizer.step()
