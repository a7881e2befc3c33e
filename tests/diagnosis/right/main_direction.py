"""The main direction of a cloud by power iteration, which soon stands still."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(56)
cloud = rng.standard_normal((150, 5)) * [5.0, 2.0, 1.0, 0.5, 0.2]
turn = np.linalg.qr(rng.standard_normal((5, 5)))[0]
x = ns.tensor(cloud @ turn, name="cloud")


@ns.compile
def iterate(direction):
    product = x.T @ (x @ direction)
    return product / np.linalg.norm(product)


direction = ns.tensor(np.eye(5)[0], name="direction")
for _ in ns.steps(range(60)):
    direction = iterate(direction)
print(f"cosine {abs(direction.numpy() @ turn[0]):.4f}")
