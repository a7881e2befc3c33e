"""Actor-critic on a one-dimensional lander: hover near zero."""

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(8)


class ActorCritic(nn.Module):
    def __init__(self):
        self.body = nn.Linear(2, 32, rng=rng)
        self.actor = nn.Linear(32, 2, rng=rng)
        self.critic = nn.Linear(32, 1, rng=rng)

    def forward(self, x):
        h = np.tanh(self.body(x))
        return self.actor(h), self.critic(h)[:, 0]


model = ActorCritic()
optimizer = ns.optim.Adam(model, lr=1e-2)
returns_seen = []
for _ in ns.steps(range(150)):
    p, v = rng.uniform(-1, 1), 0.0
    states, actions, rewards = [], [], []
    for _ in range(40):
        with ns.no_grad():
            logits, _ = model(ns.tensor(np.array([[p, v]])))
        chance = np.exp(logits.numpy()[0])
        chance /= chance.sum()
        a = rng.choice(2, p=chance)
        states.append([p, v])
        actions.append(a)
        v = 0.9 * v + (0.1 if a else -0.1)
        p += v
        rewards.append(-min(abs(p), 5.0))
        if abs(p) > 5:
            break
    g, returns = 0.0, []
    for r in reversed(rewards):
        g = r + 0.9 * g
        returns.append(g)
    returns = np.array(returns[::-1]) / 10
    logits, values = model(ns.tensor(np.array(states)))
    target = ns.tensor(returns)
    advantage = (target - values).detach()
    picked = nn.log_softmax(logits, axis=1)[np.arange(len(actions)), np.array(actions)]
    loss = -np.mean(picked * advantage) + 0.5 * np.mean((target - values) ** 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    returns_seen.append(np.mean(rewards))
print(f"reward {np.mean(returns_seen[-30:]):.3f} from {np.mean(returns_seen[:30]):.3f}")
