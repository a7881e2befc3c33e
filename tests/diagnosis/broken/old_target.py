"""Q-learning on a chain of rooms, with a target network that is updated now and then."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(37)
ROOMS, DISCOUNT, EVERY = 6, 0.9, 10

online = ns.parameter(np.zeros((ROOMS, 2)), name="online")
target = ns.parameter(np.zeros((ROOMS, 2)), name="target")
optimizer = ns.optim.SGD([online], lr=2.0)
for update in ns.steps(range(1, 151)):
    room = rng.integers(0, ROOMS - 1, 32)
    action = rng.integers(0, 2, 32)
    after = np.clip(room + 2 * action - 1, 0, ROOMS - 1)
    end = after == ROOMS - 1
    with ns.name_scope("target"), ns.no_grad():
        best = np.max(target[after], axis=1)
        wanted = end + DISCOUNT * np.where(end, 0.0, best)
    with ns.name_scope("online"):
        guess = online[room, action]
        loss = np.mean((guess - wanted) ** 2)
    optimizer.minimize(loss)
    if update == EVERY * 100:
        ns.assign(target, online.detach())
print(online.numpy().round(2).tolist())
print(f"worth of the first room {online.numpy()[0, 1]:.3f}")
