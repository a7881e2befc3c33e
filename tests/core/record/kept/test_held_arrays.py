"""Recordings at level `values` of programs whose large arrays are held until they are written."""

from __future__ import annotations

import gc
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.writing import sharing
from nodescope.record import noted_rows
from nodescope.record.kept import waiting_packs
from nodescope.record.noted_outputs import statistics_of
from nodescope.record.recording import Recording
from nodescope.record.rows import CHANGED, WANTED

Array = np.ndarray[Any, Any]
SIZE, STEPS = 100, 12


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of arrays that each group of lots held."""
    counts: list[int] = []

    def counted(lots: Any, *arguments: Any, **options: Any) -> Any:
        pieces = [lot.piece[3] for lot in lots]
        counts.append(sum(len(arrays) for arrays in pieces if arrays is not None))
        return statistics_of(lots, *arguments, **options)

    monkeypatch.setattr(noted_rows, "statistics_of", counted)
    return counts


def arrays_in(path: Path, name: str) -> list[Array | None]:
    """The first output of each execution of a node; None where its elements are missing."""
    with Recording.open(path) as recording:
        (node,) = [row.node for row in recording.nodes() if row.node.name == name]
        seqs = [row.seq for row in recording.executions() if row.node == node.id]
        return [recording.array(node.outputs[0], seq) for seq in seqs]


def program(told: Callable[[str, Any], None]) -> None:
    """Views, writes in place and an optimizer; tells what it sees."""
    rng = np.random.default_rng(0)
    w = ns.parameter(rng.standard_normal((SIZE, SIZE)))
    optimizer = ns.optim.SGD([w], 0.01)
    for _ in ns.steps(range(STEPS)):
        x = ns.tensor(rng.standard_normal((SIZE, SIZE)))
        product = x @ w
        told("matmul", product)
        turned = np.transpose(product, (1, 0))
        told("transpose", turned)
        flat = ns.reshape(turned, (SIZE * SIZE,))
        told("reshape", flat)
        y = product * 2.0
        told("multiply", y)
        y[3:7] = 1.0
        y += 1.0
        (y.mean() + flat.mean()).backward()
        optimizer.step()
        optimizer.zero_grad()


def seen() -> tuple[dict[str, list[Array]], Callable[[str, Any], None]]:
    """What a program tells, copied at once; and the function that it tells it to."""
    arrays: dict[str, list[Array]] = {}
    return arrays, lambda name, x: arrays.setdefault(name, []).append(x.numpy().copy())


@pytest.mark.parametrize("waits", [True, False])
def test_a_recording_has_the_elements_that_the_program_saw(
    waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: list[int]
) -> None:
    if not waits:
        monkeypatch.setattr(waiting_packs, "MOST_BYTES", 0)
    path = tmp_path / "r.nscope"
    arrays, told = seen()
    with ns.record(path, "values"):
        program(told)
    assert sum(held) >= 3 * (STEPS - 2)
    for name, expected in arrays.items():
        recorded = arrays_in(path, name)
        assert len(recorded) == len(expected) == STEPS
        assert all(np.array_equal(a, b) for a, b in zip(recorded, expected, strict=True))


def test_a_recording_changes_no_result_and_adds_no_search(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    searches, search = [0], sharing._reachable

    def counted(*arguments: Any) -> Any:
        searches[0] += 1
        return search(*arguments)

    monkeypatch.setattr(sharing, "_reachable", counted)
    runs = []
    for level in (None, "timing", "values"):
        arrays, told = seen()
        before = searches[0]
        if level is None:
            program(told)
        else:
            with ns.record(tmp_path / f"{level}.nscope", level):
                program(told)
        runs.append((arrays, searches[0] - before))
    for arrays, many in runs[1:]:
        assert many == runs[0][1]
        assert all(np.array_equal(arrays[name], runs[0][0][name]) for name in arrays)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("steps", [3, 40])  # few arrays have rows of their own
def test_an_array_that_the_program_writes_to_is_missing_and_never_wrong(
    steps: int, waits: bool, tmp_path: Path, held: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not waits:
        monkeypatch.setattr(waiting_packs, "MOST_BYTES", 0)
    path, every = tmp_path / "r.nscope", 3
    with ns.record(path, "values"):
        for step in ns.steps(range(steps)):
            y = ns.full((SIZE, SIZE), float(step)) * 2.0
            z = y + 1.0
            if step % every == 2:
                y.data[5, 5] = np.nan
            del z
    assert sum(held) > steps
    products, sums = arrays_in(path, "multiply"), arrays_in(path, "add")
    for step, (product, total) in enumerate(zip(products, sums, strict=True)):
        assert total is not None
        assert (total == 2.0 * step + 1.0).all()
        if step % every == 2:
            assert product is None
        else:
            assert product is not None
            assert (product == 2.0 * step).all()
    lost = steps // every
    with closing(sqlite3.connect(path)) as database:
        flags = [
            row[0] for row in database.execute("SELECT flags FROM execution WHERE flags & 256")
        ]
        assert len(flags) == lost
        assert all(flag & WANTED and flag & CHANGED for flag in flags)
    with Recording.open(path) as recording:
        assert recording.dropped().blobs == lost


def test_a_pack_may_lose_all_of_its_arrays(tmp_path: Path, held: list[int]) -> None:
    path, results, many = tmp_path / "r.nscope", [], 130
    x = ns.ones((4 * SIZE, SIZE))
    with ns.record(path, "values"):
        results += [x * float(step) for step in ns.steps(range(many))]  # 42 MB: several packs
        for result in results[10:]:
            result.data[...] = 0.0
    assert sum(held) > many - 5
    products = arrays_in(path, "multiply")
    assert [product is None for product in products] == [False] * 10 + [True] * (many - 10)
    assert all((product == step).all() for step, product in enumerate(products[:10]))
    with Recording.open(path) as recording:
        _, nbytes = recording.kept_arrays()
        assert nbytes < many * results[0].nbytes / 2
        assert recording.dropped().blobs == many - 10
    with closing(sqlite3.connect(path)) as database:
        numbers = {row[0] for row in database.execute("SELECT DISTINCT blob FROM chunk")}
        packs = {row[0] for row in database.execute("SELECT blob FROM pack")}
    assert packs <= numbers


def test_an_array_that_became_equal_to_an_earlier_one_is_missing(
    tmp_path: Path, held: list[int]
) -> None:
    path = tmp_path / "r.nscope"
    with ns.record(path, "values"):
        for step in ns.steps(range(STEPS)):
            y = ns.full((SIZE, SIZE), float(step)) * 2.0
            z = ns.full((SIZE, SIZE), float(step)) + 1.0
            z.data[...] = y.data
    assert sum(held) > STEPS
    products, sums = arrays_in(path, "multiply"), arrays_in(path, "add")
    for step, (product, total) in enumerate(zip(products, sums, strict=True)):
        assert product is not None
        assert (product == 2.0 * step).all()
        assert total is None or (total == step + 1.0).all()
    assert sum(total is None for total in sums) >= STEPS - 3  # the first ones were copied


@pytest.mark.parametrize("deleted", [False, True])
def test_arrays_go_with_the_recording(deleted: bool, tmp_path: Path, held: list[int]) -> None:
    """Without a garbage collection, also if it is given up."""
    path, arrays = tmp_path / "r.nscope", []
    x = ns.ones((SIZE, SIZE))
    gc.collect()
    gc.disable()
    try:
        with ns.record(path, "values"):
            for step in ns.steps(range(3 * STEPS)):
                y = x * float(step)
                arrays.append(weakref.ref(y.data))
                if deleted and step == STEPS:
                    path.unlink()
            del y
        while any(array() is not None for array in arrays):  # by a thread of their own
            time.sleep(0)
    finally:
        gc.enable()
    assert deleted or sum(held) >= 2 * STEPS


def test_what_follows_the_end_of_an_array_may_use_the_engine(
    tmp_path: Path, held: list[int]
) -> None:
    path, threads, watching = tmp_path / "r.nscope", set(), []
    x = ns.ones((SIZE, SIZE))

    def ended(_: object) -> None:
        threads.add(threading.get_ident())
        _ = x + 1.0

    with ns.record(path, "values"):
        for step in ns.steps(range(20 * STEPS)):
            y = x * float(step)
            watching.append(weakref.ref(y.data, ended))
        del y
    while any(array() is not None for array in watching):  # by a thread of their own
        time.sleep(0)
    assert len(threads) > 1
    assert sum(held) > 2 * STEPS
    products = arrays_in(path, "multiply")
    assert len(products) == 20 * STEPS
    assert all(product is None or (product == step).all() for step, product in enumerate(products))
    assert any(product is not None for product in products)


def test_a_pack_has_no_more_arrays_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noted_rows, "MOST", 1000)
    path, x = tmp_path / "r.nscope", ns.ones(3)
    with ns.record(path, "values"):
        for step in ns.steps(range(3000)):
            _ = x * float(step) + 1.0
    with closing(sqlite3.connect(path)) as database:
        most, arrays = database.execute("SELECT max(arrays), sum(arrays) FROM pack").fetchone()
    assert most <= 1000
    assert arrays > 5900
