"""A parallel hyper-parameter search: trials are actors, and the worse half is dropped each round.

    nodescope run samples/ray/hyperparameter_search.py

Successive halving: each trial trains a small network on the same data, with its own settings. Tasks
make the data once, and all trials share it. After each round, the better half continues for twice
as many epochs. The test accuracy of the best trial is printed at the end.
"""

import numpy as np
import ray

ROUNDS = 3
TRIALS = 6


@ray.remote
def make_data(seed, size):
    """Points of two spirals, which no line separates, and their labels."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, size)
    turn = np.sqrt(rng.random(size)) * 3 * np.pi
    angle = turn + np.pi * label
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], axis=1) / 10
    return points + rng.normal(0, 0.02, points.shape), label


@ray.remote
class Trial:
    """A trial: one setting and its network, trained a number of epochs per call."""

    def __init__(self, seed, rate, width):
        rng = np.random.default_rng(seed)
        self.rate = rate
        self.layers = [
            rng.normal(0, 1, (2, width)) * 3,
            rng.normal(0, 1, (width, width)) / np.sqrt(width),
            rng.normal(0, 1, (width, 1)) / np.sqrt(width),
        ]
        self.velocity = [np.zeros_like(w) for w in self.layers]

    def forward(self, x):
        hidden = [x]
        for w in self.layers[:-1]:
            hidden.append(np.tanh(hidden[-1] @ w))
        logits = (hidden[-1] @ self.layers[-1])[:, 0]
        return hidden, 1 / (1 + np.exp(-np.clip(logits, -30, 30)))

    def train(self, data, epochs):
        """Train, and return the loss."""
        x, label = data
        for _ in range(epochs):
            hidden, p = self.forward(x)
            error = ((p - label) / len(x))[:, None]
            for at in reversed(range(len(self.layers))):
                gradient = hidden[at].T @ error
                error = (error @ self.layers[at].T) * (1 - hidden[at] ** 2)
                self.velocity[at] = 0.9 * self.velocity[at] - self.rate * gradient
                self.layers[at] = self.layers[at] + self.velocity[at]
        p = np.clip(self.forward(x)[1], 1e-9, 1 - 1e-9)
        return float(-np.mean(label * np.log(p) + (1 - label) * np.log(1 - p)))

    def test(self, data):
        """The accuracy on ``data``."""
        x, label = data
        return float(np.mean((self.forward(x)[1] > 0.5) == label))


@ray.remote
def better_half(losses):
    """The indices of the better half, best first."""
    order = np.argsort(ray.get(losses))
    return order[: max(1, len(order) // 2)]


def main() -> None:
    ray.init(address="local", num_cpus=2, include_dashboard=False)
    training, testing = make_data.remote(0, 400), make_data.remote(1, 400)
    rng = np.random.default_rng(2)
    trials = []
    for seed in range(TRIALS):
        rate = float(10 ** rng.uniform(-3, 0.3))
        trials.append(Trial.remote(seed, rate, width=int(rng.choice([8, 16, 32]))))
    epochs = 50
    for _ in range(ROUNDS):
        losses = [trial.train.remote(training, epochs) for trial in trials]
        keep = ray.get(better_half.remote(losses))
        trials = [trials[at] for at in keep]
        epochs *= 2
    print(f"test accuracy of the best trial: {ray.get(trials[0].test.remote(testing)):.3f}")
    ray.shutdown()


if __name__ == "__main__":
    main()
