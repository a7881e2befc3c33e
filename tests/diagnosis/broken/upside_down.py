"""Waiting times at a counter: the rate of a gamma law by maximum likelihood."""

import math

import numpy as np

import nodescope as ns

rng = np.random.default_rng(31)
hours = rng.integers(0, 3, 300)
waits = rng.gamma(2.0, np.array([1.0, 2.0, 0.5])[hours])

log_rate = ns.parameter(np.zeros(3), name="log_rate")


@ns.compile
def objective(log_rate, hours, waits):
    chosen = log_rate[hours]
    likelihood = 2.0 * chosen + np.log(waits) - waits * np.exp(chosen) - math.lgamma(2.0)
    return np.mean(likelihood)


np.seterr(all="ignore")
for _ in ns.steps(range(60)):
    value, slope = ns.value_and_grad(objective)(log_rate, hours, waits)
    ns.assign(log_rate, log_rate.detach() - 0.5 * slope)
rates = np.exp(log_rate.numpy())
print("rates", rates.round(3))
print(f"error {np.abs(np.log(rates) - np.log([1.0, 0.5, 2.0])).max():.3f}")
