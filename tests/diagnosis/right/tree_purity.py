"""Soft decision stump by entropy: parts without members have 0 log 0, which counts as 0."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(7)
height = np.sort(rng.uniform(0, 1, 80))
kinds = np.eye(4)[np.digitize(height, [0.25, 0.5, 0.75])]
counts = (
    kinds[:, None] * (np.arange(8) == np.minimum(height * 8, 7).astype(int)[:, None])[..., None]
)
table = counts.sum(axis=0)  # 8 bins by 4 kinds, most of them zero

parts = ns.tensor(table, name="table")
gains = []
with np.errstate(divide="ignore", invalid="ignore"):
    for width in ns.steps([1, 2, 4, 8]):
        merged = np.sum(parts.reshape(8 // width, width, 4), axis=1)
        share = merged / np.sum(merged, axis=1, keepdims=True)
        terms = np.where(share > 0, share * np.log(share), 0.0)
        entropy = -np.sum(terms, axis=1)
        weight = np.sum(merged, axis=1) / np.sum(merged)
        gains.append(np.sum(weight * entropy).item())
print("entropies", np.round(gains, 3))
print(f"purest {gains[0]:.3f}")
