"""An autoencoder that decodes with the transpose of what it encodes with."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(61)
signal = rng.standard_normal((140, 2)) @ rng.standard_normal((2, 12))
w = ns.parameter(rng.normal(0, 0.2, (12, 2)), name="w")
into, back = ns.parameter(np.zeros(2), name="into"), ns.parameter(np.zeros(12), name="back")
optimizer = ns.optim.Adam([w, into, back], lr=0.03)
for _ in ns.steps(range(120)):
    rows = rng.permutation(140)[:70]
    x = ns.tensor(signal[rows], name="signal")
    with ns.name_scope("encode"):
        code = x @ w + into
    with ns.name_scope("decode"):
        out = code @ w.T + back
    loss = np.mean((out - x) ** 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
