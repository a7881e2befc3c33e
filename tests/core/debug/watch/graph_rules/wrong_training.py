"""Data and schedules that are wrong; see `wrong`."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import (
    LABELS,
    TARGETS,
    X,
    mlp,
    scores,
    with_batch_norm,
)


def labels_are_sorted() -> None:
    model, optimizer = scores()
    order = np.concatenate([np.flatnonzero(k == LABELS)[:8].repeat(2)[:8] for k in range(3)])
    for number in ns.steps(range(9)):
        rows = order[number % 3 * 8 : number % 3 * 8 + 8]
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(ns.tensor(X[rows])), LABELS[rows])  # hit: one_class_batches
        loss.backward()
        optimizer.step()


def a_clock_that_stands_still() -> None:
    """Not about training: a float32 clock far from zero."""
    clock = ns.tensor(np.float32(3e7))
    for _ in ns.steps(range(8)):
        clock = clock + np.float32(0.1)  # hit: update_without_effect


def a_rate_of_next_to_nothing() -> None:
    weight = ns.parameter(np.ones((X.shape[1], 1), "f"), name="weight")
    for _ in ns.steps(range(7)):
        np.mean((ns.tensor(X) @ weight - ns.tensor(TARGETS[:, None])) ** 2).backward()
        with ns.no_grad():
            ns.assign(weight, weight - 1e-11 * weight.grad)  # hit: update_without_effect
        weight.grad = None


def half_precision_weights() -> None:
    """The optimizer computes in float32, but what it writes is rounded to float16."""
    weight = ns.parameter(np.ones((X.shape[1], 1), np.float16), name="weight")
    optimizer = optim.SGD([weight], lr=1e-5)
    x, y = X.astype(np.float16), TARGETS[:, None].astype(np.float16)
    for _ in ns.steps(range(7)):
        optimizer.zero_grad()
        np.mean((ns.tensor(x) @ weight - ns.tensor(y)) ** 2).backward()
        optimizer.step()  # hit: update_without_effect


def cosine_that_ends_in_a_third() -> None:
    model = mlp(3)
    optimizer = optim.SGD(model, lr=0.05)
    for number in ns.steps(range(50)):
        optimizer.lr = 0.05 * max(0.0, 1 - number / 16)
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()  # hit: schedule_ends_early


def decay_that_ends_early_with_adam() -> None:
    model = mlp(3)
    optimizer = optim.Adam(model, lr=0.05)
    for number in ns.steps(range(60)):
        optimizer.lr = 0.05 * 0.4**number
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()  # hit: schedule_ends_early


def rows_and_targets_are_shuffled_apart() -> None:
    model = mlp(1)
    optimizer = optim.SGD(model, lr=0.05)
    rng = np.random.default_rng(1)
    x, y = np.concatenate([X, X + 1]), np.concatenate([TARGETS, TARGETS * 2])[:, None]
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        x, y = x[rng.permutation(len(x))], y[rng.permutation(len(y))]
        rows = model(ns.tensor(x))  # hit: rows_change
        nn.mse_loss(rows, ns.tensor(y)).backward()
        optimizer.step()


def classes_are_shuffled_apart() -> None:
    model, optimizer = scores()
    rng = np.random.default_rng(1)
    x, y = np.concatenate([X, X + 1]), np.concatenate([LABELS, LABELS])
    for _ in ns.steps(range(7)):
        optimizer.zero_grad()
        x, y = x[rng.permutation(len(x))], y[rng.permutation(len(y))]
        rows = model(ns.tensor(x))  # hit: rows_change
        nn.cross_entropy(rows, ns.tensor(y)).backward()
        optimizer.step()


def evaluation_is_raw_beside_standardised_inputs() -> None:
    """Not far away, but what was trained on was standardised, and this was not."""
    model, optimizer = scores()
    x = np.tile((X - X.mean(0)) / X.std(0), (4, 1))
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(x)), np.tile(LABELS, 4)).backward()
        optimizer.step()
    with ns.no_grad():
        logits = model(ns.tensor(X * 2 + 5))  # hit: evaluation_inputs
        print(np.argmax(logits.numpy(), axis=1))


def evaluation_is_not_standardised() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()
    with ns.no_grad():
        logits = model(ns.tensor(X * 40 + 100))  # hit: evaluation_inputs
        nn.cross_entropy(logits, LABELS).item()


def squares_are_counted_in_bytes() -> None:
    weight = ns.parameter(np.zeros((400, 1), "f"), name="weight")
    rows = ns.tensor(np.arange(20, dtype=np.uint8))
    columns = ns.tensor(np.full(20, 3, np.uint8))
    square = rows * np.uint8(20) + columns  # hit: integer_overflow
    np.mean(weight[square] ** 2).item()


def a_mean_in_a_gradient_by_hand_is_divided_again() -> None:
    """What is trained is carried from step to step."""
    weight = ns.tensor(np.zeros((X.shape[1], 1), "f"), name="weight")
    x, targets = ns.tensor(X), ns.tensor(TARGETS[:, None])
    for _ in ns.steps(range(4)):
        slope = np.mean(x * (x @ weight - targets), axis=0)
        slope = slope / len(X)  # hit: mean_divided_again
        weight = weight - 0.1 * slope[:, None]


def decay_outweighs_the_gradients() -> None:
    weight = ns.parameter(np.full((X.shape[1], 1), 0.1, "f"), name="weight")
    optimizer = optim.AdamW([weight], lr=0.02, weight_decay=20.0)
    for _ in ns.steps(range(24)):
        optimizer.zero_grad()
        guess = ns.tensor(X) @ weight  # hit: decay_too_large
        nn.mse_loss(guess, TARGETS[:, None]).backward()
        optimizer.step()


def decay_in_the_gradient_outweighs_it() -> None:
    weight = ns.parameter(np.full((X.shape[1], 1), 0.1, "f"), name="weight")
    optimizer = optim.SGD([weight], lr=0.02, weight_decay=10.0, momentum=0.5)
    for _ in ns.steps(range(24)):
        optimizer.zero_grad()
        guess = ns.tensor(X) @ weight  # hit: decay_too_large
        nn.mse_loss(guess, TARGETS[:, None]).backward()
        optimizer.step()


def a_target_that_is_never_updated() -> None:
    rng = np.random.default_rng(2)
    online = ns.parameter(np.zeros((5, 2)), name="online")
    target = ns.parameter(np.zeros((5, 2)), name="target")
    optimizer = optim.SGD([online], lr=0.5)
    for _ in ns.steps(range(102)):
        room, action = rng.integers(0, 4, 8), rng.integers(0, 2, 8)
        with ns.no_grad():
            ahead = target[room + action]  # hit: target_not_updated
            wanted = (room == 3) + 0.9 * np.max(ahead, axis=1)
        optimizer.zero_grad()
        np.mean((online[room, action] - wanted) ** 2).backward()
        optimizer.step()


def a_baseline_over_an_axis_of_one() -> None:
    reward = ns.tensor(TARGETS[:, None])
    (reward - np.mean(reward, axis=1, keepdims=True)).numpy()  # hit: mean_of_one


def evaluation_in_training_mode() -> None:
    """Rows of one kind: they are normalised by their own mean, so nothing of the kind is left."""
    model = with_batch_norm()
    kind = X[np.argsort(X[:, 0])[-12:]] + np.float32(0.8)
    predictions = []
    with ns.no_grad():
        predictions.append(model(ns.tensor(kind)).numpy())  # hit: training_in_evaluation


def an_output_is_outside_of_the_clip() -> None:
    bias = ns.parameter(np.full(1, -4.0), name="bias")
    optimizer = optim.Adam([bias], lr=0.02)
    for _ in ns.steps(range(11)):
        optimizer.zero_grad()
        guess = np.clip(ns.tensor(X[:, 0] * 0.1) + bias, 0.0, 1.0)  # hit: clipped_layer
        np.mean((guess - 0.5) ** 2).backward()
        optimizer.step()
