"""LoRA: a trained layer stays as it is, and a low-rank product is learned beside it."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(2)
pretrained = rng.normal(0, 0.4, (16, 8)).astype(np.float32)
shift = rng.normal(0, 0.4, (16, 2)) @ rng.normal(0, 0.4, (2, 8))
x = rng.standard_normal((128, 16)).astype(np.float32)
y = (x @ (pretrained + shift)).astype(np.float32)


class LoRALinear(nn.Module):
    def __init__(self, weight, rank):
        self.weight = nn.buffer(weight, name="weight")
        self.a = ns.parameter(rng.normal(0, 0.25, (16, rank)).astype(np.float32))
        self.b = ns.parameter(np.zeros((rank, 8), np.float32))

    def forward(self, x):
        return x @ self.weight + (x @ self.a) @ self.b


layer = LoRALinear(pretrained, 2)
optimizer = ns.optim.AdamW(layer, lr=0.02, weight_decay=0.0)
for _ in ns.steps(range(120)):
    optimizer.zero_grad()
    loss = nn.mse(layer(ns.tensor(x, name="x")), y)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.5f}")
