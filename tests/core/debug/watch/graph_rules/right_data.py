"""Correct data, averages and biases that look wrong; see `right`."""

from __future__ import annotations

from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import CLASSES, LABELS, TARGETS, X, mlp, scores
from tests.core.debug.watch.graph_rules.wrong_data import _batches, _line, _trained_with_dropout

N, FEATURES = X.shape


def _averaged(steps: int, decay: float, begin: float, corrected: bool = False) -> None:
    weight = ns.parameter(np.ones((FEATURES, 1), "f"), name="weight")
    slow = ns.tensor(np.full((FEATURES, 1), begin, "f"), name="slow")
    optimizer = optim.SGD([weight], lr=0.01)
    for _ in ns.steps(range(steps)):
        optimizer.minimize(nn.mse(ns.tensor(X) @ weight, TARGETS[:, None]))
        with ns.no_grad():
            slow = decay * slow + (1 - decay) * weight
    if corrected:
        slow = slow / (1 - decay**steps)
    (ns.tensor(X) @ slow).numpy()


def a_teacher_that_begins_as_a_copy() -> None:
    """Its biases are zero at first because those of the student are."""
    student, optimizer = scores()
    teacher = mlp(CLASSES)
    for old, new in zip(teacher.parameters(), student.parameters(), strict=True):
        ns.assign(old, new)
    for _ in ns.steps(range(4)):
        optimizer.minimize(nn.cross_entropy(student(ns.tensor(X)), LABELS))
        with ns.no_grad():
            for old, new in zip(teacher.parameters(), student.parameters(), strict=True):
                ns.assign(old, 0.95 * old + 0.05 * new)
            teacher(ns.tensor(X)).numpy()


def averages_that_begin_as_copies() -> None:
    model, optimizer = scores()
    slow = [ns.tensor(weight.numpy()) for weight in model.parameters()]
    for _ in ns.steps(range(4)):
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))
        with ns.no_grad():
            pairs = zip(reversed(slow), reversed(list(model.parameters())), strict=True)
            slow = [0.99 * average + 0.01 * weight for average, weight in pairs][::-1]
    for weight, average in zip(model.parameters(), slow, strict=True):
        ns.assign(weight, average)


def an_average_that_is_old_enough() -> None:
    _averaged(20, 0.8, 0.0)


def an_average_that_begins_with_the_weights() -> None:
    _averaged(6, 0.99, 1.0)


def an_average_that_is_corrected() -> None:
    _averaged(6, 0.99, 0.0, corrected=True)


def noise_is_added_to_a_copy() -> None:
    """Other noise each time, and more of it from pass to pass."""
    rng = np.random.default_rng(2)
    model, optimizer = scores(1)
    for number, (x, y) in enumerate(ns.steps(_batches(lambda batch: None, 9))):
        noise = rng.normal(0, 0.1 + 0.02 * number, x.shape).astype("f")
        optimizer.minimize(nn.mse(model(ns.tensor(x + noise)), ns.tensor(y)))


def pictures_that_are_made() -> None:
    """The data is a state that the model updates step by step towards one target."""
    model, optimizer = scores(FEATURES)
    state = X.copy()
    for _ in ns.steps(range(20)):
        made = ns.tensor(state) + 0.1 * np.tanh(model(ns.tensor(state, name="state")))
        optimizer.minimize(nn.mse(made, ns.tensor(X[::-1].copy())))
        state = made.numpy().copy()


def states_of_a_simulation() -> None:
    """An observed random walk: the model predicts the next position from the last one."""
    rng = np.random.default_rng(3)
    model, optimizer = scores(FEATURES)
    place = X.copy()
    for _ in ns.steps(range(20)):
        before = place.copy()
        place += rng.normal(0, 0.2, place.shape).astype("f")
        optimizer.minimize(nn.mse(model(ns.tensor(before)), ns.tensor(place)))


def louder_lessons() -> None:
    model, optimizer = scores(1)
    for number, (x, y) in enumerate(ns.steps(_batches(lambda batch: None, 6))):
        optimizer.minimize(nn.mse(model(ns.tensor(x * (number + 1) / 8)), ns.tensor(y)))


def predictions_that_begin_far_away() -> None:
    weight = ns.parameter(np.full((FEATURES, 1), 3e3, "f"), name="weight")
    optimizer = optim.SGD([weight], lr=0.4)
    for _ in ns.steps(range(60)):
        optimizer.minimize(np.mean((ns.tensor(X) @ weight - ns.tensor(TARGETS[:, None])) ** 2))


def labels_that_can_be_told() -> None:
    rng = np.random.default_rng(4)
    model, optimizer = scores()
    optimizer.lr = 0.3
    for _ in ns.steps(range(80)):
        x = rng.standard_normal((32, FEATURES)).astype("f")
        labels = np.argmax(x[:, :CLASSES], axis=1)
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(x)), ns.tensor(labels)))


def two_that_play_against_each_other() -> None:
    """The discriminator cannot detect generated data: its loss stays at that of guessing."""
    rng = np.random.default_rng(6)
    judge, forger = mlp(1), mlp(FEATURES)
    judging, forging = optim.SGD(judge, lr=0.01), optim.SGD(forger, lr=0.01)
    told = np.repeat([1.0, 0.0], 16)[:, None].astype("f")
    for _ in ns.steps(range(80)):
        given = ns.tensor(rng.standard_normal((32, FEATURES)).astype("f"))
        judging.minimize(nn.binary_cross_entropy_with_logits(judge(given), told))
        made = forger(ns.tensor(rng.standard_normal((16, FEATURES)).astype("f")))
        ones = np.ones((16, 1), "f")
        forging.minimize(nn.binary_cross_entropy_with_logits(judge(made), ones))


def still_on_the_way() -> None:
    """Targets far from zero: at first, the loss is no better than that of their mean, but falls."""
    rng = np.random.default_rng(7)
    model, optimizer = scores(1)
    optimizer.lr = 1e-3
    for _ in ns.steps(range(80)):
        x = rng.standard_normal((32, FEATURES)).astype("f")
        optimizer.minimize(nn.mse(model(ns.tensor(x)), ns.tensor(x[:, :1] + 9)))


def _frozen(given: list[str]) -> None:
    below, above = (nn.Linear(size, to, rng=np.random.default_rng(8))
                    for size, to in ((FEATURES, 4), (4, CLASSES)))  # fmt: skip
    named: dict[str, Any] = {
        "below": below.weight, "below_bias": below.bias,
        "above": above.weight, "above_bias": above.bias,
    }  # fmt: skip
    optimizer = optim.SGD([named[name] for name in given], lr=0.3)
    for _ in ns.steps(range(30)):
        optimizer.minimize(nn.cross_entropy(above(np.tanh(below(ns.tensor(X)))), LABELS))


def only_biases_are_trained() -> None:
    _frozen(["below_bias", "above_bias"])


def only_the_head_is_trained() -> None:
    _frozen(["above", "above_bias"])


# ---------------------------------------------------------------- data that drift on purpose


def louder_sums() -> None:
    """A curriculum: inputs and targets grow together."""
    rng = np.random.default_rng(0)
    weight, optimizer = _line()
    for number in ns.steps(range(50)):
        x = (rng.random((16, FEATURES)) * (0.2 + number / 30)).astype("f")
        optimizer.minimize(nn.mse(ns.tensor(x) @ weight, ns.tensor(x.sum(1, keepdims=True))))


def a_level_that_rises() -> None:
    """Windows of a series, in order of time."""
    rng = np.random.default_rng(1)
    level = 0.1 * np.cumsum(0.05 + 0.3 * rng.standard_normal(700)).astype("f")
    weight, optimizer = _line()
    for first in ns.steps(range(0, 500, 10)):
        rows = np.stack([level[at : at + FEATURES + 1] for at in range(first, first + 32)])
        optimizer.minimize(nn.mse(ns.tensor(rows[:, :-1]) @ weight, ns.tensor(rows[:, -1:])))


def the_hour_is_a_column() -> None:
    """Rows in order of time with a time column; the targets do not drift."""
    rng = np.random.default_rng(2)
    weight, optimizer = _line()
    for number in ns.steps(range(50)):
        x = rng.standard_normal((16, FEATURES)).astype("f")
        x[:, 0] = (number * 16 + np.arange(16)) / 200
        optimizer.minimize(nn.mse(ns.tensor(x) @ weight, ns.tensor(x[:, 1:2] * x[:, 2:3])))


def where_a_policy_leads() -> None:
    """States visited by a policy: they move to the right as it learns to go there."""
    rng = np.random.default_rng(3)
    weight, optimizer = _line()
    state, rewards = np.zeros((16, FEATURES), "f"), []
    for _ in ns.steps(range(50)):
        with ns.no_grad():
            moves = (ns.tensor(state) @ weight).numpy()
        state = rng.standard_normal((16, FEATURES)).astype("f") + np.float32(len(rewards) / 20)
        rewards.append(float(moves.mean()))
        advantage = rng.standard_normal((16, 1)).astype("f")
        optimizer.minimize(nn.mse(ns.tensor(state) @ weight, ns.tensor(advantage)))


def noise_that_grows() -> None:
    """Noise grows during training; the mean stays the same."""
    rng = np.random.default_rng(4)
    weight, optimizer = _line()
    for number in ns.steps(range(50)):
        x = rng.standard_normal((16, FEATURES))
        noisy = x + rng.standard_normal(x.shape) * number / 20
        optimizer.minimize(nn.mse(ns.tensor(noisy.astype("f")) @ weight, ns.tensor(x[:, :1])))


def two_tasks() -> None:
    """Continual learning: other inputs from the middle on."""
    rng = np.random.default_rng(5)
    weight, optimizer = _line()
    for number in ns.steps(range(50)):
        x = (rng.standard_normal((16, FEATURES)) + 3 * (number >= 25)).astype("f")
        wanted = x[:, :1] - 3 * (number >= 25)
        optimizer.minimize(nn.mse(ns.tensor(x) @ weight, ns.tensor(wanted.astype("f"))))


def harder_ones_in_between() -> None:
    """A curriculum with an epoch of distant rows in between."""
    rng = np.random.default_rng(10)
    weight, optimizer = _line()
    for number in ns.steps(range(80)):
        away = 30 * (32 <= number < 48)
        x = (rng.standard_normal((16, FEATURES)) + away).astype("f")
        wanted = (x[:, :1] - away).astype("f")
        optimizer.lr = 1e-5 if away else 0.01
        optimizer.minimize(nn.mse(ns.tensor(x) @ weight, ns.tensor(wanted)))


def shuffled_in_each_pass() -> None:
    rng = np.random.default_rng(9)
    weight, optimizer = _line()
    for _ in ns.steps(range(50)):
        rows = rng.permutation(N)[:12]
        optimizer.minimize(nn.mse(ns.tensor(X[rows]) @ weight, ns.tensor(TARGETS[rows, None])))


# ---------------------------------------------------------------- dropout on purpose


def tested_without_dropout() -> None:
    model = _trained_with_dropout()
    model.eval()
    with ns.no_grad():
        model(ns.tensor(X)).numpy()


def targets_that_are_drawn() -> None:
    """In each step, the targets are another random prediction of the same model."""
    model = _trained_with_dropout()
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(8)):
        with ns.no_grad():
            wanted = model(ns.tensor(X)).numpy()
        optimizer.minimize(nn.mse(model(ns.tensor(X)), ns.tensor(wanted)))
