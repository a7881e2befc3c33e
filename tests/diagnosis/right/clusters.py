"""k-means with k-means++ seeds, until no point changes its cluster."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(55)
true = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0], [-4.0, 2.0]])
points = ns.tensor(np.repeat(true, 30, axis=0) + rng.normal(0, 0.5, (120, 2)), name="points")

seeds = [points.numpy()[0]]
while len(seeds) < 4:
    gaps = np.min([np.sum((points.numpy() - seed) ** 2, axis=1) for seed in seeds], axis=0)
    seeds.append(points.numpy()[np.argmax(gaps)])
centres = ns.tensor(np.stack(seeds), name="seeds")
for _ in ns.steps(range(15)):
    with ns.name_scope("assign"):
        squares = np.sum((points[:, None] - centres) ** 2, axis=2)
        nearest = np.argmin(squares, axis=1)
    with ns.name_scope("update"):
        member = ns.one_hot(nearest, 4)
        centres = (member.T @ points) / np.sum(member, axis=0)[:, None]
    inertia = np.mean(np.min(squares, axis=1))
print(f"inertia {inertia.item():.4f}")
