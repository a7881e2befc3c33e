"""A deeper network with residual blocks fits a bumpy surface."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(8)
places = rng.uniform(-2, 2, (160, 2)).astype(np.float32)
heights = np.sin(2 * places[:, :1]) * np.cos(3 * places[:, 1:])


class Block(nn.Module):
    def __init__(self, size):
        self.inner = nn.Linear(size, size, rng=rng)

    def forward(self, x):
        return x + 0.5 * np.tanh(self.inner(x))


class Tower(nn.Module):
    def __init__(self, size, depth):
        self.stem = nn.Linear(2, size, rng=rng)
        self.blocks = [Block(size)] * depth
        self.head = nn.Linear(size, 1, rng=rng)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


tower = Tower(10, 4)
optimizer = ns.optim.Adam(tower, lr=0.01)


@ns.compile
def train(x, y):
    loss = nn.mse(tower(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


for _ in ns.steps(range(150)):
    loss = train(places, heights)
count = sum(int(np.prod(parameter.shape)) for parameter in tower.parameters())
print(f"loss {loss.item():.4f}, parameters {count}")
