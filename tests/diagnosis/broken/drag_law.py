"""A falling ball in a fluid: fit the drag's factor and exponent to a measured path."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(22)
DT, COUNT = 0.1, 20


def path(factor, exponent, throw):
    """Heights after each of COUNT moments; upwards is positive."""
    height, speed, heights = 0.0 * throw, throw, []
    for _ in range(COUNT):
        drag = factor * speed**exponent
        speed = speed + DT * (-9.81 - drag)
        height = height + DT * speed
        heights.append(height)
    return np.stack(heights)


with np.errstate(invalid="ignore"):
    v, h, measured = 8.0, 0.0, []
    for _ in range(COUNT):
        v = v + DT * (-9.81 - 0.3 * np.sign(v) * abs(v) ** 1.5)
        h = h + DT * v
        measured.append(h)
    factor = ns.parameter(0.2, name="factor")
    exponent = ns.parameter(1.3, name="exponent")
    optimizer = ns.optim.Adam([factor, exponent], lr=0.02)
    for _ in ns.steps(range(60)):
        loss = np.mean((path(factor, exponent, ns.tensor(8.0)) - np.array(measured)) ** 2)
        optimizer.minimize(loss)
print(f"loss {loss.item():.5f}")
