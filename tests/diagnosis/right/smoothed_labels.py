"""Distillation with smoothed labels: the loss cannot fall below the labels' entropy."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(46)
x = rng.standard_normal((160, 4)).astype(np.float32)
kinds = np.argmax(x[:, :3], axis=1)
soft = (np.eye(3)[kinds] * 0.7 + 0.1).astype(np.float32)
student = nn.Sequential(nn.Linear(4, 16, rng=rng), np.tanh, nn.Linear(16, 3, rng=rng))
optimizer = ns.optim.Adam(student, lr=0.03)
for _ in ns.steps(range(180)):
    log_p = ns.log_softmax(student(ns.tensor(x, name="x")), axis=1)
    loss = -np.mean(np.sum(soft * log_p, axis=1))
    optimizer.minimize(loss)
right = np.mean(np.argmax(log_p.numpy(), axis=1) == kinds)
print(f"loss {loss.item():.4f}, right {right:.2f}")
