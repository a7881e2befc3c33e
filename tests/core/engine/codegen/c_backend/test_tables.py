"""Long runs of kernels are tables: the same results, and a text that hardly grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.codegen.c_backend import tables
from tests.core.engine.codegen.c_backend.test_c_backend import f32, ready

X, W = f32(6, 5), f32(5, 5)


def unrolled(steps: int) -> Any:
    def function(x: Any, w: Any) -> Any:
        results = []
        for step in range(steps):
            x = np.tanh(x @ w) * 1.5 + x[::-1]
            if step % 30 == 29:
                results.append(x.T.reshape(5, 6))
        return (x, *results)

    return function


def outputs(runner: Any) -> list[bytes]:
    return [np.asarray(array).tobytes() for array in runner.run([X, W])]


@pytest.mark.parametrize("steps", [40, 90])
def test_a_table_computes_what_calls_do(
    steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_table, _, _ = ready(unrolled(steps), X, W)
    assert "steps[] = {" in by_table.source
    monkeypatch.setattr(tables, "FEWEST", 1 << 60)
    # Use an empty cache, so that the plan is made again.
    monkeypatch.setenv("NODESCOPE_CACHE", str(tmp_path))
    by_calls, _, _ = ready(unrolled(steps), X, W)
    assert "steps[] = {" not in by_calls.source
    assert outputs(by_table) == outputs(by_calls)
    for runner in (by_table, by_calls):
        stamps = np.zeros(2 * len(runner.kernels), np.int64)
        runner.run_timed([X, W], stamps)
        assert (np.diff(stamps) >= 0).all()
        assert stamps[0] > 0


def test_what_is_compiled_hardly_grows() -> None:
    texts = [ready(unrolled(steps), X, W)[0].plan.texts for steps in (40, 80)]
    statements = [sum(text.count(";") for text in parts) for parts in texts]
    assert statements[0] == statements[1]


def test_an_error_in_a_long_run_names_its_node() -> None:
    def function(x: Any, i: Any) -> Any:
        for _ in range(50):
            x = np.tanh(x) + x[::-1]
        return x[i] * 2.0 + np.tanh(x[i])

    compiled = ns.compile(function, backend="c")
    x = ns.tensor(X)
    assert compiled(x, ns.tensor(np.array([0, 5]))).shape == (2, 5)
    with pytest.raises(IndexError):
        compiled(x, ns.tensor(np.array([0, 6])))


def test_rows_say_what_runs() -> None:
    rows = [
        tables.TableRow("ns_k0", 0, True, (0, 64), ((1, 0), (0, 128)), "a: tanh"),
        tables.TableRow("", 1, True, (-1, 0), (), "b: reshape"),
        tables.TableRow("ns_k1", 2, False, (-1, 30), ((0, 128), (2, 0))),
        tables.TableRow("ns_k0", 2, True, (0, 64), ((0, 128), (3, 8))),
    ]
    lines = tables.statements(rows, commented=True)
    assert lines[1:5] == [
        "/* a: tanh */ 0, 0, 1, 0, 64, 2, 1, 0, 0, 128,",
        "/* b: reshape */ -1, 1, 1, -1, 0, 0,",
        "1, 2, 0, -1, 30, 2, 0, 128, 2, 0,",
        "0, 2, 1, 0, 64, 2, 0, 128, 3, 8,",
    ]
    assert "{ns_k0, ns_k1}" in lines[6]
    assert "char *p[2];" in lines
