"""A trained model is loaded and scores new data; nothing is trained."""

import io

import numpy as np

import nodescope as ns
from nodescope import nn

rng, draws = np.random.default_rng(69), ns.random.Generator(0)


def build():
    return nn.Sequential(
        nn.Conv1d(1, 4, 3, rng=rng),
        nn.relu,
        nn.Flatten(),
        nn.Dropout(0.5, rng=draws),
        nn.Linear(24, 2, rng=rng),
    )


file = io.BytesIO()  # in place of a file on disk
np.savez(file, **build().state_dict())
file.seek(0)

model = build()
model.load_state_dict(np.load(file))
model.eval()
with ns.no_grad():
    answers = []
    for start in range(0, 60, 20):
        waves = np.sin(np.arange(start, start + 20)[:, None] / 5 + np.arange(8) / 3)
        chance = nn.softmax(model(ns.tensor(waves[:, None].astype(np.float32), name="waves")))
        answers.append(chance.numpy()[:, 1])
again = nn.softmax(model(ns.tensor(waves[:, None].astype(np.float32)))).numpy()[:, 1]
print(f"differs by {np.abs(again - answers[-1]).max():.6f}")
