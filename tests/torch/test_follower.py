"""A followed step while another thread takes its script, its memory or its lock away."""

from __future__ import annotations

import threading
from array import array as array_of
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from nodescope.adapters.torch.compat import storage_address
from nodescope.adapters.torch.follower.follower import Follower
from nodescope.adapters.torch.follower.known_storages import KnownStorages
from nodescope.adapters.torch.follower.rows import Rows
from nodescope.adapters.torch.follower.script import Fact, Item, Script
from nodescope.adapters.torch.places import Place


class _Tensor:
    """A tensor; another thread runs while its address is asked for."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._tensor, self._meanwhile = torch.arange(16.0), meanwhile
        self._version = 0

    def untyped_storage(self) -> Any:
        return self._tensor.untyped_storage()

    def data_ptr(self) -> int:
        self._meanwhile()
        return self._tensor.data_ptr()


def _script(outputs: int) -> Script:
    items = []
    for _ in range(outputs):
        item = Item(torch.ops.aten.exp.default, 0, 0)
        item.outputs, item.results = [Fact(1, torch.arange(16.0))], (0,)
        items.append(item)
    script = Script(items, 0)
    script.keep(array_of("q", [64] * outputs).tobytes(), 64)
    return script


def test_a_row_is_filled_and_copied() -> None:
    rows, script, room = Rows(), _script(2), np.zeros(128, np.uint8)
    rows.begin(script, on=True)
    rows.hold(room)
    for place, item in enumerate(script.items):
        assert rows.fill(_Tensor(lambda: None), item.outputs[0], place, script.items)
    assert room.view(np.float32).tolist() == [*range(16)] * 2
    assert rows.filled == 128
    assert not rows.fill(_Tensor(lambda: None), script.items[0].outputs[0], 0, script.items)


@pytest.mark.parametrize("outputs", [1, 3])
def test_another_script_is_left_as_it_is(outputs: int) -> None:
    rows, script, other = Rows(), _script(2), _script(outputs)
    rows.begin(script, on=True)
    empty = bytes(len(rows.between(0, 1)) * outputs)
    tensor = _Tensor(lambda: rows.begin(other, on=True))
    assert not rows.fill(tensor, script.items[1].outputs[0], 1, script.items)
    assert rows.between(0, outputs) == empty


def test_smaller_memory_is_not_written_beyond_its_end() -> None:
    rows, script = Rows(), _script(2)
    beyond = np.zeros(128, np.uint8)
    rows.begin(script, on=True)
    rows.hold(np.zeros(128, np.uint8))
    tensor = _Tensor(lambda: rows.hold(beyond[:32]))
    assert not rows.fill(tensor, script.items[0].outputs[0], 0, script.items)
    assert not beyond.any()


def test_a_thread_that_held_the_lock_when_the_program_forked_is_not_waited_for() -> None:
    follower = Follower(Place(), lambda *_: b"")
    thread = threading.Thread(target=follower._lock.acquire)
    thread.start()
    thread.join()
    follower.forked()
    assert follower._lock.acquire(blocking=False)


def test_a_storage_that_two_threads_come_to_has_one_number() -> None:
    storages, tensor = KnownStorages(), torch.ones(3)
    storage = tensor.untyped_storage()
    known = storages._add(storage_address(storage), storage)
    assert storages._add(storage_address(storage), storage) is known
    assert storages.storage(tensor) == known.number


def test_what_an_operator_draws_from_is_taken_once_it_has_run() -> None:
    """Or once it is not followed after all; until then, another thread may ask."""
    follower, script = Follower(Place(), lambda *_: b""), _script(2)
    follower.follow(script, with_statistics=False, states=100, checked=[])
    follower._drawn.append((0, b"state"))
    assert follower.take() is None
    follower.stop()
    taken = follower.take()
    assert taken is not None
    assert taken[5] == [(0, b"state")]
