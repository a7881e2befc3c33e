"""A flow of two affine layers with a leaky bend between: density of correlated points."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(14)
data = rng.normal(0, 1, (256, 2)) @ np.array([[1.5, 0.6], [0.0, 0.7]]) + [1.0, -2.0]

log_scale = [ns.parameter(np.zeros(2), name=f"log_scale{i}") for i in range(2)]
mix = ns.parameter(np.array(0.0), name="mix")
shift = [ns.parameter(np.zeros(2), name=f"shift{i}") for i in range(2)]
parameters = [*log_scale, *shift, mix]


def negative_log_likelihood(x):
    z = (x - shift[0]) * np.exp(log_scale[0])
    log_det = np.sum(log_scale[0])
    z = np.stack([z[:, 0], z[:, 1] - mix * z[:, 0]], axis=1)
    z = z * np.exp(log_scale[1]) + shift[1]
    log_det = log_det + np.sum(log_scale[1])
    return np.mean(0.5 * np.sum(z * z, axis=1)) + np.log(2 * np.pi) + log_det


for _ in ns.steps(range(150)):
    rows = rng.integers(0, 256, 64)
    loss = negative_log_likelihood(ns.tensor(data[rows], name="points"))
    loss.backward()
    with ns.no_grad():
        for p in parameters:
            ns.assign(p, p - 0.05 * p.grad)
            p.grad = None
spread = (data - shift[0].numpy()) * np.exp(log_scale[0].numpy() + log_scale[1].numpy())
print(f"spread off by {abs(np.log(spread[:, 0].std())):.3f}")
