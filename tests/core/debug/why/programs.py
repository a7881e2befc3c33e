"""Programs with typical faults."""

from __future__ import annotations

import numpy as np

import nodescope as ns


def log_of_a_negative() -> None:
    """In the second step, the loss takes the log of a number that rounding made negative."""
    w = ns.parameter(np.full((3, 4), 0.5), name="w")
    optimizer = ns.optim.SGD([w], lr=0.1)
    for step, _ in enumerate(ns.steps(range(3))):
        x = np.ones((5, 3))
        if step == 1:
            x[4] = -2.0
        with ns.name_scope("loss"):
            p = ns.tensor(x) @ w
            q = p - 0.25
            loss = np.mean(np.square(np.log(q)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def zero_by_zero() -> None:
    x = ns.tensor(np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]), name="counts")
    with ns.name_scope("normalise"):
        share = x / np.sum(x, axis=1, keepdims=True)
    np.sum(np.nan_to_num(share))
    with ns.name_scope("cost"):
        np.sum(np.square(share))


def overflow_in_float16() -> None:
    x = ns.tensor(np.array([1.0, 200.0, 300.0], np.float16), name="x")
    with ns.name_scope("norm"):
        total = np.sum(np.square(x))
    x / np.sqrt(total)


def exploding_rnn() -> None:
    w = ns.parameter(np.array([[40.0, 3.0], [2.0, 50.0]], np.float32), name="w")
    h = ns.tensor(np.ones((1, 2), np.float32))
    for i in range(30):
        with ns.name_scope(f"cell_{i}"):
            h = h @ w
    with ns.name_scope("loss"):
        np.sum(h - np.mean(h))


def masked_softmax() -> None:
    scores = ns.tensor(np.arange(6.0).reshape(2, 3))
    mask = np.array([[True, False, True], [False, False, False]])
    with ns.name_scope("attention"):
        weights = ns.softmax(np.where(mask, scores, -np.inf), axis=-1)
    np.sum(weights)


def dead_relu() -> None:
    x = ns.tensor(np.array([[1.0, -1.0], [2.0, 0.5]]))
    w = ns.parameter(np.array([[1.0, -3.0], [-1.0, -2.0]]), name="w")
    np.sum(ns.relu(x @ w), axis=0)
