"""The same small programs, written for each adapter's library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import nodescope as ns
from tests.adapters.foreign import library as lib

STEPS = 3
ROWS = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
WEIGHTS = np.linspace(-0.5, 0.5, 9).reshape(3, 3)


@dataclass(frozen=True)
class Case:
    """One adapter's programs.

    Attributes:
        adapter: The module with its ``ADAPTER``.
        train: Makes `STEPS` steps; the elements of the last result.
        product: Its op that multiplies, which is in the scope ``layer``.
        fail: Raises inside an operation; what it raises.
        loop: A plain loop without steps, of so many rounds.
        dialect: Of its nodes.
    """

    adapter: str
    dialect: str
    product: str
    train: Callable[[], Any]
    fail: Callable[[], None]
    raises: type[Exception]
    loop: Callable[[int], Any]


def _train_engine() -> Any:
    w = ns.parameter(WEIGHTS, name="w")
    for _ in ns.steps(range(STEPS)):
        with ns.name_scope("layer"):
            h = np.tanh(ns.tensor(ROWS) @ w)
        loss = np.mean(h)
        loss.backward()
        w.data -= 0.1 * w.grad.numpy()
        w.grad = None
    return loss.numpy()


def _train_distant() -> Any:
    w = lib.distant(WEIGHTS)
    for _ in range(STEPS):
        with lib.section("layer"):
            h = lib.warp(lib.frobnicate(lib.distant(ROWS), w))
        loss = lib.quash(h)
        lib.optimizer_step(w, 0.1)
    return loss.fetch()


def _fail_engine() -> None:
    ns.tensor(np.ones((2, 3))) @ ns.tensor(np.ones((2, 3)))


def _fail_distant() -> None:
    lib.refuse(lib.distant(ROWS))


def _loop_engine(rounds: int) -> Any:
    x, w = ns.tensor(ROWS), ns.tensor(WEIGHTS)
    for _ in range(rounds):
        x = np.tanh(x @ w)
    return x.numpy()


def _loop_distant(rounds: int) -> Any:
    x, w = lib.distant(ROWS), lib.distant(WEIGHTS)
    for _ in range(rounds):
        x = lib.warp(lib.frobnicate(x, w))
    return x.fetch()


CASES = [
    Case("nodescope.adapters.numpy_engine", "nodescope", "matmul", _train_engine, _fail_engine,
         Exception, _loop_engine),
    Case("tests.adapters.foreign.adapter", "distant", "frobnicate", _train_distant, _fail_distant,
         ArithmeticError, _loop_distant),
]  # fmt: skip
