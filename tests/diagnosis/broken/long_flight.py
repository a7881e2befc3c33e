"""A spring on a space probe, simulated late in its mission: its period is 2 pi seconds."""

import numpy as np

import nodescope as ns

time = ns.tensor(np.float32(40_000_000.0), name="time")
dt = np.float32(0.05)
position = ns.tensor(np.float32(1.0), name="position")
speed = ns.tensor(np.float32(0.0), name="speed")
start = time.item()

heights = []
for _ in ns.steps(range(126)):
    with ns.name_scope("spring"):
        speed = speed - dt * position
        position = position + dt * speed
    with ns.name_scope("clock"):
        time = time + dt
    heights.append(position.item())
print(f"position {position.item():.3f}")
print(f"elapsed {time.item() - start:.2f} seconds")
