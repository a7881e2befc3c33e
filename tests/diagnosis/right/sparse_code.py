"""Sparse coding: an L1 penalty keeps nearly all codes at zero, as it should."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(6)
atoms = rng.normal(0, 1, (40, 16))
atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
pick = (rng.random((300, 40)) < 0.05) * rng.uniform(1, 2, (300, 40))
x = pick @ atoms + rng.normal(0, 0.02, (300, 16))

dictionary = ns.tensor(atoms, name="dictionary")
code = ns.tensor(np.zeros((300, 40)), name="code")
step_size = 1.0 / np.linalg.norm(atoms @ atoms.T, 2)
THRESHOLD = 0.1


def ista(code):
    with ns.name_scope("ista"):
        residual = code @ dictionary - x
        moved = code - step_size * (residual @ dictionary.T)
        return nn.relu(moved - step_size * THRESHOLD), np.mean(np.square(residual))


for _step in ns.steps(range(200)):
    code, loss = ista(code)
print(f"zeros {np.mean(code.numpy() == 0):.3f}")
print(f"loss {loss.item():.5f}")
