"""The memory of large results is reused once nothing refers to it, and never earlier."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine.codegen.c_backend import spare
from nodescope.ir.graph import TensorSpec

LARGE = TensorSpec((1 << 19,), "float32")


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    spare._POOL.clear()
    yield
    spare._POOL.clear()


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_what_is_let_go_is_taken_again() -> None:
    make = spare.maker(LARGE)
    first = make()
    where = address(first)
    del first
    assert address(make()) == where
    assert spare.kept_bytes() == 1 << 21


@pytest.mark.parametrize(
    "hold",
    [
        lambda x: x, lambda x: x[3:5], lambda x: x.reshape(2, -1).T, memoryview, weakref.ref,
        lambda x: np.lib.stride_tricks.as_strided(x, (2,), (4,)),
        lambda x: np.frombuffer(x, np.int32),
    ],
)  # fmt: skip
def test_what_is_held_stays(hold: Any) -> None:
    make = spare.maker(LARGE)
    array = make()
    where, reference = address(array), hold(array)
    del array
    arrays = [make() for _ in range(spare._MOST_PER_KIND - 1)]
    assert where not in map(address, arrays)
    assert len(set(map(address, arrays))) == len(arrays)
    del reference


@pytest.mark.parametrize("change", ["shape", "dtype", "writeable"])
def test_what_was_changed_is_not_taken(change: str) -> None:
    make = spare.maker(LARGE)
    array = make()
    where = address(array)
    if change == "shape":
        array.shape = (2, -1)
    elif change == "dtype":
        array.dtype = np.dtype(np.int32)
    else:
        array.flags.writeable = False
    del array
    result = make()
    assert address(result) != where
    assert (result.shape, result.dtype, result.flags.writeable) == ((1 << 19,), np.float32, True)


def test_only_so_much_is_kept() -> None:
    arrays = [spare.maker(TensorSpec((n << 20,), "float32"))() for n in range(1, 20)]
    assert spare.kept_bytes() <= spare.MOST_BYTES
    assert len(arrays) == 19
    small = spare.maker(TensorSpec((7,), "float32"))
    assert small() is not small()
    del arrays
    assert spare.kept_bytes() <= spare.MOST_BYTES


def test_results_of_several_calls_are_each_their_own() -> None:
    twice = ns.compile(lambda x: x * 2.0, backend="c")
    x = np.arange(1 << 19, dtype=np.float32)
    results = [twice(ns.tensor(x + i)) for i in range(6)]
    del results[1]
    results.append(twice(ns.tensor(x + 6)))
    for i, result in zip((0, 2, 3, 4, 5, 6), results, strict=True):
        assert np.array_equal(result.numpy(), (x + i) * 2)
