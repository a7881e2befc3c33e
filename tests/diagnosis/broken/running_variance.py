"""Sensor values far from zero: their spread is summed as they come, used when training is over."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(23)
readings = (1013.25 + rng.normal(0, 0.05, (40, 32, 3))).astype(np.float32)
later = (1013.25 + rng.normal(0, 0.05, (32, 3))).astype(np.float32)

mean = ns.tensor(np.zeros(3, np.float32), name="mean")
square = ns.tensor(np.zeros(3, np.float32), name="square")
w = ns.parameter(np.zeros(3), name="w")
for number, batch in enumerate(ns.steps(readings), 1):
    x = ns.tensor(batch, name="batch")
    with ns.name_scope("statistics"):
        mean = mean + (np.mean(x, axis=0) - mean) / number
        square = square + (np.mean(x**2, axis=0) - square) / number
    with ns.name_scope("model"):
        deviation = x.astype(np.float64) - 1013.25
        loss = np.mean((deviation @ w - (batch - 1013.25) @ [1.0, -1.0, 0.5]) ** 2)
    w.grad = None
    loss.backward()
    with ns.no_grad():
        ns.assign(w, w - 100.0 * w.grad)

with np.errstate(invalid="ignore"), ns.name_scope("use"):
    spread = np.sqrt(square - mean**2)
    scores = (ns.tensor(later, name="later") - mean) / spread
print(f"loss {loss.item():.6f}")
print(f"largest score {np.abs(scores.numpy()).max():.3f}")
