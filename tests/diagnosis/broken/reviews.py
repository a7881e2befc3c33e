"""Sentiment of reviews: a bag of embeddings; words are looked up in a vocabulary."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(50)
words = ["good", "great", "fine", "bad", "poor", "dull", "film", "plot", "actor", "scene"]
vocabulary = {word: number for number, word in enumerate(["<unknown>", *words])}


def reviews(count):
    texts, labels = [], []
    for _ in range(count):
        label = int(rng.integers(0, 2))
        own = rng.choice(words[:3] if label else words[3:6], 2)
        text = [*own, *rng.choice(words[6:], 4)]
        texts.append([vocabulary.get(word.capitalize(), 0) for word in text])
        labels.append(label)
    return np.array(texts), np.array(labels)


table = nn.Embedding(len(vocabulary), 8, rng=rng)
head = nn.Linear(8, 2, rng=rng)
optimizer = ns.optim.Adam([*table.parameters(), *head.parameters()], lr=0.02)
for _ in ns.steps(range(100)):
    tokens, labels = reviews(32)
    scores = head(np.mean(table(ns.tensor(tokens, name="tokens")), axis=1))
    loss = nn.cross_entropy(scores, ns.tensor(labels, name="labels"))
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
