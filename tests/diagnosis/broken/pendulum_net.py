"""A network learns where a pendulum will be from where it is: a plain training loop."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(6)
state = rng.uniform(-1, 1, (100, 2)).astype(np.float32)
after = np.stack([state[:, 0] + 0.3 * state[:, 1], state[:, 1] - 0.3 * np.sin(state[:, 0])], axis=1)

first = nn.Linear(2, 20, rng=rng)
second = nn.Linear(20, 2, rng=rng)
parameters = [*first.parameters(), *second.parameters()]
learning_rate = 0.1

for iteration in ns.steps(range(90)):
    prediction = second(np.tanh(first(ns.tensor(state, name="state"))))
    loss = nn.mse(prediction, after)
    loss.backward()
    with ns.no_grad():
        for parameter in parameters:
            ns.assign(parameter, parameter - learning_rate * parameter.grad)
    if iteration % 30 == 29:
        print(iteration + 1, round(loss.item(), 5))
print(f"loss {loss.item():.5f}")
