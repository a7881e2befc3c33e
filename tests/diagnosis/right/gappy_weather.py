"""Weather stations that fail now and then: NaN marks what is missing, and is left out."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(52)
season = np.sin(np.arange(120) / 9)
values = season[:, None] * [1.0, 0.8, 1.2, 0.5] + rng.normal(0, 0.1, (120, 4))
values[:, 1:][rng.random((120, 3)) < 0.25] = np.nan  # the first never fails

readings = ns.tensor(values, name="readings")
daily = np.nanmean(readings, axis=1)
gain = ns.parameter(np.ones(4), name="gain")
wave = ns.tensor(season, name="season")
for _ in ns.steps(range(60)):
    there = ~np.isnan(readings)
    gap = np.where(there, readings, 0.0) - np.where(there, gain * wave[:, None], 0.0)
    loss = np.sum(gap**2) / np.sum(there)
    gain.grad = None
    loss.backward()
    with ns.no_grad():
        ns.assign(gain, gain - 0.8 * gain.grad)
print("gain", gain.numpy().round(2), "mean", round(np.nanmean(daily.numpy()), 2))
print(f"loss {loss.item():.4f}")
