"""Which of five slot machines pays best: a policy gradient with a baseline."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(75)
pay = np.array([0.1, 0.3, 0.8, 0.2, 0.5])
preference = ns.parameter(np.zeros(5), name="preference")
optimizer = ns.optim.SGD([preference], lr=2.0)

for _ in ns.steps(range(80)):
    chance = np.exp(preference.numpy()) / np.exp(preference.numpy()).sum()
    arms = rng.choice(5, 32, p=chance)
    won = (rng.random(32) < pay[arms]).astype(float)[:, None]
    with ns.name_scope("advantage"):
        reward = ns.tensor(won, name="reward")
        advantage = reward - np.mean(reward, axis=1, keepdims=True)
    with ns.name_scope("policy"):
        log_chance = ns.log_softmax(preference)[arms]
        loss = -np.mean(log_chance[:, None] * advantage)
    optimizer.minimize(loss)
print(f"chance of the best {chance[2]:.3f}")
