"""Correct models and training methods that look wrong; see `right`."""

from __future__ import annotations

from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, optim
from tests.core.debug.watch.graph_rules.data import CLASSES, LABELS, TARGETS, X, mlp, scores

N = len(X)
_rng = np.random.default_rng(11)


def low_rank_adaptation() -> None:
    """LoRA: the base stays fixed, and only the two factors are trained."""
    base = ns.parameter(_rng.standard_normal((6, 3)).astype("f"), name="base")
    down = ns.parameter(_rng.standard_normal((6, 2)).astype("f"), name="down")
    up = ns.parameter(np.zeros((2, 3), "f"), name="up")
    optimizer = optim.Adam([down, up], lr=0.01)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        x = ns.tensor(X)
        nn.cross_entropy(x @ base.detach() + x @ down @ up, LABELS).backward()
        optimizer.step()


def frozen_backbone() -> None:
    backbone, head = mlp(8), nn.Linear(8, CLASSES, rng=_rng)
    optimizer = optim.SGD(head, lr=0.05)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        with ns.no_grad():
            features = backbone(ns.tensor(X))
        nn.cross_entropy(head(features), LABELS).backward()
        optimizer.step()


def first_layer_left_out_of_the_optimizer() -> None:
    model = mlp(CLASSES)
    optimizer = optim.SGD(model.parameters()[2:], lr=0.05)
    for _ in ns.steps(range(4)):
        model.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()


def tied_weights() -> None:
    """The embedding table is also the weight of the last layer."""
    table = ns.parameter((_rng.standard_normal((10, 8)) * 0.1).astype("f"), name="table")
    optimizer = optim.Adam([table], lr=0.01)
    tokens = _rng.integers(0, 10, (N, 2))
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        hidden = np.tanh(table[ns.tensor(tokens[:, 0])])
        nn.cross_entropy(hidden @ table.T, tokens[:, 1]).backward()
        optimizer.step()


class _Shared(nn.Module):
    """One block for all layers, as in ALBERT."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.entry = nn.Linear(6, 8, rng=rng)
        self.block = nn.Linear(8, 8, rng=rng)
        self.head = nn.Linear(8, CLASSES, rng=rng)

    def forward(self, x: Any) -> Any:
        h = self.entry(x)
        for _ in range(3):
            h = h + np.tanh(self.block(h))
        return self.head(h)


def layers_that_share_by_design() -> None:
    model = _Shared()
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()


def recurrent() -> None:
    """A cell over time, after a layer that has no parameters."""
    cell = nn.Linear(9, 8, rng=_rng)

    class Net(nn.Module):
        def __init__(self) -> None:
            self.layers = [np.tanh, cell]
            self.head = nn.Linear(8, CLASSES, rng=_rng)

        def forward(self, x: Any) -> Any:
            h = ns.tensor(np.zeros((N, 8), "f"))
            for t in range(4):
                h = np.tanh(self.layers[1](np.concatenate([x[:, t : t + 1], h], axis=1)))
            return self.head(h)

    model = Net()
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()


def siamese() -> None:
    """One tower for both sides."""
    tower = mlp(4)
    optimizer = optim.SGD(tower, lr=0.05)
    same = (np.roll(LABELS, 1) == LABELS).astype("f")
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        a, b = tower(ns.tensor(X)), tower(ns.tensor(np.roll(X, 1, axis=0)))
        distance = np.sum(np.square(a - b), axis=1)
        nn.binary_cross_entropy_with_logits(1.0 - distance, ns.tensor(same)).backward()
        optimizer.step()


def target_network() -> None:
    """Q-learning: the target has no gradient, and follows slowly."""
    online, target = mlp(2), mlp(2)
    optimizer = optim.Adam(online, lr=0.01)
    actions = _rng.integers(0, 2, N)
    for number in ns.steps(range(6)):
        optimizer.zero_grad()
        with ns.no_grad():
            best = np.max(target(ns.tensor(np.roll(X, 1, axis=0))), axis=1)
        wanted = ns.tensor(TARGETS) + 0.9 * best
        chosen = np.take_along_axis(online(ns.tensor(X)), ns.tensor(actions[:, None]), axis=1)
        nn.huber_loss(chosen[:, 0], wanted).backward()
        optimizer.step()
        if number % 2:
            for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                ns.assign(slow, 0.9 * slow.numpy() + 0.1 * fast.numpy())


def moving_average_of_weights() -> None:
    model, optimizer = scores()
    average = [weight.numpy().copy() for weight in model.parameters()]
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()
        average = [
            0.9 * old + 0.1 * new.numpy() for old, new in zip(average, model.parameters(),
                                                               strict=True)
        ]  # fmt: skip


def straight_through() -> None:
    """Rounded in the forward pass, and the identity in the backward pass."""
    model, head = mlp(4), nn.Linear(4, CLASSES, rng=_rng)
    optimizer = optim.SGD([*model.parameters(), *head.parameters()], lr=0.05)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        h = model(ns.tensor(X))
        rounded = h + (np.rint(h) - h).detach()
        nn.cross_entropy(head(rounded), LABELS).backward()
        optimizer.step()


def vector_quantised() -> None:
    """The nearest code of a manually updated codebook, with a straight-through gradient."""
    model = mlp(2)
    decoder = nn.Linear(2, 6, rng=_rng)
    book = ns.parameter(_rng.standard_normal((5, 2)).astype("f"), name="book")
    optimizer = optim.Adam([*model.parameters(), *decoder.parameters()], lr=0.01)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        h = model(ns.tensor(X))
        distances = np.sum(np.square(h[:, None, :] - book.detach()[None]), axis=2)
        nearest = np.argmin(distances, axis=1)
        code = book.detach()[nearest]
        near = h + (code - h).detach()
        loss = nn.mse_loss(decoder(near), X) + 0.25 * nn.mse_loss(h, code.detach())
        loss.backward()
        optimizer.step()
        rows = nearest.numpy()
        new = book.numpy().copy()
        for k in set(rows.tolist()):
            new[k] = 0.9 * new[k] + 0.1 * h.numpy()[rows == k].mean(0)
        ns.assign(book, new)


def nearest_means() -> None:
    """k-means has no gradients at all."""
    centres = ns.parameter(X[:3].copy(), name="centres")
    for _ in ns.steps(range(4)):
        x = ns.tensor(X)
        distances = np.sum(np.square(x[:, None, :] - centres[None]), axis=2)
        groups = np.argmin(distances, axis=1).numpy()
        ns.assign(centres, np.stack([X[groups == k].mean(0) if (groups == k).any()
                                     else centres.numpy()[k] for k in range(3)]))  # fmt: skip


def embeddings_of_which_few_are_used() -> None:
    table = nn.Embedding(50, 8, rng=_rng)
    head = nn.Linear(8, CLASSES, rng=_rng)
    optimizer = optim.Adam([*table.parameters(), *head.parameters()], lr=0.01)
    for number in ns.steps(range(4)):
        optimizer.zero_grad()
        tokens = (np.arange(N) + number) % 7
        nn.cross_entropy(head(table(ns.tensor(tokens))), LABELS).backward()
        optimizer.step()


def warm_up_and_cosine() -> None:
    """From zero up, and down to zero in the last step."""
    model, optimizer = scores()
    for number in ns.steps(range(40)):
        share = number / 5 if number < 5 else 0.5 * (1 + np.cos(np.pi * (number - 5) / 35))
        optimizer.lr = 0.05 * float(share)
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()


def batch_norm_by_hand() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        x = ns.tensor(X)
        x = (x - np.mean(x, axis=0)) / np.sqrt(np.var(x, axis=0) + 1e-5)
        nn.cross_entropy(model(x), LABELS).backward()
        optimizer.step()


def _layer_norm(x: Any) -> Any:
    mean = np.mean(x, axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(np.mean(np.square(x - mean), axis=-1, keepdims=True) + 1e-5)


def layer_norm_by_hand() -> None:
    model, optimizer = scores()
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        nn.cross_entropy(model(_layer_norm(ns.tensor(X))), LABELS).backward()
        optimizer.step()


def variational() -> None:
    """Two heads, noise, and a divergence divided by the number of rows."""
    model, decoder = mlp(4), nn.Linear(2, 6, rng=_rng)
    optimizer = optim.Adam([*model.parameters(), *decoder.parameters()], lr=0.01)
    rng = np.random.default_rng(5)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        both = model(ns.tensor(X))
        mean, log_variance = both[:, :2], both[:, 2:]
        noise = ns.tensor(rng.standard_normal((N, 2)).astype("f"))
        code = mean + np.exp(0.5 * log_variance) * noise
        divergence = -0.5 * np.sum(1 + log_variance - mean**2 - np.exp(log_variance))
        (nn.mse_loss(decoder(code), X) + divergence / N).backward()
        optimizer.step()


def regression_with_evaluation() -> None:
    """Validation in every other step, of which only one number is used."""
    model, optimizer = scores(1)
    seen = []
    for number in ns.steps(range(6)):
        optimizer.zero_grad()
        nn.mse_loss(model(ns.tensor(X[:16])), TARGETS[:16, None]).backward()
        optimizer.step()
        if number % 2:
            with ns.no_grad():
                seen.append(nn.mse_loss(model(ns.tensor(X[16:])), TARGETS[16:, None]).item())


def dropout_that_is_kept_for_uncertainty() -> None:
    """Monte-Carlo dropout: several passes with dropout, whose spread is wanted."""
    rng = np.random.default_rng(3)
    model = nn.Sequential(
        nn.Linear(6, 16, rng=rng),
        np.tanh,
        nn.Dropout(0.5, rng=rng),
        nn.Linear(16, CLASSES, rng=rng),
    )
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()
    with ns.no_grad():
        passes = [nn.softmax(model(ns.tensor(X)), axis=1).numpy() for _ in range(5)]
    np.std(passes, axis=0)


def curriculum() -> None:
    """Easy rows first, then more of them, and larger ones."""
    model, optimizer = scores()
    order = np.argsort(np.abs(X).sum(1))
    for number in ns.steps(range(8)):
        rows = order[: 8 + 2 * number]
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X[rows])), LABELS[rows]).backward()
        optimizer.step()


def half_precision() -> None:
    """float16 with a scaled loss."""
    rng = np.random.default_rng(3)
    weight = ns.parameter((rng.standard_normal((6, CLASSES)) * 0.3).astype("f"), name="weight")
    optimizer = optim.SGD([weight], lr=0.05)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        half = ns.tensor(X.astype(np.float16)) @ weight.astype(np.float16)
        loss = nn.cross_entropy(half.astype(np.float32), LABELS)
        (loss * 256.0).backward()
        weight.grad = weight.grad / 256.0
        optimizer.step()


def a_state_that_is_not_used() -> None:
    """A layer also returns its last state, which is not used."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            self.inner = nn.Linear(6, 8, rng=_rng)
            self.head = nn.Linear(8, CLASSES, rng=_rng)

        def forward(self, x: Any) -> Any:
            h = np.tanh(self.inner(x))
            return self.head(h), h * 0.5

    model = Layer()
    optimizer = optim.SGD(model, lr=0.05)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        logits, state = model(ns.tensor(X))
        nn.cross_entropy(logits, LABELS).backward()
        optimizer.step()
    del state


def metrics_every_other_step() -> None:
    """An accuracy is computed in each step, and printed in some."""
    model, optimizer = scores()
    for number in ns.steps(range(4)):
        optimizer.zero_grad()
        logits = model(ns.tensor(X))
        accuracy = np.mean(np.equal(np.argmax(logits, axis=1), ns.tensor(LABELS)))
        nn.cross_entropy(logits, LABELS).backward()
        optimizer.step()
        if number == 3:
            assert accuracy.item() >= 0


def a_layer_used_for_both_views_and_again() -> None:
    """Cycle consistency: the same two networks, one after the other and back."""
    there, back = mlp(6), mlp(6)
    optimizer = optim.SGD([*there.parameters(), *back.parameters()], lr=0.05)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        x = ns.tensor(X)
        loss = nn.mse_loss(back(there(x)), X) + nn.mse_loss(there(back(x)), X)
        loss.backward()
        optimizer.step()


def gradual_unfreezing() -> None:
    """The optimizer holds all parameters, but the body has no gradient at first."""
    body, head = mlp(8), nn.Linear(8, CLASSES, rng=_rng)
    optimizer = optim.SGD([*body.parameters(), *head.parameters()], lr=0.05)
    for number in ns.steps(range(10)):
        optimizer.zero_grad()
        features = np.tanh(body(ns.tensor(X)))
        if number < 6:
            features = features.detach()
        nn.cross_entropy(head(features), LABELS).backward()
        optimizer.step()


def frozen_though_the_optimizer_has_it() -> None:
    """A linear probe whose optimizer was given all parameters."""
    body, head = mlp(8), nn.Linear(8, CLASSES, rng=_rng)
    optimizer = optim.Adam([*body.parameters(), *head.parameters()], lr=0.01)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        with ns.no_grad():
            features = body(ns.tensor(X))
        nn.cross_entropy(head(features), LABELS).backward()
        optimizer.step()


def features_once_then_a_head() -> None:
    """Features are computed once, as arrays, and the head learns from them."""
    body, head = mlp(8), nn.Linear(8, CLASSES, rng=_rng)
    optimizer = optim.SGD(head, lr=0.05)
    features = body(ns.tensor(X)).numpy()
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        nn.cross_entropy(head(ns.tensor(features)), LABELS).backward()
        optimizer.step()


def experts_of_which_one_is_chosen() -> None:
    """Each step trains one of two experts; the other one has no gradient then."""
    experts = [mlp(CLASSES), mlp(CLASSES)]
    optimizer = optim.SGD([weight for expert in experts for weight in expert.parameters()], lr=0.05)
    for number in ns.steps(range(6)):
        optimizer.zero_grad()
        nn.cross_entropy(experts[number % 2](ns.tensor(X)), LABELS).backward()
        optimizer.step()


def a_branch_that_is_not_used_yet() -> None:
    """A head for later use: nothing reads its parameters."""
    model, later = mlp(CLASSES), mlp(2)
    optimizer = optim.SGD([*model.parameters(), *later.parameters()], lr=0.05)
    for _ in ns.steps(range(4)):
        optimizer.zero_grad()
        nn.cross_entropy(model(ns.tensor(X)), LABELS).backward()
        optimizer.step()


def actor_and_critic() -> None:
    """The critic's value is a baseline without a gradient for the actor."""
    actor, critic = mlp(CLASSES), mlp(1)
    optimizer = optim.Adam([*actor.parameters(), *critic.parameters()], lr=0.01)
    rng = np.random.default_rng(4)
    for _ in ns.steps(range(5)):
        optimizer.zero_grad()
        x = ns.tensor(X)
        values = critic(x)[:, 0]
        advantages = ns.tensor(TARGETS) - values.detach()
        actions = rng.integers(0, CLASSES, N)
        logs = nn.log_softmax(actor(x), axis=1)[np.arange(N), actions]
        loss = -np.mean(logs * advantages) + nn.mse_loss(values, TARGETS)
        loss.backward()
        optimizer.step()


def standard_error_of_a_mean() -> None:
    """The mean of squares by n is the square of a standard error."""
    model, optimizer = scores(1)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        error = model(ns.tensor(X))[:, 0] - ns.tensor(TARGETS)
        spread = np.sqrt(np.mean(np.square(error.detach())) / N)
        np.mean(np.square(error)).backward()
        optimizer.step()
        assert spread.item() >= 0


def centred_over_the_batch() -> None:
    """The centre of a batch is subtracted on purpose, as for DINO or a contrastive loss."""
    model, optimizer = scores(4)
    for _ in ns.steps(range(3)):
        optimizer.zero_grad()
        codes = model(ns.tensor(X))
        codes = codes - np.mean(codes, axis=0)
        covariance = codes.T @ codes / (N - 1)
        np.sum(np.square(covariance - np.eye(4, dtype="f"))).backward()
        optimizer.step()
