"""Exclusive or with three hidden units, until every answer is right."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(11)
inputs = ns.tensor(np.array([[0, 0], [0, 1], [1, 0], [1, 1]], float), name="inputs")
answers = ns.tensor(np.array([0.0, 1.0, 1.0, 0.0]), name="answers")
w1 = ns.parameter(rng.normal(0, 1.0, (2, 3)), name="w1")
b1 = ns.parameter(np.zeros(3), name="b1")
w2 = ns.parameter(rng.normal(0, 1.0, 3), name="w2")
b2 = ns.parameter(0.0, name="b2")
for _ in ns.steps(range(200)):
    with ns.GradientTape() as tape:
        hidden = np.tanh(inputs @ w1 + b1)
        logit = hidden @ w2 + b2
        loss = np.mean(np.logaddexp(0, logit) - answers * logit)
    with ns.no_grad():
        for value, slope in zip(
            (w1, b1, w2, b2), tape.gradient(loss, [w1, b1, w2, b2]), strict=True
        ):
            ns.assign(value, value - 1.0 * slope)
right = np.mean((logit.numpy() > 0) == answers.numpy())
print(f"right {right:.2f}, loss {loss.item():.4f}")
