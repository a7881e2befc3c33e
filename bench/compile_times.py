"""Compile times: from the decorated function to its first result, less one run.

Each figure is the median over processes that have compiled another, small function before, so what
is loaded once per process has its own row. C is measured cold, with an empty cache of libraries,
and warm, in another process that finds the libraries in the cache.

Invariant: every figure comes from a first call in a fresh process.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

import nodescope as ns
from bench import processes, programs
from bench.measure import Row, spent
from bench.programs.case import BACKENDS, NUMPY, C, Case
from bench.programs.ours import lowering_of, not_as_asked

REPEATS = 3
MEASURED = {"chain": 1, "mlp": 0, "lstm": 0, "cnn": 0, "transformer": 0}  # the case's index
KINDS = {"numpy": (NUMPY, 20.0, 5.0), "C, cold": (C, 300.0, 150.0), "C, warm": (C, 5.0, None)}


def rows() -> Iterator[Row]:
    loaded: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for program, index in MEASURED.items():
        name = programs.cases(program)[index].name
        answers: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
        broken = ""
        for _ in range(REPEATS):
            with tempfile.TemporaryDirectory() as cache:
                for kind, (backend, *_) in KINDS.items():
                    try:
                        answer = processes.measured(
                            "compile_times", processes.thread_counts()[-1], program, backend,
                            environment={"NODESCOPE_CACHE": cache},
                        )  # fmt: skip
                    except RuntimeError as error:
                        broken = str(error)
                    else:
                        answers[kind].append(answer)
                        loaded[kind].append(answer["loading"])
        for kind in KINDS:
            yield _row(name, kind, answers[kind], broken)
    for kind, times in loaded.items():
        if times:
            description = f"first compiled function of a process, {kind}"
            yield Row(
                description,
                "",
                statistics.median(times),
                "ms",
                detail="a small training step; with imports",
            )


def _row(name: str, kind: str, answers: list[dict[str, Any]], broken: str) -> Row:
    _, must, aim = KINDS[kind]
    missing = next((answer["missing"] for answer in answers if answer["missing"]), broken)
    figure, detail = None, missing
    if not missing:
        figure = statistics.median(answer["took"] for answer in answers)
        parts = {part: statistics.median(answer[part] for answer in answers)
                 for part in ("processor time", "passes", "back end", "run")}  # fmt: skip
        detail = ", ".join(f"{part} {took:.1f} ms" for part, took in parts.items())
    return Row(f"compiling, {name}, {kind}", "", figure, "ms", must=must, aim=aim, detail=detail)


def measured(program: str, backend: str) -> dict[str, Any]:
    """Measure in a separate process: milliseconds of its first function, and of this program."""
    (loading, *_), _, _ = _first(_small(BACKENDS[backend]))
    case: Case = programs.cases(program)[MEASURED[program]]
    contender = case.makers[backend]()
    first, usual, compiled = _first((contender.compiled, contender.inputs))
    lowering = lowering_of(compiled)
    return {
        "loading": loading,
        "took": first[0] - usual[0],
        "processor time": first[1] - usual[1],
        "passes": lowering.lower_ns / 1e6,
        "back end": lowering.build_ns / 1e6,
        "run": usual[0],
        "missing": not_as_asked(compiled, BACKENDS[backend]),
    }


def _small(backend: str) -> tuple[Any, tuple[Any, ...]]:
    """A training step of one weight matrix."""
    weight = ns.parameter(np.ones((3, 2), np.float32), name="weight")
    descent = ns.optim.SGD([weight], lr=0.1)

    def step(x: Any) -> Any:
        descent.zero_grad()
        loss = np.mean(np.tanh(x @ weight))
        loss.backward()
        descent.step()
        return loss

    return ns.compile(step, backend=backend), (ns.tensor(np.ones((4, 3), np.float32)),)


def _first(function: tuple[Any, tuple[Any, ...]]) -> tuple[list[float], list[float], Any]:
    """Wall and CPU milliseconds of the first call and of a later one, and the function."""
    compiled, inputs = function
    gc.collect()
    first = spent(lambda: compiled(*inputs), 1)
    later = [spent(lambda: compiled(*inputs), 1) for _ in range(5)]
    usual = [statistics.median(times) for times in zip(*later, strict=True)]
    return [times * 1e3 for times in first], [times * 1e3 for times in usual], compiled
