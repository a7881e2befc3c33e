"""Which half of a sequence was louder: a recurrent network written by hand."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(77)
inputs = ns.parameter(rng.normal(0, 0.5, (1, 16)), name="inputs")
inner = ns.parameter(rng.normal(0, 0.25, (16, 16)), name="inner")
bias = ns.parameter(np.zeros(16), name="bias")
out = ns.parameter(rng.normal(0, 0.3, (16, 2)), name="out")
start = np.zeros((32, 16))
optimizer = ns.optim.Adam([inputs, inner, bias, out], lr=0.01)
losses = []
for _ in ns.steps(range(250)):
    sound = rng.normal(0, 1, (32, 8))
    label = (np.sum(sound[:, :4], axis=1) > np.sum(sound[:, 4:], axis=1)).astype(int)
    h = ns.tensor(start, name="start")
    x = ns.tensor(sound, name="sound")
    for t in range(8):
        h = np.tanh(x[:, t : t + 1] @ inputs + ns.tensor(start, name="state") @ inner + bias)
    loss = ns.cross_entropy(h @ out, ns.tensor(label, name="label"))
    optimizer.minimize(loss)
    losses.append(loss.item())
print(f"loss {np.mean(losses[-20:]):.4f}")
