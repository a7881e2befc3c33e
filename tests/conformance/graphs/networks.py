"""Graphs that `nodescope.compile` traces: random functions with gradients, and training steps.

Invariant: a graph is the compiler's input, with forward pass, backward pass and update.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import nodescope as ns
from nodescope import nn, ops, optim
from nodescope.engine.control.scan_op import record_scan
from nodescope.engine.crosscheck.values import quiet
from nodescope.engine.run import apply
from nodescope.engine.static.program import Program
from nodescope.errors import GradientError, NodescopeError
from nodescope.ops.calls import Scalar, call_of
from tests.conformance.graphs.choose import Seeded
from tests.conformance.graphs.making import REFUSED, Case
from tests.conformance.graphs.random_graph import make

F = nn.functional
_NOT = {"assign", "assign_add", "assign_sub", "read"}


def case_of(name: str, program: Program, arguments: list[Any]) -> Case:
    """The graph of a traced function, with its feeds."""
    fed: dict[int, Any] = dict(program.state)
    for (_, value), argument in zip(program._arguments, arguments, strict=True):
        fed[value] = argument
    graph = program.graph
    return Case(name, graph, dict(program.constants), tuple(fed[value] for value in graph.inputs))


def played(case: Case, given: list[Any], *, keeping: bool = False) -> list[Any]:
    """The values of a graph, computed by the engine's operations so that they are differentiable.

    Args:
        case: The graph.
        given: The values of its inputs.
        keeping: Whether scans keep what their derivatives need, as `nodescope.scan` does.
    """
    values: dict[int, Any] = {k: ns.tensor(array) for k, array in case.arrays.items()}
    values.update(zip(case.graph.inputs, given, strict=True))
    for node in case.graph.nodes:
        if ops.get(node.op).is_leaf:
            continue
        call = call_of(node)
        args = tuple(a.value if isinstance(a, Scalar) else values[a] for a in call.args)
        if keeping and node.op == "scan" and not node.attrs["kept"]:
            loop = {k: node.attrs[k] for k in ("carries", "columns", "length", "reverse")}
            result: Any = record_scan(node.attrs["body"], args, **loop)
        else:
            result = args[-1] if node.op in _NOT else apply(call.op, args, call.attrs)
        result = result if isinstance(result, tuple) else (result,)
        values.update(zip(node.outputs, result, strict=True))
    return [values[value] for value in case.graph.outputs]


@functools.lru_cache(maxsize=256)
def gradient_case(seed: int) -> Case | None:
    """A random function's value and gradients as one graph; None if it has none."""
    return differentiated(make(Seeded(seed), f"gradient of seed {seed}", most=14))


def differentiated(case: Case, *, keeping: bool = False) -> Case | None:
    """A function's value and gradients as one graph; None if it has none. See `played`."""
    arguments = [np.asarray(feed) for feed in case.feeds]
    smooth = tuple(i for i, argument in enumerate(arguments) if argument.dtype.kind == "f")
    if not smooth:
        return None

    def loss(*arguments: Any) -> Any:
        total: Any = 0.0
        for array in played(case, list(arguments), keeping=keeping):
            if array.dtype.kind == "f":
                total = total + np.sum(array * array + array)
        return total

    compiled = ns.compile(ns.value_and_grad(loss, smooth), name="differentiated")
    try:
        with quiet():
            program = compiled.graph(*arguments)
    except (GradientError, NodescopeError, *REFUSED):
        return None
    return case_of(case.name, program, arguments)


def gradient_cases(first: int, count: int) -> list[Case]:
    """Those of a range of seeds."""
    return [
        item for seed in range(first, first + count) if (item := gradient_case(seed)) is not None
    ]


# Training steps

RNG = np.random.default_rng


def _trained(
    name: str, net: Any, descent: Any, loss: Callable[[Any, Any], Any], x: Any, y: Any
) -> Case:
    def step(x: Any, y: Any) -> Any:
        descent.zero_grad()
        result = loss(net(x), y)
        result.backward()
        descent.step()
        return result

    return case_of(name, ns.compile(step, name=name).graph(x, y), [x, y])


def mlp() -> Case:
    rng = RNG(0)
    net = nn.Sequential(nn.Linear(6, 5, rng=rng), nn.relu, nn.Linear(5, 3, rng=rng))
    x, y = rng.standard_normal((4, 6)).astype("float32"), np.array([0, 2, 1, 1])
    return _trained("mlp", net, optim.SGD(net, lr=0.1, momentum=0.9), F.cross_entropy, x, y)


def deep() -> Case:
    rng = RNG(1)
    net = nn.Sequential(
        nn.Linear(4, 6, rng=rng), nn.LayerNorm(6), F.gelu, nn.Linear(6, 6, rng=rng), np.tanh,
        nn.Linear(6, 2, rng=rng),
    )  # fmt: skip
    x, y = rng.standard_normal((5, 4)).astype("float32"), rng.standard_normal((5, 2))
    return _trained("deep", net, optim.AdamW(net, lr=0.01), _square, x, y.astype("float32"))


def _square(result: Any, y: Any) -> Any:
    return np.mean((result - y) ** 2)


def convolutional() -> Case:
    rng = RNG(2)
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3, rng=rng, padding="same"), nn.BatchNorm2d(3), nn.relu, nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3, rng=1), nn.Linear(27, 3, rng=rng),
    )  # fmt: skip
    x, y = rng.standard_normal((2, 1, 6, 6)).astype("float32"), np.array([0, 2])
    return _trained("convolutional", net, optim.Adam(net, lr=0.01), F.cross_entropy, x, y)


def recurrent() -> Case:
    rng = RNG(3)
    w, u = rng.standard_normal((2, 4, 4)) * 0.5
    x = rng.standard_normal((5, 2, 4))

    def loss(w: Any, u: Any, x: Any) -> Any:
        def step(h: Any, item: Any) -> Any:
            h = np.tanh(h @ w + item @ u)
            return h, h * 1.0

        last, states = ns.scan(step, np.zeros((2, 4)), x)
        return np.sum(last**2) + np.mean(states)

    result = ns.compile(ns.value_and_grad(loss, (0, 1, 2)), name="recurrent").graph(w, u, x)
    return case_of("recurrent", result, [w, u, x])


def transformer() -> Case:
    rng = RNG(4)
    net = nn.TransformerBlock(8, 2, rng=rng, causal=True)
    x, y = (rng.standard_normal((2, 3, 8)).astype("float32") for _ in range(2))
    return _trained("transformer", net, optim.SGD(net, lr=0.1), _square, x, y)


def branching() -> Case:
    x = np.linspace(-1.0, 1.0, 6).reshape(2, 3)

    def loss(x: Any) -> Any:
        chosen = ns.cond(np.sum(x) > 0, lambda x: np.tanh(x) * 2.0, lambda x: x * x + x, x)
        return np.sum(chosen * np.exp(x))

    result = ns.compile(ns.value_and_grad(loss), name="branching").graph(x)
    return case_of("branching", result, [x])


NETWORKS: tuple[Callable[[], Case], ...] = (
    mlp, deep, convolutional, recurrent, transformer, branching,
)  # fmt: skip


@functools.cache
def network(make_case: Callable[[], Case]) -> Case:
    """The case of one network, made once."""
    return make_case()
