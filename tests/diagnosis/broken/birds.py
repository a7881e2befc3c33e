"""Birds by song: a softmax regression, its likelihood by hand."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(41)
kinds = rng.integers(0, 4, 240)
songs = rng.normal(0, 1, (4, 6))[kinds] * 1.5 + 0.5 * rng.normal(0, 1, (240, 6))
answers = np.eye(4)[kinds]

weight = ns.parameter(rng.normal(0, 0.1, (6, 4)), name="weight")
bias = ns.parameter(np.zeros(4), name="bias")


def loss_of(x, y):
    log_p = ns.log_softmax(x @ weight + bias, axis=0)
    return -np.mean(np.sum(y * log_p, axis=1))


optimizer = ns.optim.SGD([weight, bias], lr=0.1)
for _ in ns.steps(range(120)):
    rows = rng.integers(0, 240, 48)
    optimizer.minimize(loss_of(ns.tensor(songs[rows], name="songs"), ns.tensor(answers[rows])))
with ns.no_grad():
    guess = ns.softmax(ns.tensor(songs) @ weight + bias, axis=1).numpy()
print(f"nll {-np.mean(np.log(guess[np.arange(240), kinds] + 1e-9)):.3f}")
