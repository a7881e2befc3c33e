"""Naive Bayes and a linear model on rows that are nearly all zeros."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(50)
WORDS = 300
topics = rng.dirichlet(np.full(WORDS, 0.05), 2)
about = rng.integers(0, 2, 120)
counts = np.stack([rng.multinomial(12, topics[k]) for k in about])

x = ns.tensor(counts, name="counts")
with ns.name_scope("bayes"):
    for_each = [np.sum(x[about == k], axis=0) + 1.0 for k in (0, 1)]
    log_odds = np.log(for_each[1] / np.sum(for_each[1])) - np.log(for_each[0] / np.sum(for_each[0]))
    w0 = log_odds.numpy()
w = ns.parameter(np.zeros(WORDS), name="w")
for _ in ns.steps(range(60)):
    z = x @ w
    loss = np.mean(np.logaddexp(0, z) - about * z)
    w.grad = None
    loss.backward()
    with ns.no_grad():
        ns.assign(w, w - 2.0 * w.grad)
agreement = np.corrcoef(w0, w.numpy())[0, 1]
print(f"loss {loss.item():.4f}, agreement {agreement:.2f}")
