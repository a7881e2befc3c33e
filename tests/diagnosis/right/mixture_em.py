"""Two heights of people: a mixture of two bell curves by expectation and maximisation."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(57)
heights = np.concatenate([rng.normal(165, 6, 120), rng.normal(179, 7, 80)])
x = ns.tensor(heights, name="heights")
mean = ns.tensor(np.array([155.0, 190.0]), name="mean")
spread = ns.tensor(np.array([10.0, 10.0]), name="spread")
share = ns.tensor(np.array([0.5, 0.5]), name="share")

scores = []
for _ in ns.steps(range(110)):
    with ns.name_scope("expectation"):
        z = (x[:, None] - mean) / spread
        log_joint = np.log(share) - np.log(spread) - 0.5 * z**2
        log_sum = ns.logsumexp(log_joint, axis=1)
        belongs = np.exp(log_joint - log_sum[:, None])
    with ns.name_scope("maximisation"):
        count = np.sum(belongs, axis=0)
        mean = np.sum(belongs * x[:, None], axis=0) / count
        spread = np.sqrt(np.sum(belongs * (x[:, None] - mean) ** 2, axis=0) / count)
        share = count / len(heights)
    scores.append(np.mean(log_sum).item())
assert np.all(np.diff(scores) > -1e-9)
print("means", mean.numpy().round(1), f"last gain {scores[-1] - scores[-2]:.2e}")
