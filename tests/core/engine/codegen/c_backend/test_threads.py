"""Large loops in C are divided among threads, without effect on results."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.codegen.c_backend import pool
from nodescope.engine.codegen.c_backend.generate import plan_of
from nodescope.engine.codegen.c_backend.runner import CRunner
from nodescope.passes.pipeline import Lowered, lower

F = ns.nn.functional
RNG = np.random.default_rng(5)
ROWS = RNG.standard_normal((1100, 301)).astype(np.float32)
FLAT = RNG.standard_normal(600_011).astype(np.float32)


def chain(x: Any) -> Any:
    t = np.tanh(x * 1.5)
    return np.exp(np.minimum(t * t - x, 0.0)) / np.sqrt(np.maximum(t, 0.0) + 1.0)


PROGRAMS = {
    "chain": (chain, FLAT),
    "functions of the C library": (lambda x: np.sin(x) + np.cos(x * 2.0), FLAT),
    "softmax": (lambda x: F.softmax(x, 1), ROWS),
    "rows": (lambda x: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True), ROWS.T),
    "sum over rows": (lambda x: np.sum(np.exp(x) * x, axis=0), ROWS),
    "sum in rows": (lambda x: np.sum(x * x, axis=1), ROWS),
    "sum of all": (lambda x: np.sum(np.tanh(x)), ROWS),
    "mean of all in float64": (lambda x: np.mean(x.astype(np.float64) * 0.1), ROWS),
    "extremes of all": (lambda x: (np.max(x * 2.0), np.min(x), np.sum(x)), ROWS),
    "largest, with NaN": (lambda x: np.max(x), np.where(ROWS > 4, np.nan, ROWS)),
    "deviation of all": (lambda x: np.std(x), ROWS),
    "products": (lambda x: np.all(x < 9.0), ROWS),
    "copy": (lambda x: np.transpose(x) + 0.5, ROWS),
    "join": (lambda x: np.concatenate([x, x * 2.0], axis=1), ROWS),
}  # fmt: skip


def lowered(function: Any, x: Any) -> Lowered:
    program = ns.compile(function).graph(ns.tensor(x))
    return lower(program.graph, program.constants)


def run(runner: CRunner, x: Any) -> bytes:
    return b"".join(array.tobytes() for array in runner.run([x]))


@pytest.fixture(autouse=True)
def _as_many_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, x = PROGRAMS[name]
    result, runners = set(), []
    for count in ("1", "2", "5"):
        monkeypatch.setenv("NODESCOPE_THREADS", count)
        # Runners share a library, which uses the last number of threads set, so run each one at
        # once.
        runner = CRunner(lowered(function, x))
        assert runner.threads == int(count)
        runners.append(runner)
        result |= {run(runner, x) for _ in range(5)}
    assert len(result) == 1
    wanted = function(ns.tensor(x.astype(np.float64)))
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for result, right in zip(runners[0].run([x]), wanted, strict=True):
        np.testing.assert_allclose(result, right.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [item for item in PROGRAMS if item != "deviation of all"])
def test_large_loops_are_divided(name: str) -> None:
    function, x = PROGRAMS[name]
    assert "ns_split(ns_k" in plan_of(lowered(function, x)).source
    assert "ns_split" not in plan_of(lowered(function, x[:50])).source


def test_kernels_give_the_bits_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODESCOPE_THREADS", "3")
    runner = CRunner(lowered(chain, FLAT))
    (kernel,) = runner.kernels.values()
    assert kernel(FLAT)[0].tobytes() == run(runner, FLAT)


def test_several_threads_of_the_program_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODESCOPE_THREADS", "3")
    runners = [CRunner(lowered(*PROGRAMS[item])) for item in ("chain", "softmax", "sum in rows")]
    feeds = [FLAT, ROWS, ROWS]
    wanted = [run(*item) for item in zip(runners, feeds, strict=True)]
    with ThreadPoolExecutor(6) as many:
        jobs = [(i % 3, many.submit(run, runners[i % 3], feeds[i % 3])) for i in range(60)]
        assert all(job.result() == wanted[i] for i, job in jobs)


_RUNNER: list[CRunner] = []


def _in_child(_: int) -> bytes:
    return run(_RUNNER[0], FLAT)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_children_make_threads_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODESCOPE_THREADS", "2")
    _RUNNER[:] = [CRunner(lowered(chain, FLAT))]
    wanted = _in_child(0)
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as children:
        assert all(item == wanted for item in children.map(_in_child, range(6), timeout=60))
    assert _in_child(0) == wanted


@pytest.mark.deep
def test_one_thread_starts_no_thread() -> None:
    # Run in a new process, where no other code has started threads.
    script = """
        import numpy as np, nodescope as ns, os
        f = ns.compile(lambda x: np.tanh(x) * 2.0, backend="c")
        before = len(os.listdir("/proc/self/task"))
        f(ns.tensor(np.ones(1 << 20, np.float32)))
        print(len(os.listdir("/proc/self/task")) - before)
    """
    counts = [
        int(subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], check=True, capture_output=True,
            text=True, env={**os.environ, "NODESCOPE_THREADS": many, "OMP_NUM_THREADS": "1"},
        ).stdout)
        for many in ("1", "2")
    ]  # fmt: skip
    assert counts[0] == 0
    assert counts[1] <= 1  # With one processor, there is no thread either.


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [({}, 8), ({"OMP_NUM_THREADS": "3"}, 3), ({"OMP_NUM_THREADS": "4,2"}, 4),
     ({"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "5"}, 2), ({"NODESCOPE_THREADS": "1"}, 1),
     ({"NODESCOPE_THREADS": "many"}, 8), ({"NODESCOPE_THREADS": "0"}, 8),
     ({"NODESCOPE_THREADS": "99"}, 8)],
)  # fmt: skip
def test_the_number_of_threads(environment: dict[str, str], wanted: int) -> None:
    assert pool.threads(environment) == wanted


def test_a_pool_runs_each_part_once() -> None:
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    count = (ctypes.c_int64 * 1000)()

    def part(_: Any, __: Any, i: int) -> None:
        count[i] += 1

    run_all = pool.library().function(
        "ns_pool", kind, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
    )
    run_all(kind(part), None, None, 1000, 4)
    assert list(count) == [1] * 1000


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("special", [[np.inf], [-np.inf], [np.inf, -np.inf], [np.nan]])
def test_sums_over_everything_keep_what_is_not_finite(dtype: Any, special: list[float]) -> None:
    x = np.ones(300_000, dtype)
    x[:: 299_999 // len(special)][: len(special)] = special
    runner = CRunner(lowered(lambda t: (np.sum(t), np.max(t), np.min(t)), x))
    with np.errstate(invalid="ignore"):
        wanted = [np.sum(x), np.max(x), np.min(x)]
    np.testing.assert_array_equal(runner.run([x]), wanted)
