"""Q-learning in a small maze; the target network is copied every ten updates."""

import copy

import numpy as np

import nodescope as ns
from nodescope import nn

rng = np.random.default_rng(63)
SIZE, DISCOUNT = 4, 0.9
moves = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])
online = nn.Linear(SIZE * SIZE, 4, rng=rng)
target = copy.deepcopy(online)
optimizer = ns.optim.Adam(online, lr=0.03)
memory = []
place = np.array([0, 0])
for update in ns.steps(range(150)):
    for _ in range(6):
        action = rng.integers(0, 4)
        after = np.clip(place + moves[action], 0, SIZE - 1)
        goal = bool(np.all(after == SIZE - 1))
        memory.append((place @ [SIZE, 1], action, after @ [SIZE, 1], goal))
        place = np.array([0, 0]) if goal or rng.random() < 0.05 else after
    chosen = [memory[n] for n in rng.integers(0, len(memory), 48)]
    s, a, t, g = map(np.array, zip(*chosen, strict=True))
    eye = np.eye(SIZE * SIZE, dtype=np.float32)
    future = ns.stop_gradient(np.max(target(ns.tensor(eye[t])), axis=1))
    wanted = g.astype(np.float32) + DISCOUNT * np.where(g, np.float32(0), future)
    guess = online(ns.tensor(eye[s]))[np.arange(48), a]
    loss = nn.smooth_l1_loss(guess, wanted)
    optimizer.minimize(loss)
    if update % 10 == 9:
        target.load_state_dict(online.state_dict())
values = online(np.eye(SIZE * SIZE, dtype=np.float32)).numpy().max(axis=1)
print(f"beside the goal {values[11]:.3f}")
