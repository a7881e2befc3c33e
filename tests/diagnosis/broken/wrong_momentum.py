"""Least squares by momentum, written out: find the centre of a cloud of circles."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(39)
centre = np.array([1.0, -2.0])
around = centre + rng.normal(0, 0.2, (60, 2)) + 3 * rng.standard_normal((60, 2))
radius = np.linalg.norm(around - centre, axis=1)
points = ns.tensor(around, name="points")

place = ns.tensor(np.zeros(2), name="place")
velocity = ns.tensor(np.zeros(2), name="velocity")


def misfit(place):
    gap = np.sqrt(np.sum((points - place) ** 2, axis=1) + 1e-6) - radius
    return np.mean(gap**2)


for _ in ns.steps(range(80)):
    loss, slope = ns.value_and_grad(misfit)(place)
    with ns.name_scope("update"):
        velocity = 0.8 * velocity - 0.1 * slope
        place = place - velocity
print(f"loss {loss.item():.4f}")
