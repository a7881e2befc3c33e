"""Tiles on several threads: the same bits, the caller's settings, and no endless wait."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nodescope.engine.codegen.numpy_backend import place, shares, tile_text
from nodescope.engine.codegen.numpy_backend.tile_text import zeros_alike
from tests.core.engine.codegen.numpy_backend import numpy_programs
from tests.core.engine.codegen.numpy_backend.test_numpy_backend import check, normal, runners


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of any size run in tiles, on three threads."""
    monkeypatch.setattr(place, "TILED_FROM", 3 << 20)
    monkeypatch.setattr(tile_text, "shares", lambda elements: 3)
    monkeypatch.setattr(shares, "threads", lambda environ: 3)
    monkeypatch.setattr(shares, "_pool", None)


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("name", sorted(numpy_programs.LARGE))
def test_shares_change_no_bit(name: str) -> None:
    function, inputs = numpy_programs.LARGE[name]
    with np.errstate(all="ignore"):
        fast = check(function, *inputs, passes=None)
    assert "run_shares" in fast.source


def _roots(x: Any) -> Any:
    return np.exp(np.sqrt(x) * 2.0) + x


@pytest.mark.usefixtures("three")
def test_the_callers_errstate_holds_in_every_share() -> None:
    x = np.abs(normal(600_000))
    x[-1] = -1.0
    _, fast = runners(_roots, [x], None)
    with np.errstate(all="ignore"):
        fast.run([x])
        result = fast.run([x])[0]
    assert np.isnan(result[-1])
    with np.errstate(invalid="raise"):
        for _ in range(20):  # Any thread may compute the share with -1.
            with pytest.raises(FloatingPointError, match="invalid value encountered in sqrt"):
                fast.run([x])
    with np.errstate(all="ignore"):
        assert fast.run([x])[0].tobytes() == result.tobytes()


@pytest.mark.usefixtures("three")
def test_several_program_threads_share_the_threads() -> None:
    xs = [np.abs(normal(500_000, seed=seed)) for seed in range(4)]
    plain, fast = runners(_roots, [xs[0]], None)
    expected = [plain.run([x])[0].tobytes() for x in xs]
    results: list[list[bytes]] = [[] for _ in xs]

    def work(i: int) -> None:
        results[i] += [fast.run([xs[i]])[0].tobytes() for _ in range(6)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(xs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[item] * 6 for item in expected]


@pytest.mark.usefixtures("three")
def test_each_tile_is_taken_once_and_the_first_error_is_raised() -> None:
    parts = [[(i, part) for i in range(40)] for part in range(3)]
    tiles_taken: list[int] = []

    def work(part: Any, turns: Iterator[int]) -> None:
        for i, _ in map(part.__getitem__, turns):
            tiles_taken.append(i)
            if i in failing:
                raise ValueError(str(i))

    failing: set[int] = set()
    shares.run_shares(work, parts)
    assert sorted(tiles_taken) == list(range(40))
    failing = {7, 8, 9}
    for _ in range(50):
        with pytest.raises(ValueError, match=r"^7$"):
            shares.run_shares(work, parts)


@pytest.mark.usefixtures("three")
def test_shares_of_a_share_do_not_wait_for_each_other() -> None:
    done: list[tuple[int, int]] = []

    def outer(part: Any, turns: Iterator[int]) -> None:
        for i in turns:

            def inner(part: Any, turns: Iterator[int], i: int = i) -> None:
                done.extend((i, j) for j in turns)

            shares.run_shares(inner, [range(5)] * 3)

    shares.run_shares(outer, [range(8)] * 3)
    assert sorted(done) == [(i, j) for i in range(8) for j in range(5)]


_PROGRAM = """
import os, threading
import numpy as np, nodescope as ns
def roots(x): return np.exp(np.sqrt(x) * 2.0) + x
run, other = ns.compile(roots), ns.compile(roots)
small, large = ns.tensor(np.ones(1000, np.float32)), ns.tensor(np.ones({size}, np.float32))
def names(): return sorted(t.name for t in threading.enumerate() if "share" in t.name)
other(small); other(small)
print(names())
first = run(large).numpy(); run(large)
print(bool(names()))
if (child := os.fork()) == 0:
    os._exit(0 if run(large).numpy().tobytes() == first.tobytes() else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_threads_are_made_when_they_are_needed_and_again_after_a_fork(threads: str) -> None:
    environment = {**os.environ, "NODESCOPE_THREADS": threads}
    many = threads != "1" and shares.threads(environment) > 1
    text = _PROGRAM.format(size=3 << 20)
    result = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=True,
        env=environment,
    )  # fmt: skip
    assert result.stdout.split("\n")[:3] == ["[]", str(many), "0"]


@pytest.mark.parametrize("name", ["minimum", "maximum", "fmin", "fmax"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_an_array_full_of_a_number_gives_what_the_number_gives(name: str, dtype: str) -> None:
    ufunc, rng = getattr(np, name), np.random.default_rng(0)
    special = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, 3.4e38]
    if np.dtype(dtype).kind != "f":
        special = [0, 1, 2, 100]
    for number in np.array(special, dtype):
        signed = number == 0 and not zeros_alike(ufunc, number.dtype, bool(np.signbit(number)))
        for size in (*range(1, 40), 1000):
            x = rng.choice(np.array(special, dtype), size)
            full = np.full(size, number)
            for first, other in ((ufunc(x, number), ufunc(x, full)),
                               (ufunc(number, x), ufunc(full, x))):  # fmt: skip
                assert np.array_equal(first, other, equal_nan=first.dtype.kind == "f")
                known = ~np.isnan(first) & ((first != 0) | (not signed))
                assert np.array_equal(np.signbit(first[known]), np.signbit(other[known]))
