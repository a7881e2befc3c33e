"""Softmax regression written out, on pixels as they come from the camera."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(16)
faces = rng.integers(0, 256, (3, 16))
who = rng.integers(0, 3, 90)
pixels = np.clip(faces[who] + rng.normal(0, 60, (90, 16)), 0, 255)
targets = np.eye(3)[who]

x = ns.tensor(pixels, name="pixels")
t = ns.tensor(targets, name="targets")
w = ns.parameter(rng.normal(0, 0.01, (16, 3)), name="w")
for _ in ns.steps(range(40)):
    with ns.name_scope("softmax"):
        scores = x @ w
        powers = np.exp(scores - np.max(scores, axis=1, keepdims=True))
        p = powers / np.sum(powers, axis=1, keepdims=True)
    with ns.name_scope("loss"), np.errstate(divide="ignore", invalid="ignore"):
        loss = -np.mean(np.sum(t * np.log(p), axis=1))
    w.grad = None
    with np.errstate(divide="ignore", invalid="ignore"):
        loss.backward()
    with ns.no_grad():
        ns.assign(w, w - 0.05 * w.grad)
print(f"loss {loss.item():.4f}")
