"""Data, averages and biases other than intended; see `wrong`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import CLASSES, LABELS, TARGETS, X, mlp, scores

N, FEATURES = X.shape

# ---------------------------------------------------------------- average_from_zero


def an_average_that_is_too_young() -> None:
    model, optimizer = scores()
    weights = list(model.parameters())
    averages = [ns.tensor(np.zeros(w.shape, "f")) for w in weights]
    for _ in ns.steps(range(20)):
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()
        with ns.no_grad():
            pairs = zip(averages, weights, strict=True)
            averages = [0.99 * average + 0.01 * weight for average, weight in pairs]
    for weight, average in zip(weights, averages, strict=True):
        ns.assign(weight, average)  # hit: average_from_zero


def an_average_by_differences() -> None:
    weight = ns.parameter(np.ones((FEATURES, 1), "f"), name="weight")
    slow = ns.tensor(np.zeros((FEATURES, 1), "f"), name="slow")
    optimizer = optim.SGD([weight], lr=0.01)
    for _ in ns.steps(range(9)):
        optimizer.minimize(nn.mse(ns.tensor(X) @ weight, TARGETS[:, None]))
        with ns.no_grad():
            slow = slow + 0.1 * (weight - slow)
    (ns.tensor(X) @ slow).numpy()  # hit: average_from_zero


def a_copy_of_the_model_that_starts_at_zero() -> None:
    model, smooth = mlp(CLASSES), mlp(CLASSES)
    optimizer = optim.SGD(model, lr=0.05)
    for slow in smooth.parameters():
        ns.assign(slow, np.zeros(slow.shape, np.float32))
    for _ in ns.steps(range(4)):
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))
        for slow, weight in zip(smooth.parameters(), model.parameters(), strict=True):
            ns.assign(slow, 0.9 * slow + 0.1 * weight)
    smooth(ns.tensor(X)).numpy()  # hit: average_from_zero


# ---------------------------------------------------------------- data_overwritten


def _batches(change: Any, passes: int = 9) -> Iterator[tuple[Any, Any]]:
    x, y = X.copy(), TARGETS[:, None].copy()
    for _ in range(passes):
        for first in range(0, N, 8):
            batch = x[first : first + 8]
            change(batch)
            yield batch, y[first : first + 8]


def noise_is_added_in_place() -> None:
    rng = np.random.default_rng(2)

    def change(batch: Any) -> None:
        batch += rng.normal(0, 0.3, batch.shape).astype("f")

    model, optimizer = scores(1)
    for x, y in ns.steps(_batches(change)):
        rows = ns.tensor(x, name="rows")  # hit: data_overwritten
        optimizer.minimize(nn.mse(model(rows), ns.tensor(y)))


def pictures_are_divided_in_each_pass() -> None:
    def change(batch: Any) -> None:
        batch /= 255

    model, optimizer = scores(1)
    for x, y in ns.steps(_batches(change, 4)):
        rows = ns.tensor(x, name="rows")  # hit: data_overwritten
        optimizer.minimize(nn.mse(model(rows), ns.tensor(y)))


# ---------------------------------------------------------------- predictions_far_off


def a_recurrence_that_grows() -> None:
    turn = ns.parameter(np.eye(FEATURES, dtype="f") * 2, name="turn")
    optimizer = optim.Adam([turn], lr=1e-4)
    for _ in ns.steps(range(24)):
        state = ns.tensor(X)
        for _ in range(12):
            state = state @ turn
        apart = state - ns.tensor(X, name="wanted")  # hit: predictions_far_off
        optimizer.minimize(np.mean(apart**2))


# ---------------------------------------------------------------- nothing_learned


def labels_of_other_rows() -> None:
    rng = np.random.default_rng(4)
    model, optimizer = scores()
    for _ in ns.steps(range(80)):
        x, labels = rng.standard_normal((32, FEATURES)).astype("f"), rng.integers(0, 3, 32)
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(ns.tensor(x)), ns.tensor(labels))  # hit: nothing_learned
        loss.backward()
        optimizer.step()


def targets_of_other_rows() -> None:
    rng = np.random.default_rng(5)
    model, optimizer = scores(1)
    for _ in ns.steps(range(80)):
        x = rng.standard_normal((32, FEATURES)).astype("f")
        y = rng.standard_normal((32, 1)).astype("f")
        apart = model(ns.tensor(x)) - ns.tensor(y)  # hit: nothing_learned
        optimizer.minimize(np.mean(apart**2))


# ---------------------------------------------------------------- bias_left_out


def a_bias_that_was_forgotten() -> None:
    weight = ns.parameter(np.ones((FEATURES, 1), "f"), name="weight")
    bias = ns.parameter(np.zeros(1, "f"), name="bias")
    optimizer = optim.SGD([weight], lr=0.01)
    for _ in ns.steps(range(5)):
        guess = ns.tensor(X) @ weight + bias  # hit: bias_left_out
        optimizer.minimize(nn.mse(guess, TARGETS[:, None]))


# ---------------------------------------------------------------- inputs_drift


def _line(outputs: int = 1) -> tuple[Any, optim.Optimizer]:
    weight = ns.parameter(np.full((FEATURES, outputs), 0.1, "f"), name="weight")
    return weight, optim.SGD([weight], lr=0.01)


def _drifting(offset: float) -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng(6)
    shift = np.zeros(FEATURES)
    for _ in range(50):
        x = rng.standard_normal((16, FEATURES))
        y = x[:, :1] + 0.1 * rng.standard_normal((16, 1))
        shift[2] += offset
        yield (x + shift).astype("f"), y.astype("f")


def a_sensor_creeps() -> None:
    weight, optimizer = _line()
    for x, y in ns.steps(_drifting(0.05)):
        rows = ns.tensor(x)  # hit: inputs_drift
        optimizer.minimize(nn.mse(rows @ weight, ns.tensor(y)))


def classes_of_readings_that_creep() -> None:
    weight, optimizer = _line(2)
    for x, y in ns.steps(_drifting(-0.05)):
        rows = ns.tensor(x)  # hit: inputs_drift
        optimizer.minimize(nn.cross_entropy(rows @ weight, ns.tensor((y[:, 0] > 0).astype(int))))


def later_files_are_in_another_unit() -> None:
    """Centimetres from the middle on; what is to be predicted does not change."""
    rng = np.random.default_rng(7)
    weight, optimizer = _line()
    for number in ns.steps(range(60)):
        x = (rng.standard_normal((16, FEATURES)) * 0.1 + 0.5).astype("f")
        rows = ns.tensor(x * (100 if number >= 30 else 1))  # hit: inputs_drift
        optimizer.lr = 0.01 if number < 30 else 1e-5
        optimizer.minimize(nn.mse(rows @ weight, ns.tensor(x[:, :1] - x[:, 1:2])))


def an_offset_is_added_in_each_pass() -> None:
    """The mean is to be subtracted once; here it is subtracted of what was centred before."""
    rng = np.random.default_rng(8)
    data = (rng.standard_normal((64, FEATURES)) + 3).astype("f")
    wanted = data[:, :1] - data[:, 1:2]
    means = data.mean(0)
    weight, optimizer = _line()
    for _ in ns.steps(range(50)):
        data = data - np.float32(0.05) * means
        rows = rng.permutation(64)[:16]
        given = ns.tensor(data[rows])  # hit: inputs_drift
        optimizer.minimize(nn.mse(given @ weight, ns.tensor(wanted[rows])))


# ---------------------------------------------------------------- dropout_in_evaluation


def _trained_with_dropout() -> nn.Sequential:
    model = nn.Sequential(
        nn.Dropout(0.5, rng=ns.random.Generator(0)),
        nn.Linear(FEATURES, 3, rng=np.random.default_rng(1)),
    )
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(8)):
        optimizer.minimize(nn.cross_entropy(model(ns.tensor(X)), LABELS))
    return model


def tested_with_dropout() -> None:
    model, right = _trained_with_dropout(), 0
    with ns.no_grad():
        for first in range(0, N, 8):
            rows = slice(first, first + 8)
            answers = model(ns.tensor(X[rows])).numpy()  # hit: dropout_in_evaluation
            right += int(np.sum(answers.argmax(1) == LABELS[rows]))
    print(right)
