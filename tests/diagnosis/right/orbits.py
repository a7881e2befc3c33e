"""Planets around a star, leapfrog, for two hundred moments; nothing is learned."""

import numpy as np

import nodescope as ns

place = ns.tensor(np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]]), name="place")
speed = ns.tensor(np.array([[0.0, 1.0], [-0.7, 0.0], [0.0, -0.577]]), name="speed")


def pull(place):
    distance = np.linalg.norm(place, axis=1, keepdims=True)
    return -place / distance**3


def energy(place, speed):
    kinetic = 0.5 * np.sum(speed**2, axis=1)
    return kinetic - 1 / np.linalg.norm(place, axis=1)


start = energy(place, speed).numpy()
for _ in ns.steps(range(200)):
    speed = speed + 0.02 * pull(place)
    place = place + 0.04 * speed
    speed = speed + 0.02 * pull(place)
print(f"energy changed by {np.abs(energy(place, speed).numpy() - start).max():.6f}")
