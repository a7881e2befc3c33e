"""A small classifier of two-channel signals, with noise added to each batch as augmentation."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(21)


def signals(n):
    label = rng.integers(0, 6, n)
    time = np.linspace(0, 1, 20)
    phase = rng.uniform(0, 1, (n, 1))
    wave = np.sin(2 * np.pi * ((label[:, None] + 1) * time + phase))
    return (wave + rng.normal(0, 0.3, wave.shape)).astype(np.float32), label


def augment(batch, strength=0.4):
    batch += rng.normal(0, strength, batch.shape).astype(np.float32)
    return batch


def batches(x, y, epochs, size=32):
    for _ in range(epochs):
        for start in range(0, len(x), size):
            yield augment(x[start : start + size]), y[start : start + size]


class Net(nn.Module):
    def __init__(self):
        self.a = nn.Linear(20, 32, rng=rng)
        self.b = nn.Linear(32, 6, rng=rng)

    def forward(self, x):
        return self.b(nn.relu(self.a(x)))


x_train, y_train = signals(256)
x_test, y_test = signals(300)
net = Net()
optimizer = ns.optim.Adam(net, lr=0.01)
history = []
for xb, yb in ns.steps(batches(x_train, y_train, epochs=40)):
    loss = nn.cross_entropy(net(ns.tensor(xb, name="batch")), yb)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())

with ns.no_grad():
    guess = net(ns.tensor(x_test)).numpy().argmax(axis=1)
print(f"accuracy {np.mean(guess == y_test):.4f}")
print(f"loss {np.mean(history[-16:]):.4f}")
