"""Documents by their words: rows become shares, then topics are told apart."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(18)
topics = rng.dirichlet(np.full(30, 0.2), 3)
about = rng.integers(0, 3, 64)
lengths = np.maximum(rng.poisson(6, 64), 1)
lengths[41] = 0  # an empty document
counts = np.stack([rng.multinomial(n, topics[k]) for n, k in zip(lengths, about, strict=True)])

words = ns.tensor(counts.astype(np.float64), name="counts")
classifier = nn.Linear(30, 3, rng=rng, dtype=np.float64)
optimizer = ns.optim.Adam(classifier, lr=0.1)
np.seterr(invalid="ignore")
for _ in ns.steps(range(60)):
    with ns.name_scope("shares"):
        shares = words / np.sum(words, axis=1, keepdims=True)
    with ns.name_scope("loss"):
        loss = nn.cross_entropy(classifier(shares), about)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
