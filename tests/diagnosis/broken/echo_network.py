"""A vanilla recurrent network repeats what it heard five moments ago."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(26)
UNITS, LENGTH = 24, 15

into = ns.parameter(rng.normal(0, 0.5, (1, UNITS)), name="into")
again = ns.parameter(rng.normal(0, 0.8, (UNITS, UNITS)), name="again")
out = ns.parameter(rng.normal(0, 0.2, (UNITS, 1)), name="out")
optimizer = ns.optim.SGD([into, again, out], lr=0.02)


@ns.compile
def train(heard, wanted):
    state = ns.zeros((16, UNITS))
    answers = []
    for moment in range(LENGTH):
        state = nn.relu(heard[:, moment] @ into + state @ again)
        answers.append(state @ out)
    loss = np.mean((np.stack(answers[2:], axis=1) - wanted) ** 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


np.seterr(all="ignore")
for number in ns.steps(range(40)):
    sound = rng.normal(0, 1, (16, LENGTH, 1))
    loss = train(sound, sound[:, :-2])
    if number % 10 == 9:
        print(f"{number + 1}: loss {loss.item():.4g}")
