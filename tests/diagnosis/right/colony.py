"""A colony grows by a third in each hour until its food runs out."""

import numpy as np

import nodescope as ns

size = ns.tensor(np.float64([1.0, 2.0, 5.0]), name="size")
ROOM = 1e7
for _ in range(120):
    size = size + 0.33 * size * (1 - size / ROOM)
print(f"short {1 - size.numpy().min() / ROOM:.6f}")
