"""Correct programs that look wrong, on which no graph rule may have a hit.

These are about losses, broadcasting and gradients; models are in `right_models`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import CLASSES, LABELS, TARGETS, X, mlp, scores

N = len(X)


def classifier() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()


def regression_without_steps() -> None:
    weight = ns.parameter(np.zeros((X.shape[1], 1), "f"), name="weight")
    for _ in range(5):
        difference = ns.tensor(X) @ weight - ns.tensor(TARGETS[:, None])
        np.mean(difference**2).backward()
        with ns.no_grad():
            ns.assign(weight, weight - 0.05 * weight.grad)
        weight.grad = None


def pairwise_distances() -> None:
    """Points in one dimension are moved so that their distances match; a table of all pairs."""
    points = ns.parameter(TARGETS.copy(), name="points")
    wanted = np.abs(TARGETS[:, None] - TARGETS) * np.float32(2)
    optimizer = optim.SGD([points], lr=0.01)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        distances = np.abs(points[:, None] - points)
        np.mean((distances - ns.tensor(wanted)) ** 2).backward()
        optimizer.step()


def rank_all_pairs() -> None:
    """RankNet: a column of scores less the same scores as a row."""
    model = mlp(1)
    optimizer = optim.SGD(model, lr=0.05)
    above = np.sign(TARGETS[:, None] - TARGETS).astype("f")
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        column = model(ns.tensor(X))
        margins = (column - column.reshape(-1)) * ns.tensor(above)
        np.mean(np.log1p(np.exp(-margins))).backward()
        optimizer.step()


def maximum_mean_discrepancy() -> None:
    """Kernels of all pairs of a sample of a generator and one of the data."""
    model = mlp(1)
    optimizer = optim.Adam(model, lr=0.01)

    def kernel(a: Any, b: Any) -> Any:
        return np.mean(np.exp(-np.square(a[:, None] - b)))

    data = ns.tensor(TARGETS)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        sample = model(ns.tensor(X)).reshape(-1)
        loss = kernel(sample, sample) + kernel(data, data) - 2 * kernel(sample, data)
        loss.backward()
        optimizer.step()


def radial_basis_functions_as_many_as_rows() -> None:
    """As many centres as rows: (n, 1) less (n,) is meant."""
    centres = ns.parameter(np.linspace(-2, 2, N, dtype="f"), name="centres")
    weight = ns.parameter(np.zeros((N, 1), "f"), name="weight")
    optimizer = optim.SGD([centres, weight], lr=0.05)
    column = ns.tensor(X[:, :1])
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        features = np.exp(-np.square(column - centres))
        nn.mse_loss(features @ weight, TARGETS[:, None]).backward()
        optimizer.step()


def quantiles() -> None:
    """The pinball loss of five quantiles for each row."""
    levels = ns.tensor(np.array([0.1, 0.3, 0.5, 0.7, 0.9], "f"))
    model = mlp(5)
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        error = ns.tensor(TARGETS[:, None]) - model(ns.tensor(X))
        np.mean(np.maximum(levels * error, (levels - 1) * error)).backward()
        optimizer.step()


def contrastive() -> None:
    """InfoNCE: the label of each row is its place."""
    first, second = mlp(4), mlp(4)
    optimizer = optim.SGD([*first.parameters(), *second.parameters()], lr=0.05)
    rng = np.random.default_rng(0)
    for _ in ns.steps(range(4)):
        x = X[rng.permutation(N)]
        optimizer.zero_grad()
        a, b = first(ns.tensor(x)), second(ns.tensor(x + np.float32(0.1)))
        logits = a @ b.T
        loss = nn.cross_entropy(logits, np.arange(N)) + nn.cross_entropy(logits.T, np.arange(N))
        (loss / 2).backward()
        optimizer.step()


def attention_then_cross_entropy() -> None:
    """A softmax on the way, but not last."""
    model, optimizer = scores()
    mask = np.triu(np.full((N, N), -np.inf, "f"), 1)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        x = ns.tensor(X)
        weights = nn.softmax(x @ x.T + ns.tensor(mask), axis=-1)
        nn.cross_entropy(model(weights @ x), LABELS).backward()
        optimizer.step()


def logarithm_of_softmax() -> None:
    """Softmax, then its logarithm: scores again."""
    model, optimizer = scores()
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        logs = np.log(nn.softmax(model(ns.tensor(X)), axis=1) + 1e-9)
        nn.nll_loss(logs, LABELS).backward()
        optimizer.step()


def cross_entropy_by_hand() -> None:
    model, optimizer = scores()
    hot = np.eye(CLASSES, dtype="f")[LABELS]
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        raw = model(ns.tensor(X))
        raw = raw - np.max(raw, axis=1, keepdims=True)
        logs = raw - np.log(np.sum(np.exp(raw), axis=1, keepdims=True))
        (-np.sum(logs * ns.tensor(hot)) / N).backward()
        optimizer.step()


def distillation() -> None:
    """The teacher's softmax is the target; the student's logarithms are compared with it."""
    student, optimizer = scores()
    teacher = mlp(CLASSES, 16)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        with ns.no_grad():
            soft = nn.softmax(teacher(ns.tensor(X)) / 2.0, axis=1)
        logs = nn.log_softmax(student(ns.tensor(X)) / 2.0, axis=1)
        nn.kl_div(logs, soft, reduction="batchmean").backward()
        optimizer.step()


def sigmoid_gate_then_logits() -> None:
    """A sigmoid gates the scores; what the loss gets are still scores."""
    model, gate = mlp(1), mlp(1)
    optimizer = optim.SGD([*model.parameters(), *gate.parameters()], lr=0.05)
    target = (TARGETS > 0).astype("f")[:, None]
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        x = ns.tensor(X)
        nn.binary_cross_entropy_with_logits(nn.sigmoid(gate(x)) * model(x), target).backward()
        optimizer.step()


def accumulated_over_steps() -> None:
    """Four parts of a batch, each divided by four, then one update."""
    model, optimizer = scores()
    for number in ns.steps(range(12)):
        rows = slice(number % 4 * 6, number % 4 * 6 + 6)
        (nn.cross_entropy(model(ns.tensor(X[rows])), LABELS[rows]) / 4).backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def accumulated_as_many_parts_as_rows() -> None:
    """As many parts as rows in each: the division by that number is right."""
    model, optimizer = scores()
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        for part in range(4):
            rows = slice(part * 4, part * 4 + 4)
            (nn.cross_entropy(model(ns.tensor(X[rows])), LABELS[rows]) / 4).backward()
        optimizer.step()


def accumulated_without_steps() -> None:
    model, optimizer = scores()
    for number in range(16):
        rows = slice(number % 4 * 4, number % 4 * 4 + 4)
        (nn.cross_entropy(model(ns.tensor(X[rows])), LABELS[rows]) / 4).backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def sum_over_rows_of_means() -> None:
    """A mean over features, then the sum over rows by their number."""
    model, optimizer = scores(4)
    target = np.tanh(X[:, :4])
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        losses = np.mean((model(ns.tensor(X)) - ns.tensor(target)) ** 2, axis=1)
        (np.sum(losses) / N).backward()
        optimizer.step()


def weight_decay_by_hand() -> None:
    """A penalty times 0.01, or by the number of rows, is no second mean."""
    model, optimizer = scores()
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        penalty = sum(np.mean(np.square(weight)) for weight in model.parameters())
        (nn.cross_entropy(model(ns.tensor(X)), LABELS) + penalty / N).backward()
        optimizer.step()


def adversarial() -> None:
    """A GAN: what the generator's pass leaves in the discriminator is thrown away."""
    generator, judge = mlp(6), mlp(1)
    generator_optimizer = optim.Adam(generator, lr=0.01)
    judge_optimizer = optim.Adam(judge, lr=0.01)
    ones, zeros = np.ones((N, 1), "f"), np.zeros((N, 1), "f")
    rng = np.random.default_rng(0)
    for _ in ns.steps(range(6)):
        noise = ns.tensor(rng.standard_normal((N, 6)).astype("f"))
        judge_optimizer.zero_grad()
        real = nn.binary_cross_entropy_with_logits(judge(ns.tensor(X)), ones)
        made = nn.binary_cross_entropy_with_logits(judge(generator(noise).detach()), zeros)
        (real + made).backward()
        judge_optimizer.step()
        generator_optimizer.zero_grad()
        nn.binary_cross_entropy_with_logits(judge(generator(noise)), ones).backward()
        generator_optimizer.step()


def zeroed_after_the_update() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(4)):
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()
        model.zero_grad()


def two_losses_in_one_step() -> None:
    """Gradients of two losses are added before each update."""
    model, optimizer = scores()
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        np.mean(np.square(model(ns.tensor(X[:8])))).backward()
        optim.clip_grad_norm(model, 1.0)
        optimizer.step()


def policy_gradient() -> None:
    """REINFORCE with a baseline; actions are drawn anew, so the same rows have others."""
    model, optimizer = scores()
    rng = np.random.default_rng(2)
    for _ in ns.steps(range(8)):
        optimizer.zero_grad()
        logs = nn.log_softmax(model(ns.tensor(X)), axis=1)
        chances = np.exp(logs.numpy())
        actions = np.array([rng.choice(CLASSES, p=p / p.sum()) for p in chances.astype(float)])
        rewards = (actions == LABELS).astype("f")
        chosen = np.take_along_axis(logs, ns.tensor(actions[:, None]), axis=1)
        (-np.mean(chosen * ns.tensor((rewards - rewards.mean())[:, None]))).backward()
        optimizer.step()
