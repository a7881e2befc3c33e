"""A buoy drifts at random: its place is filtered, and while nobody sees it, less is known of it."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(95)
STEPS = 300
place = np.cumsum(rng.normal(0, 1, (STEPS, 2)), axis=0)
seen = place + rng.normal(0, 0.5, (STEPS, 2))
move, blur = ns.tensor(np.eye(2), name="move"), ns.tensor(0.25 * np.eye(2), name="blur")
mean, spread = ns.zeros((2,)), ns.tensor(np.eye(2), name="spread")
widest = 0.0
for number in range(STEPS):
    spread = spread + move
    if number % 100 < 60:  # at night nobody looks
        gain = spread @ np.linalg.inv(spread + blur)
        mean = mean + gain @ (seen[number] - mean)
        spread = spread - gain @ spread
    widest = max(widest, spread.numpy()[0, 0])
print(f"off {np.abs(mean.numpy() - place[259]).max():.3f}, widest {widest:.1f}")
