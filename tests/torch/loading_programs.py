"""Programs with a data loader whose workers compute; spawned workers import this module."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

import nodescope as ns


class Curves(Dataset[Any]):
    """Samples that are computed."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        x = torch.arange(4.0) + index
        return torch.sinh(x / 30), x.sum()


class Stream(IterableDataset[Any]):
    """The same samples as a stream, divided among the workers."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return (Curves()[index] for index in range(first, 16, step))


class Wrong(Curves):
    """One sample cannot be computed."""

    def __getitem__(self, index: int) -> Any:
        x, y = super().__getitem__(index)
        return (x @ torch.ones(3), y) if index == 5 else (x, y)


class Dying(Curves):
    """The second worker is killed before it has sent anything.

    What a dead worker has sent cannot always be opened, and PyTorch then raises one of many errors.
    """

    def __getitem__(self, index: int) -> Any:
        if index == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class Stopping(Curves):
    """The data set itself stops its worker, at one sample of the second worker."""

    def __getitem__(self, index: int) -> Any:
        x = torch.arange(4.0) + index
        ns.breakpoint("value[0] == 5", on=x)
        ns.breakpoint("value.nothing")
        return torch.sinh(x / 30), x.sum()


def _collated(samples: Any) -> Any:
    xs, ys = zip(*samples, strict=True)
    return torch.cosh(torch.stack(xs)), torch.stack(ys)


def batches(
    dataset: Any, how: str = "fork", *, collate: bool = False, workers: int = 2, **options: Any
) -> list[Any]:
    """The batches of a data set."""
    loader = DataLoader(
        dataset, batch_size=4, num_workers=workers,
        multiprocessing_context=how if workers else None,
        collate_fn=_collated if collate else None, **options,
    )  # fmt: skip
    return [[part.tolist() for part in batch] for batch in loader]


def train(how: str | None, **options: Any) -> list[Any]:
    """The results of some steps on such batches; ``how`` is None for no workers."""
    torch.manual_seed(0)
    loader = DataLoader(
        Curves(), batch_size=4, shuffle=True, num_workers=2 if how else 0,
        multiprocessing_context=how, **options,
    )  # fmt: skip
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    losses = []
    for _ in range(2):
        for x, y in loader:
            loss = (model(x)[:, 0] - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return [losses, model.weight.tolist(), torch.get_rng_state().tolist()]
