"""The same small programs, written for each adapter's library."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.adapters.protocol import Adapter
from nodescope.ir.capabilities import Capabilities
from tests.adapters.foreign import library as lib

STEPS = 3
ROWS = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
WEIGHTS = np.linspace(-0.5, 0.5, 9).reshape(3, 3)


@dataclass(frozen=True)
class Case:
    """One adapter's programs. Each returns the elements of its last result.

    Attributes:
        adapter: The module with its ``ADAPTER``.
        dialect: The dialect of its nodes.
        product, bend, mean: Its ops for a product, an elementwise bend and a mean.
        train: Runs `STEPS` steps.
        loop: Runs a plain loop without steps for a number of rounds.
        grow: As ``loop``, but the op ``growing`` adds a row in each round, starting with one row.
        fail: Raises ``raises`` inside an operation.
        differentiate: Computes the mean of a bent product, and the gradient of its weight if the
            library has gradients.
        write: Multiplies by a weight, changes the weight by the op ``written``, multiplies again.
            The change is in place unless values are immutable.
        view: The op ``viewed`` returns a view of a row, whose elements are averaged.
        select: The op ``selected`` returns the positive elements.
        opaque: The op ``obscured`` returns something that is not an array; None if no op does.
        overflow: The op ``overflowing`` makes Inf from finite numbers.
        layer: The scope of ``train``'s product.
        tap: Which of PyTorch's taps is tested.
        label: The name of its node; by default, its op.
        weight: The op of ``differentiate``'s weight.
        around: A context that its programs need, kept for the whole session.
        marks: The marks of its tests.
    """

    adapter: str
    dialect: str
    product: str
    bend: str
    mean: str
    train: Callable[[], Any]
    loop: Callable[[int], Any]
    grow: Callable[[int], Any]
    growing: str
    fail: Callable[[], None]
    raises: type[Exception]
    differentiate: Callable[[], Any]
    write: Callable[[], Any]
    written: str
    view: Callable[[], Any]
    viewed: str
    select: Callable[[], Any]
    selected: str
    opaque: Callable[[], Any] | None
    obscured: str
    overflow: Callable[[], Any]
    overflowing: str
    layer: str = "layer"
    tap: str = ""
    label: str = ""
    weight: str = "parameter"
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    marks: tuple[pytest.MarkDecorator, ...] = ()

    @property
    def name(self) -> str:
        """A name that identifies the case."""
        return f"{self.dialect}{self.tap and '-'}{self.tap}"

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of its adapter."""
        adapter: Adapter = importlib.import_module(self.adapter).ADAPTER
        return adapter.capabilities()

    @property
    def product_name(self) -> str:
        """The last part of the name of the product's node."""
        return self.label or self.product


# nodescope's own engine


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


def _loop_engine(rounds: int) -> Any:
    x, w = ns.tensor(ROWS), ns.tensor(WEIGHTS)
    for _ in range(rounds):
        x = np.tanh(x @ w)
    return x.numpy()


def _grow_engine(rounds: int) -> Any:
    x = row = ns.tensor(ROWS[:1])
    for _ in range(rounds):
        x = np.concatenate([x, row])
    return x.numpy()


def _fail_engine() -> None:
    ns.tensor(np.ones((2, 3))) @ ns.tensor(np.ones((2, 3)))


def _differentiate_engine() -> Any:
    w = ns.parameter(WEIGHTS, name="w")
    np.mean(np.tanh(ns.tensor(ROWS) @ w)).backward()
    return w.grad.numpy()


def _write_engine() -> Any:
    w = ns.parameter(WEIGHTS, name="w")
    optimizer = ns.optim.SGD([w], lr=0.1)
    np.mean(ns.tensor(ROWS) @ w).backward()
    optimizer.step()
    return (ns.tensor(ROWS) @ w).numpy()


def _view_engine() -> Any:
    return np.mean(ns.tensor(ROWS)[1]).numpy()


def _select_engine() -> Any:
    return np.sort(np.unique(ns.tensor(np.round(ROWS)))).numpy()


def _overflow_engine() -> Any:
    with np.errstate(over="ignore"):
        return np.exp(ns.tensor(1e3 * ROWS)).numpy()


# The foreign library


def _train_distant() -> Any:
    w = lib.trained(WEIGHTS)
    for _ in range(STEPS):
        with lib.section("layer"):
            h = lib.warp(lib.frobnicate(lib.distant(ROWS), w))
        loss = lib.quash(h)
        lib.backward(loss)
        lib.optimizer_step(w, 0.1)
    return loss.fetch()


def _loop_distant(rounds: int) -> Any:
    x, w = lib.distant(ROWS), lib.distant(WEIGHTS)
    for _ in range(rounds):
        x = lib.warp(lib.frobnicate(x, w))
    return x.fetch()


def _grow_distant(rounds: int) -> Any:
    x = row = lib.distant(ROWS[:1])
    for _ in range(rounds):
        x = lib.pile(x, row)
    return x.fetch()


def _fail_distant() -> None:
    lib.refuse(lib.distant(ROWS))


def _differentiate_distant() -> Any:
    product = lib.frobnicate(lib.distant(ROWS), lib.trained(WEIGHTS))
    return lib.backward(lib.quash(lib.warp(product))).fetch()


def _write_distant() -> Any:
    w = lib.trained(WEIGHTS)
    lib.quash(lib.frobnicate(lib.distant(ROWS), w))
    lib.nudge_(w, 0.1)
    return lib.frobnicate(lib.distant(ROWS), w).fetch()


def _view_distant() -> Any:
    return lib.quash(lib.peek(lib.distant(ROWS), 1)).fetch()


def _select_distant() -> Any:
    return lib.warp(lib.sieve(lib.distant(ROWS))).fetch()


def _opaque_distant() -> Any:
    x = lib.distant(ROWS)
    lib.ponder(x)
    return lib.warp(x).fetch()


def _overflow_distant() -> Any:
    return lib.balloon(lib.distant(1e3 * ROWS)).fetch()


ENGINE = Case(
    adapter="nodescope.adapters.numpy_engine", dialect="nodescope",
    product="matmul", bend="tanh", mean="mean",
    train=_train_engine, loop=_loop_engine, grow=_grow_engine, growing="concatenate",
    fail=_fail_engine, raises=Exception, differentiate=_differentiate_engine,
    write=_write_engine, written="assign", view=_view_engine, viewed="getitem",
    select=_select_engine, selected="unique", opaque=None, obscured="",
    overflow=_overflow_engine, overflowing="exp",
)  # fmt: skip
DISTANT = Case(
    adapter="tests.adapters.foreign.adapter", dialect="distant",
    product="frobnicate", bend="warp", mean="quash",
    train=_train_distant, loop=_loop_distant, grow=_grow_distant, growing="pile",
    fail=_fail_distant, raises=ArithmeticError, differentiate=_differentiate_distant,
    write=_write_distant, written="nudge_", view=_view_distant, viewed="peek",
    select=_select_distant, selected="sieve", opaque=_opaque_distant, obscured="ponder",
    overflow=_overflow_distant, overflowing="balloon",
)  # fmt: skip
CASES = [ENGINE, DISTANT]
if importlib.util.find_spec("torch") is not None:  # Present in the environment of make test-torch.
    from tests.adapters.torch_case import TORCH

    CASES += [replace(TORCH, tap="python"), replace(TORCH, tap="native")]
if importlib.util.find_spec("ray") is not None:  # Present in the environment of make test-ray.
    from tests.adapters.ray_case import RAY

    CASES += [RAY]
