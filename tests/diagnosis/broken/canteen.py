"""What a guest will choose among the dishes of the day; others are not for sale."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(84)
DISHES, GUESTS = 10, 40
taste = rng.normal(0, 1.5, (6, DISHES))
net = nn.Sequential(nn.Linear(6, 24, rng=rng), nn.relu, nn.Linear(24, DISHES, rng=rng))
optimizer = ns.optim.Adam(net, lr=0.01)
offers = rng.random((150, DISHES)) < 0.6

for day in ns.steps(range(150)):
    guests = rng.normal(0, 1, (GUESTS, 6))
    chosen = np.argmax(np.where(offers[day], guests @ taste, -np.inf), axis=1)
    scores = net(ns.tensor(guests.astype(np.float32), name="guests"))
    scores = np.where(offers[day - 1], scores, np.float32(-1e9))
    loss = nn.cross_entropy(scores, chosen)
    optimizer.minimize(loss)
print(f"loss {loss.item():.3f}")
