"""Correct models of sequences and sets that look wrong; see `right`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import LENGTH, ROWS, SIZE, WORDS, tokens

_rng = np.random.default_rng(13)


def _language_model(
    logits_of: Callable[[Any, Any], Any], *more: nn.Module, shifted: int = 0, steps: int = 6
) -> None:
    """Predict tokens; ``logits_of`` receives the tokens and the embedding layer."""
    words, out = nn.Embedding(WORDS, SIZE, rng=_rng), nn.Linear(SIZE, WORDS, rng=_rng)
    layers = (words, out, *more)
    optimizer = optim.SGD([item for layer in layers for item in layer.parameters()], lr=0.05)
    for number in ns.steps(range(steps)):
        text = tokens(number, LENGTH + shifted)
        optimizer.zero_grad()
        logits = out(logits_of(ns.tensor(text[:, :LENGTH]), words)).reshape(-1, WORDS)
        nn.cross_entropy(logits, text[:, shifted:].ravel()).backward()
        optimizer.step()


def _earlier(text: Any, words: Any) -> Any:
    """Attention to earlier positions only."""
    x = words(text)
    hidden = np.where(np.tri(LENGTH, k=-1, dtype=bool), 0.0, -1e9).astype("f")
    return nn.softmax(x @ x.transpose(0, 2, 1) + hidden, axis=-1) @ x


def strictly_causal() -> None:
    _language_model(_earlier)


def shifted_as_it_should_be() -> None:
    _language_model(lambda text, words: words(text), shifted=1)


def shifted_in_the_model() -> None:
    """The embeddings are shifted by one position; the first position gets zeros."""
    first = np.zeros((ROWS, 1, SIZE), "f")
    cells = nn.GRU(SIZE, SIZE, rng=_rng)

    def states(text: Any, words: Any) -> Any:
        return cells(np.concatenate([first, words(text)[:, :-1]], axis=1))[0]

    _language_model(states, cells)


def autoencoder_of_texts() -> None:
    """One code of a whole text, from which all of its tokens are predicted."""
    encoder, decoder = nn.GRU(SIZE, SIZE, rng=_rng), nn.GRU(SIZE, SIZE, rng=_rng)

    def states(text: Any, words: Any) -> Any:
        code = encoder(words(text))[0][:, -1]
        return decoder(np.stack([code] * LENGTH, axis=1))[0]

    _language_model(states, encoder, decoder)


def hidden_words() -> None:
    """Some tokens are hidden after the embedding, and are predicted from the others."""
    mask = (np.arange(LENGTH) % 2 == 0).astype("f")[None, :, None]

    def states(text: Any, words: Any) -> Any:
        x = words(text) * ns.tensor(mask)
        return x + nn.softmax(x @ x.transpose(0, 2, 1), axis=-1) @ x

    _language_model(states)


def autoencoder_of_items() -> None:
    """Rows of one token each have no order, so there is nothing to shift."""
    words, out = nn.Embedding(WORDS, 3, rng=_rng), nn.Linear(3, WORDS, rng=_rng)
    optimizer = optim.SGD([*words.parameters(), *out.parameters()], lr=0.05)
    for number in ns.steps(range(6)):
        item = tokens(number)[:, :1].repeat(2, axis=0).ravel()
        optimizer.zero_grad()
        nn.cross_entropy(out(words(ns.tensor(item))), item).backward()
        optimizer.step()


# ---------------------------------------------------------------- softmax along axis 0


def attention_over_the_keys() -> None:
    query = ns.parameter(np.ones(SIZE, "f"), name="query")
    optimizer = optim.SGD([query], lr=0.05)
    for _ in ns.steps(range(3)):
        x = ns.tensor(_rng.standard_normal((ROWS, LENGTH, SIZE)).astype("f"))
        optimizer.zero_grad()
        weights = nn.softmax(x @ query, axis=1)
        pooled = np.sum(weights[:, :, None] * x, axis=1)
        nn.mse_loss(pooled, np.ones((ROWS, SIZE), "f")).backward()
        optimizer.step()


def dispatch_of_tokens() -> None:
    """A soft mixture: each expert takes a weighted mean over the tokens, which are rows."""
    gate, expert = nn.Linear(SIZE, 3, rng=_rng), nn.Linear(SIZE, SIZE, rng=_rng)
    optimizer = optim.SGD([*gate.parameters(), *expert.parameters()], lr=0.05)
    for _ in ns.steps(range(3)):
        x = ns.tensor(_rng.standard_normal((ROWS, SIZE)).astype("f"))
        optimizer.zero_grad()
        scores = gate(x)
        taken = nn.softmax(scores, axis=0).T @ x
        given = nn.softmax(scores, axis=1) @ expert(taken)
        nn.mse_loss(given, np.ones((ROWS, SIZE), "f")).backward()
        optimizer.step()


def responsibilities_of_clusters() -> None:
    """Soft k-means: each row belongs to clusters, each centre is a mean of rows."""
    centres = ns.parameter(_rng.standard_normal((4, SIZE)).astype("f"), name="centres")
    optimizer = optim.SGD([centres], lr=0.05)
    for _ in ns.steps(range(3)):
        x = ns.tensor(_rng.standard_normal((ROWS, SIZE)).astype("f"))
        optimizer.zero_grad()
        belongs = nn.softmax(centres @ x.T, axis=0)
        means = belongs @ x / np.sum(belongs, axis=1, keepdims=True)
        nn.mse_loss(centres, means).backward()
        optimizer.step()


def images_and_texts_both_ways() -> None:
    """Contrastive: each row finds its column, and each column its row."""
    layer = nn.Linear(SIZE, SIZE, rng=_rng)
    optimizer = optim.SGD(layer, lr=0.05)
    for _ in ns.steps(range(3)):
        x = ns.tensor(_rng.standard_normal((ROWS, SIZE)).astype("f"))
        optimizer.zero_grad()
        logits = layer(x) @ x.T
        both = nn.softmax(logits, axis=0) * nn.softmax(logits, axis=1)
        (-np.mean(np.log(np.sum(both * np.eye(ROWS, dtype="f"), axis=1)))).backward()
        optimizer.step()


def ranking_of_a_list() -> None:
    """Rows are the items of one list; their features are weighted by rank."""
    layer = nn.Linear(SIZE, 1, rng=_rng)
    optimizer = optim.SGD(layer, lr=0.05)
    for _ in ns.steps(range(3)):
        x = ns.tensor(_rng.standard_normal((ROWS, SIZE)).astype("f"))
        optimizer.zero_grad()
        shares = nn.softmax(layer(x), axis=0)
        np.mean(np.sum(shares * x, axis=0) ** 2).backward()
        optimizer.step()
