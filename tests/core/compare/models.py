"""Programs of various kinds, in which numbers become large in a given step.

Each takes ``large``, the step in which its data is a hundred times larger, or 0 for none, and runs
`STEPS` steps. The compiled function is named ``step`` unless there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn

STEPS = 5
Program = Callable[[int], None]
PROGRAMS: dict[str, tuple[Program, str]] = {}
"""The programs by name, each with an op whose result is large in the step with large data."""
F = nn.functional


def program(op: str) -> Callable[[Program], Program]:
    def register(function: Program) -> Program:
        PROGRAMS[function.__name__] = (function, op)
        return function

    return register


def data(large: int, *shape: int, dtype: Any = np.float32, seed: int = 0) -> Iterator[ns.Tensor]:
    rng = np.random.default_rng(seed)
    for step in ns.steps(range(1, STEPS + 1)):
        scale = 100.0 if step == large else 1.0
        yield ns.tensor((rng.uniform(-1, 1, shape) * scale).astype(dtype), name="x")


def trained(net: Any, loss: Callable[[Any, Any], Any], lr: float = 1e-3) -> Any:
    descent = ns.optim.SGD(net, lr=lr, momentum=0.9)

    @ns.compile
    def step(x: Any) -> Any:
        descent.zero_grad()
        result = loss(net, x)
        result.backward()
        descent.step()
        return result

    return step


@program("conv2d")
def convolution(large: int) -> None:
    rng = np.random.default_rng(1)
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3, rng=rng, padding="same"), nn.BatchNorm2d(2), nn.relu, nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8, 3, rng=rng),
    )  # fmt: skip
    step = trained(net, lambda net, x: np.mean(net(x) ** 2))
    for x in data(large, 2, 1, 4, 4):
        step(x)


@program("matmul")
def attention(large: int) -> None:
    rng = np.random.default_rng(1)
    net = nn.TransformerBlock(8, 2, rng=rng, causal=True)
    weight = ns.parameter(rng.standard_normal((8, 8)), np.float32, name="first")

    @ns.compile
    def step(x: Any) -> Any:
        return np.mean(net(x @ weight) ** 2)

    for x in data(large, 2, 3, 8):
        step(x)


@program("add")
def lstm_scan(large: int) -> None:
    cell = nn.LSTMCell(3, 4, rng=np.random.default_rng(1))
    weight = ns.parameter(np.ones((4, 2)), np.float32, name="weight")

    def loss(net: Any, x: Any) -> Any:
        def one(state: Any, item: Any) -> Any:
            state = cell(item, state)
            return state, state[0]

        start = (np.zeros((2, 4), np.float32), np.zeros((2, 4), np.float32))
        _, hidden = ns.scan(one, start, x)
        return np.mean((hidden @ weight + np.sum(x)) ** 2)

    step = trained([weight, *cell.parameters()], loss)
    for x in data(large, 5, 2, 3):
        step(x)


@program("multiply")
def branches(large: int) -> None:
    @ns.compile
    def step(x: Any) -> Any:
        chosen = ns.cond(np.sum(x) > 0, lambda x: np.tanh(x) * 2.0, lambda x: x * x + x, x)
        return np.sum(chosen) + np.sum(x * 3.0)

    for x in data(large, 4, 3):
        step(x)


@program("while_loop")
def halving(large: int) -> None:
    @ns.compile
    def step(x: Any) -> Any:
        def more(carry: Any) -> Any:
            return np.max(np.abs(carry[1])) > 60.0

        count, rest = ns.while_loop(more, lambda carry: (carry[0] + 1, carry[1] / 2), (0, x))
        return rest, count

    for x in data(large, 6):
        step(x)


@program("square")
def own_derivative(large: int) -> None:
    @ns.custom_gradient
    def clipped(x: Any) -> Any:
        return np.square(x), lambda ct: ct * np.clip(x, -1, 1)

    step = ns.compile(ns.value_and_grad(lambda x: np.sum(clipped(x))), name="step")
    for x in data(large, 6):
        step(x)


@program("subtract")
def functions_of_functions(large: int) -> None:
    @ns.compile
    def inner(x: Any) -> Any:
        return x - 0.5

    @ns.compile
    def outer(x: Any) -> Any:
        return np.sum(inner(np.abs(x)) * 2.0)

    @ns.compile
    def separate(x: Any) -> Any:
        return np.tanh(x)

    for x in data(large, 6):
        outer(x)
        inner(separate(x))


@program("add")
def state_in_place(large: int) -> None:
    total = ns.parameter(np.zeros(4), np.float32, name="total")

    @ns.compile
    def step(x: Any) -> None:
        ns.assign(total, total * 0.5 + x)

    for x in data(large, 4):
        step(x)


@program("where")
def dropout(large: int) -> None:
    layer = nn.Dropout(0.5, rng=1)
    weight = ns.parameter(np.eye(6), np.float32, name="weight")
    step = trained([weight], lambda net, x: np.sum(np.where(x > 0, layer(x @ weight), x)))
    for x in data(large, 3, 6):
        step(x)


@program("multiply")
def half_precision(large: int) -> None:
    @ns.compile
    def step(x: Any) -> Any:
        return np.sum((x * np.float16(3) - x).astype(np.float32))

    for x in data(large, 8, dtype=np.float16):
        step(x)


@program("add")
def integers(large: int) -> None:
    @ns.compile
    def step(x: Any) -> Any:
        codes = x.astype("int64") + 7
        return codes, np.argmax(codes), codes % 3

    for x in data(large, 8):
        step(x)


@program("divide")
def several_outputs(large: int) -> None:
    @ns.compile
    def step(x: Any) -> Any:
        return {"more": x / 0.3, "top": (np.max(x), np.min(x)), "shape": x.shape}

    for x in data(large, 3, 4):
        step(x)


@program("square")
def sizes(large: int) -> None:
    @ns.compile(dynamic=True)
    def step(x: Any) -> Any:
        return np.sum(x * x, axis=1)

    for size, x in enumerate(data(large, 6, 3), 1):
        step(ns.tensor(x.numpy()[:size], name="x"))


@program("add")
def donated(large: int) -> None:
    @ns.compile(donate="state")
    def step(state: Any, x: Any) -> Any:
        return state * 0.5 + x

    state = ns.tensor(np.zeros(4, np.float32))
    for x in data(large, 4):
        state = step(state, x)


@program("matmul")
def derivative_outside(large: int) -> None:
    """The backward pass of a compiled function is a separate graph."""
    weight = ns.parameter(np.ones((3, 2)), np.float32, name="weight")

    @ns.compile
    def forward(x: Any) -> Any:
        return np.mean((x @ weight) ** 2)

    for x in data(large, 4, 3):
        forward(x).backward()


@program("multiply")
def evaluation_after(large: int) -> None:
    """The step with large data is the last call, after the loop."""

    @ns.compile
    def step(x: Any) -> Any:
        return np.sum(x * 2.0)

    for x in data(0, 4):
        step(x)
    step(ns.tensor(np.full(4, 100.0 if large else 1.0, np.float32)))
