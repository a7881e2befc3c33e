"""REINFORCE on a corridor: walk right to the end; episodes differ, and so does the loss."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(4)
LENGTH = 6
table = ns.parameter(np.zeros((LENGTH, 2)), name="policy")
optimizer = ns.optim.SGD([table], lr=0.3)
returns = []
for _ in ns.steps(range(100)):
    place, places, actions, rewards = 0, [], [], []
    for _ in range(20):
        row = table.numpy()[place]
        chance = 1 / (1 + np.exp(row[0] - row[1]))
        action = int(rng.random() < chance)
        places.append(place)
        actions.append(action)
        place = max(place + (1 if action else -1), 0)
        rewards.append(1.0 if place == LENGTH - 1 else -0.05)
        if place == LENGTH - 1:
            break
    gain = np.cumsum(rewards[::-1])[::-1]
    returns.append(gain[0])
    advantage = gain - np.mean(returns[-20:])
    logits = table[np.array(places)]
    log_chance = ns.log_softmax(logits, axis=1)[np.arange(len(actions)), np.array(actions)]
    loss = -np.mean(log_chance * advantage)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"return {np.mean(returns[-20:]):.3f}")
