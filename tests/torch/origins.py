"""Finds orphans: versions of storages that are read, but were made or written by no recorded node.

PyTorch counts the writes to each tensor. A version is an orphan if this count is higher when it is
read than after the last recorded write, or if no recorded node made its storage. Data from the
program is declared: parameters, buffers, the state of optimizers, the data in calls such as
``torch.tensor``, uninitialised memory, and numbers that PyTorch turns into tensors, as for
``x[0] = 3``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._device import _device_constructors

from nodescope.adapters.torch.storages import counter_of, is_strided
from nodescope.adapters.torch.values import Values

_CONSTANTS = ("tensor", "as_tensor", "from_numpy", "empty", "empty_like")


class Origins:
    """What was read.

    Attributes:
        reads: The number of versions read.
        declared: The number of storages with declared data.
        numbers: The number of these that are numbers.
        orphans: A description of each orphan.
    """

    def __init__(self, tap: str) -> None:
        self.reads = 0
        self.declared = 0
        self.numbers = 0
        self.orphans: list[str] = []
        # By storage; tensors that share one without being views of each other have separate
        # counts.
        self._counts: dict[int, set[int]] = {}
        self._handed: list[Any] = []
        self._parameters: set[tuple[int, int]] = set()
        # A dispatch mode sees a write before PyTorch counts it.
        self._late = int(tap == "python")

    def read(self, values: Values, tensor: Any) -> None:
        """Note that a node reads a tensor."""
        memory = values.storages.memory(tensor) if is_strided(tensor) else None
        if memory is None:
            return
        self.reads += 1
        counts = self._counts.get(memory.serial)
        count = counter_of(tensor)
        own = tensor.is_leaf and tensor.requires_grad
        is_new = own and (memory.serial, id(tensor)) not in self._parameters
        if own:
            self._parameters.add((memory.serial, id(tensor)))
        if counts is None:
            if own or memory.owner is not None or self._is_handed(tensor):
                self.declared += 1
            elif tensor.ndim == 0 and tensor.is_cpu:
                self.declared += 1
                self.numbers += 1
            else:
                self.orphans.append(f"{tuple(tensor.shape)}: made by no node")
        elif count not in counts and count > min(counts) and not is_new:
            self.orphans.append(f"{tuple(tensor.shape)}: version {count}, written at {counts}")
        self._counts.setdefault(memory.serial, set()).add(count)

    def made(self, values: Values, tensor: Any) -> None:
        """Note that a node has made a tensor."""
        self._noted(values, tensor, {counter_of(tensor)})

    def wrote(self, values: Values, tensor: Any) -> None:
        """Note that a node has written to a tensor."""
        count = counter_of(tensor)
        self._noted(values, tensor, {count, count + self._late})

    def _noted(self, values: Values, tensor: Any, counts: set[int]) -> None:
        memory = values.storages.memory(tensor) if is_strided(tensor) else None
        if memory is not None:
            known = self._counts.setdefault(memory.serial, set())
            known.discard(min(counts) - 1)
            known |= counts

    def hand(self, original: Any) -> Any:
        """Wrap a function whose results are declared data."""

        @functools.wraps(original)
        def handing(*args: Any, **kwargs: Any) -> Any:
            tensor = original(*args, **kwargs)
            self._handed.append(tensor.untyped_storage())
            return tensor

        return handing

    def _is_handed(self, tensor: Any) -> bool:
        address = tensor.untyped_storage()._cdata
        return any(storage._cdata == address for storage in self._handed)


@contextmanager
def followed(tap: str) -> Iterator[Origins]:
    """Follow what the recorded nodes read, make and write."""
    origins = Origins(tap)
    id_of, made, wrote = Values.id_of, Values.made, Values.wrote

    def read(values: Values, tensor: Any) -> int:
        origins.read(values, tensor)
        return id_of(values, tensor)

    def make(values: Values, tensor: Any, id: int, **options: Any) -> None:
        made(values, tensor, id, **options)
        origins.made(values, tensor)

    def write(values: Values, tensor: Any, id: int) -> None:
        wrote(values, tensor, id)
        origins.wrote(values, tensor)

    _device_constructors()  # PyTorch caches this set, so compute it with the original functions.
    with (
        patch.multiple(Values, id_of=read, made=make, wrote=write),
        patch.multiple(torch, **{name: origins.hand(getattr(torch, name)) for name in _CONSTANTS}),
    ):
        yield origins
