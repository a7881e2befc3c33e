"""Attention picks the marked element of a list; queries, keys and values by hand."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(33)
ITEMS = 6


def lists(count):
    values = rng.uniform(-1, 1, (count, ITEMS))
    marks = np.eye(ITEMS)[rng.integers(0, ITEMS, count)]
    return np.stack([values, marks], axis=2), np.sum(values * marks, axis=1)


query = ns.parameter(rng.normal(0, 0.5, 4), name="query")
keys = ns.parameter(rng.normal(0, 0.5, (2, 4)), name="keys")
value = ns.parameter(rng.normal(0, 0.5, 2), name="value")
optimizer = ns.optim.Adam([query, keys, value], lr=0.1)
for _ in ns.steps(range(120)):
    items, wanted = lists(32)
    x = ns.tensor(items, name="items")
    with ns.name_scope("attention"):
        scores = (x @ keys) @ query
        share = ns.softmax(scores, axis=0)
        answer = np.sum(share * (x @ value), axis=1)
    with ns.name_scope("loss"):
        loss = np.mean((answer - wanted) ** 2)
    optimizer.minimize(loss)
print(f"loss {loss.item():.4f}")
