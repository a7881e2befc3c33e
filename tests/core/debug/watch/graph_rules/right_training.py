"""Correct data and schedules that look wrong; see `right`."""

from __future__ import annotations

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import (
    CLASSES,
    LABELS,
    TARGETS,
    X,
    mlp,
    scores,
    with_batch_norm,
)

N = len(X)


def nearly_all_of_one_class() -> None:
    """Few labels are of the other class, so most batches contain a single class."""
    model, optimizer = scores(2)
    labels = np.zeros(N, int)
    labels[5] = 1
    for number in ns.steps(range(12)):
        rows = slice(number % 3 * 8, number % 3 * 8 + 8)
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X[rows])), labels[rows]).backward()
        optimizer.step()


def one_task_after_the_other() -> None:
    """Continual learning: first one class, then two others."""
    model, optimizer = scores()
    for number in ns.steps(range(10)):
        labels = np.full(8, 0) if number < 5 else np.arange(8) % 2 + 1
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X[:8])), labels).backward()
        optimizer.step()


def one_judge_for_real_and_made() -> None:
    """A discriminator sees a batch of ones and one of zeros in each step."""
    model, optimizer = scores(1)
    for _ in ns.steps(range(10)):
        optimizer.zero_grad()
        for x, target in ((X, 1.0), (X * 2, 0.0)):
            logits = model(ns.tensor(x))
            nn.binary_cross_entropy_with_logits(logits, np.full((N, 1), target, "f")).backward()
        optimizer.step()


def a_schedule_that_ends_with_training() -> None:
    model, optimizer = scores()
    for number in ns.steps(range(60)):
        optimizer.lr = 0.05 * 10 ** (-5 * number / 59)
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()


def warm_restarts() -> None:
    """The rate falls to zero and restarts, several times."""
    model, optimizer = scores()
    for number in ns.steps(range(60)):
        optimizer.lr = 0.025 * (1 + np.cos(np.pi * (number % 20) / 19))
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()


def small_constants() -> None:
    """Sums whose small part is lost on purpose: an epsilon under a root."""
    model, optimizer = scores(1)
    for _ in ns.steps(range(8)):
        optimizer.zero_grad()
        error = np.abs(model(ns.tensor(X))[:, 0] - ns.tensor(TARGETS)) + 1e-12
        np.mean(np.sqrt(np.square(error) + 1e-20)).backward()
        optimizer.step()


def converged_regression() -> None:
    """Newton's method: after some steps, nothing changes."""
    weight = ns.parameter(np.zeros((X.shape[1], 1), "f"), name="weight")
    inverse = np.linalg.inv(X.T @ X).astype("f")
    x, y = ns.tensor(X), ns.tensor(TARGETS[:, None])
    for _ in ns.steps(range(12)):
        slope = x.T @ (x @ weight - y)
        with ns.no_grad():
            ns.assign(weight, weight - ns.tensor(inverse) @ slope)


def half_precision_that_converges() -> None:
    """float16 weights with steps of a size that float16 holds."""
    weight = ns.parameter(np.zeros((X.shape[1], 1), np.float16), name="weight")
    x, y = X.astype(np.float16), TARGETS[:, None].astype(np.float16)
    optimizer = optim.SGD([weight], lr=0.2)
    for _ in ns.steps(range(30)):
        optimizer.zero_grad()
        np.mean((ns.tensor(x) @ weight - ns.tensor(y)) ** 2).backward()
        optimizer.step()


def slow_warm_up() -> None:
    model = mlp(CLASSES)
    optimizer = optim.Adam(model, lr=0.0)
    for number in ns.steps(range(30)):
        optimizer.lr = 1e-6 * number
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()


def labels_with_noise_in_each_epoch() -> None:
    """Some labels are redrawn in each epoch on purpose."""
    model, optimizer = scores()
    rng = np.random.default_rng(8)
    for _ in ns.steps(range(8)):
        labels = np.where(rng.random(N) < 0.2, rng.integers(0, CLASSES, N), LABELS)
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), labels).backward()
        optimizer.step()


def rows_are_scaled_at_random() -> None:
    """Augmentation: each row is scaled by its own factor."""
    model, optimizer = scores()
    rng = np.random.default_rng(8)
    for _ in ns.steps(range(8)):
        factors = np.exp(rng.normal(0, 1, (N, 1))).astype("f")
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X * factors)), LABELS).backward()
        optimizer.step()


def rows_and_targets_are_shuffled_together() -> None:
    model = mlp(1)
    optimizer = optim.SGD(model, lr=0.05)
    rng = np.random.default_rng(1)
    x, y = np.concatenate([X, X + 1]), np.concatenate([TARGETS, TARGETS * 2])[:, None]
    for _ in ns.steps(range(6)):
        optimizer.zero_grad()
        order = rng.permutation(len(x))
        x, y = x[order], y[order]
        nn.mse_loss(model(ns.tensor(x)), ns.tensor(y)).backward()
        optimizer.step()


def actions_are_drawn_anew() -> None:
    """A bandit: the same contexts in each step, with other actions."""
    model, optimizer = scores(2)
    rng = np.random.default_rng(1)
    x = np.concatenate([X, X + 1])
    for _ in ns.steps(range(30)):
        optimizer.zero_grad()
        actions = rng.integers(0, 2, len(x))
        losses = nn.cross_entropy(model(ns.tensor(x)), ns.tensor(actions), reduction="none")
        np.mean(losses * ns.tensor(rng.random(len(x)).astype("f"))).backward()
        optimizer.step()


def contrastive_with_numbered_rows() -> None:
    model, optimizer = scores(4)
    rng = np.random.default_rng(1)
    x = np.concatenate([X, X + 1])
    for _ in ns.steps(range(6)):
        optimizer.zero_grad()
        codes = model(ns.tensor(x[rng.permutation(len(x))]))
        nn.cross_entropy(codes @ codes.T, ns.tensor(np.arange(len(x)))).backward()
        optimizer.step()


def bootstrapped_targets() -> None:
    """The same states repeatedly, with targets that follow the model."""
    model, optimizer = scores(1)
    for _ in ns.steps(range(8)):
        optimizer.zero_grad()
        with ns.no_grad():
            ahead = model(ns.tensor(np.roll(X, 1, axis=0))).numpy()
        nn.mse_loss(model(ns.tensor(X)), ns.tensor(TARGETS[:, None] + 0.9 * ahead)).backward()
        optimizer.step()


def evaluated_beyond_the_training_data() -> None:
    """A plot of the learned function, also somewhat outside the data."""
    model, optimizer = scores(1)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        nn.mse_loss(model(ns.tensor(X)), TARGETS[:, None]).backward()
        optimizer.step()
    with ns.no_grad():
        grid = np.linspace(-6, 6, 6 * N, dtype="f").reshape(N, 6)
        model(ns.tensor(grid)).numpy()


def a_second_stage_on_other_data() -> None:
    """Trained on one kind of data, then on another with a very different scale."""
    model, optimizer = scores(1)
    for number in ns.steps(range(8)):
        x = X if number < 4 else X * 50
        optimizer.zero_grad()
        nn.mse_loss(model(ns.tensor(x)), TARGETS[:, None]).backward()
        optimizer.step()


def hashes_and_checksums() -> None:
    """They wrap around on purpose."""
    mixed = ns.tensor(np.arange(1, 9, dtype=np.uint32) * np.uint32(2654435761))
    mixed = (mixed * np.uint32(2246822519)) ^ (mixed >> np.uint32(13))
    mixed = mixed * np.uint32(3266489917)
    (mixed >> np.uint32(16)).numpy()
    checksum = ns.tensor(np.uint8(200))
    for _ in ns.steps(range(4)):
        checksum = checksum + ns.tensor(np.uint8(77))
    small = ns.tensor(np.array([200, 3], np.uint8)) + np.uint8(55)
    small.astype(np.int32).numpy()


def strong_decay_that_lets_the_loss_fall() -> None:
    model = mlp(1)
    optimizer = optim.AdamW(model, lr=0.1, weight_decay=0.8)
    for _ in ns.steps(range(30)):
        optimizer.zero_grad()
        nn.mse_loss(model(ns.tensor(X)), TARGETS[:, None]).backward()
        optimizer.step()


def labels_that_cannot_be_learnt() -> None:
    """The loss does not fall, but the small decay is not the reason."""
    model = mlp(3)
    optimizer = optim.SGD(model, lr=0.01, weight_decay=0.01)
    rng = np.random.default_rng(4)
    for _ in ns.steps(range(24)):
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), rng.integers(0, 3, N)).backward()
        optimizer.step()


def a_target_that_is_updated_now_and_then() -> None:
    rng = np.random.default_rng(2)
    online = ns.parameter(np.zeros((5, 2)), name="online")
    target = ns.parameter(np.zeros((5, 2)), name="target")
    optimizer = optim.SGD([online], lr=0.5)
    for number in ns.steps(range(104)):
        room, action = rng.integers(0, 4, 8), rng.integers(0, 2, 8)
        with ns.no_grad():
            wanted = (room == 3) + 0.9 * np.max(target[room + action], axis=1)
        optimizer.zero_grad()
        np.mean((online[room, action] - wanted) ** 2).backward()
        optimizer.step()
        if number == 60:
            ns.assign(target, online.detach())


def a_frozen_twin() -> None:
    """A fixed random network that another one learns to imitate."""
    rng = np.random.default_rng(2)
    known = ns.parameter(rng.normal(0, 1, (6, 2)).astype("f"), name="known")
    learner = ns.parameter(np.zeros((6, 2), "f"), name="learner")
    optimizer = optim.SGD([learner], lr=0.05)
    for _ in ns.steps(range(102)):
        with ns.no_grad():
            wanted = 0.9 * (ns.tensor(X) @ known)
        optimizer.zero_grad()
        np.mean((ns.tensor(X) @ learner - wanted) ** 2).backward()
        optimizer.step()


def means_that_are_taken_away() -> None:
    """Means over columns, over rows, and over a batch that happens to have one row."""
    x = ns.tensor(X)
    (x - np.mean(x, axis=1, keepdims=True)).numpy()
    (x - np.mean(x, axis=0)).numpy()
    one = ns.tensor(X[:1])
    (one - np.mean(one, axis=0)).numpy()


def batch_norm_in_evaluation() -> None:
    model = with_batch_norm()
    model.eval()
    with ns.no_grad():
        model(ns.tensor(X[:6] + np.float32(1))).numpy()


def statistics_are_renewed_for_other_data() -> None:
    """The running statistics are renewed with the data on which the model will be used."""
    model = with_batch_norm()
    with ns.no_grad():
        for _ in range(2):
            model(ns.tensor(X + np.float32(1)))
    model.eval()
    with ns.no_grad():
        model(ns.tensor(X + np.float32(1))).numpy()


def samples_like_those_of_training() -> None:
    """Training mode on purpose, as in generators: the batch has the statistics of training."""
    model = with_batch_norm()
    with ns.no_grad():
        model(ns.tensor(X[::2])).numpy()


def an_output_that_is_clipped_later() -> None:
    """In the end, all outputs exceed the bound, as intended."""
    bias = ns.parameter(np.zeros(1), name="bias")
    optimizer = optim.SGD([bias], lr=1.0)
    for _ in ns.steps(range(20)):
        optimizer.zero_grad()
        guess = np.clip(ns.tensor(np.abs(X[:, 0]) * 0.1) + bias, None, 1.0)
        (-np.mean(guess)).backward()
        optimizer.step()


def a_clip_that_is_only_shown() -> None:
    """The clipped value is only displayed: the loss uses the value before the clip."""
    model, optimizer = scores(1)
    for _ in ns.steps(range(11)):
        optimizer.zero_grad()
        guess = model(ns.tensor(X))
        nn.mse_loss(guess, TARGETS[:, None]).backward()
        optimizer.step()
        np.clip(guess, 90.0, 100.0).numpy()
