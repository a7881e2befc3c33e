"""Meta-learning: a start from which one step fits any line (MAML, with second derivatives)."""

import numpy as np

import nodescope as ns

rng = np.random.default_rng(68)
start = {
    "w": ns.parameter(rng.normal(0, 1, 2), name="w"),
    "b": ns.parameter(0.0, name="b"),
}


def error(params, x, y):
    return np.mean((params["w"][0] * x + params["w"][1] * x**2 + params["b"] - y) ** 2)


def after_one_step(params, tasks):
    total = 0.0
    for x, y in tasks:
        slopes = ns.grad(error)(params, x, y)
        moved = {name: params[name] - 0.3 * slopes[name] for name in params}
        total = total + error(moved, x, y)
    return total / len(tasks)


losses = []
for _ in ns.steps(range(60)):
    tasks = []
    for _ in range(3):
        slope, x = rng.uniform(1, 3), rng.uniform(-1, 1, 16)
        tasks.append((ns.tensor(x), ns.tensor(slope * x - 0.5)))
    loss, slopes = ns.value_and_grad(after_one_step)(start, tasks)
    with ns.no_grad():
        for name, parameter in start.items():
            ns.assign(parameter, parameter - 0.3 * slopes[name])
    losses.append(loss.item())
print(f"loss {np.mean(losses[-10:]):.4f}")
