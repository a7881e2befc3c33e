"""Compile time by the size of the program: an unrolled GRU with its gradients.

Each figure is the time of a first call, less one run, in a process that has compiled a small
function before. C is measured cold, with an empty cache of libraries. jax traces the same loop
under `jax.jit`.

Invariant: all contenders compute the same loss and the same gradients.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import nodescope as ns
from bench import processes
from bench.measure import Row, spent
from bench.programs.case import BACKENDS, JAX, NUMPY, C
from bench.programs.ours import lowering_of, not_as_asked

STEPS = (1, 10, 30, 60, 120, 240)
REPEATS = 3
JAX_STEPS = 120  # with more, jax takes minutes and gigabytes
BATCH, INPUTS, HIDDEN = 8, 16, 32
PER_NODE_MS = 0.25


def rows() -> Iterator[Row]:
    for steps in STEPS:
        answers: dict[str, list[dict[str, Any]]] = {NUMPY: [], C: [], JAX: []}
        broken: dict[str, str] = {}
        for _ in range(REPEATS):
            for contender, known in answers.items():
                if contender == JAX and (known or steps > JAX_STEPS):  # at most once
                    continue
                try:
                    with tempfile.TemporaryDirectory() as cache:
                        known.append(processes.measured(
                            "unrolled", processes.thread_counts()[-1], contender, str(steps),
                            environment={"NODESCOPE_CACHE": cache},
                        ))  # fmt: skip
                except RuntimeError as error:
                    broken[contender] = str(error)
        yield from _rows(steps, answers, broken)


def _rows(
    steps: int, answers: dict[str, list[dict[str, Any]]], broken: dict[str, str]
) -> Iterator[Row]:
    took = {
        contender: statistics.median(answer["took"] for answer in known) if known else None
        for contender, known in answers.items()
    }
    name = f"compiling a GRU unrolled {steps} times"
    numpy_ms, native, other = took[NUMPY], took[C], took[JAX]
    nodes = answers[NUMPY][0]["nodes"] if answers[NUMPY] else 0
    yield Row(
        f"{name}, numpy, per node", "", None if numpy_ms is None else numpy_ms / nodes, "ms",
        must=PER_NODE_MS,
        detail=broken.get(NUMPY) or f"{numpy_ms:,.0f} ms, {nodes:,} nodes",
    )  # fmt: skip
    missing = broken.get(C) or broken.get(JAX) or next(
        (answer["missing"] for answer in answers[C] if answer["missing"]), "")  # fmt: skip
    figure = native / other if native is not None and other and not missing else None
    beside = "jax not measured" if other is None else f"jax {other:,.0f} ms"
    detail = missing or f"{native:,.0f} ms, {beside}"
    yield Row(f"{name}, C, cold", "jax.jit", figure, must=1.0, detail=detail)


def measured(contender: str, steps: str) -> dict[str, Any]:
    """Measure in a separate process: milliseconds of a contender's first call, and its nodes."""
    many = int(steps)
    if contender == JAX:
        return {"took": _took(_jax(1))[0] and _took(_jax(many))[0], "nodes": 0, "missing": ""}
    backend = BACKENDS[contender]
    _took(_ours(1, backend))
    step = _ours(many, backend)
    took, compiled = _took(step)
    nodes = len(lowering_of(compiled).traced.nodes)
    return {"took": took, "nodes": nodes, "missing": not_as_asked(compiled, backend)}


def _took(function: tuple[Callable[..., Any], Any]) -> tuple[float, Any]:
    compiled, argument = function
    gc.collect()
    first = spent(lambda: compiled(argument), 1)[0]
    later = statistics.median(spent(lambda: compiled(argument), 1)[0] for _ in range(3))
    return (first - later) * 1e3, compiled


def _data(steps: int) -> tuple[list[Any], Any]:
    rng = np.random.default_rng(0)
    shapes = [*[(INPUTS, HIDDEN)] * 3, *[(HIDDEN, HIDDEN)] * 3, *[(HIDDEN,)] * 3]
    parameters = [0.1 * rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    return parameters, rng.standard_normal((steps, BATCH, INPUTS)).astype(np.float32)


def _loss(np_: Any, parameters: Any, x: Any, hidden: Any, steps: int) -> Any:
    wr, wz, wn, ur, uz, un, br, bz, bn = parameters
    for step in range(steps):
        r = 1 / (1 + np_.exp(-(x[step] @ wr + hidden @ ur + br)))
        z = 1 / (1 + np_.exp(-(x[step] @ wz + hidden @ uz + bz)))
        n = np_.tanh(x[step] @ wn + r * (hidden @ un) + bn)
        hidden = (1 - z) * n + z * hidden
    return np_.mean(hidden * hidden)


def _ours(steps: int, backend: str) -> tuple[Any, Any]:
    arrays, x = _data(steps)
    parameters = [ns.parameter(array, name=f"p{i}") for i, array in enumerate(arrays)]

    def step(x: Any) -> Any:
        for parameter in parameters:
            parameter.grad = None
        hidden = ns.tensor(np.zeros((BATCH, HIDDEN), np.float32))
        loss = _loss(np, parameters, x, hidden, steps)
        loss.backward()
        return loss

    return ns.compile(step, backend=backend), ns.tensor(x)


def _jax(steps: int) -> tuple[Any, Any]:
    import jax  # type: ignore[import-not-found, unused-ignore]
    import jax.numpy as jnp  # type: ignore[import-not-found, unused-ignore]

    parameters, x = _data(steps)
    hidden = jnp.zeros((BATCH, HIDDEN), jnp.float32)
    graded = jax.jit(jax.value_and_grad(lambda p, x: _loss(jnp, p, x, hidden, steps)))
    ready = [jnp.asarray(array) for array in parameters]
    return lambda x: jax.block_until_ready(graded(ready, x)), jnp.asarray(x)
