"""Sources of random choices: a seed, which is fast, or Hypothesis (see `drawn`).

Invariant: the same choices make the same graph.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np

T = TypeVar("T")


class Chooser(Protocol):
    """A source of choices."""

    def integer(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""


class Seeded:
    """Choices from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


class Choices:
    """Kinds of choices, all derived from integers."""

    def __init__(self, chooser: Chooser) -> None:
        self.integer = chooser.integer

    def one_of(self, things: Sequence[T]) -> T:
        return things[self.integer(0, len(things) - 1)]

    def chance(self, percent: int) -> bool:
        """True with a probability; a shrunk choice is False."""
        return self.integer(0, 99) >= 100 - percent

    def shuffled(self, things: Sequence[T]) -> list[T]:
        rest = list(things)
        return [rest.pop(self.integer(0, len(rest) - 1)) for _ in things]

    def numbers(self) -> np.random.Generator:
        """A generator for the contents of arrays."""
        return np.random.default_rng(self.integer(0, 1 << 20))
